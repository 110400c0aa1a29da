"""What README and pages show under code is what it prints: words alike, numbers nearly."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from assets import real_model
from reading_pages import ROOT, alike, text_of
from reading_pages import pages as all_pages

from unmask import cli

pytestmark = pytest.mark.usefixtures("read_once")

BODY = r"((?:(?!```).*\n)*)```"
SHOWN = re.compile(rf"^```(python|sh)\n{BODY}\n\n```text\n{BODY}$", re.MULTILINE)
# of a table, where commas part numbers
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
MODELS = {
    "models/tiny-english": "tiny-english",
    "ckiplab/albert-tiny-chinese": "albert-tiny-chinese",
    "antiberty": "antiberty",
}
OTHERS = {
    "docs/tutorials/several-blanks.ipynb": "the Chinese model",
    "docs/how-to/proteins.md": "the antibody model",
}
WITHOUT = ("README.md", "docs/how-to/dependence.md", "docs/how-to/decode.md")
pages = pytest.mark.parametrize(
    "page",
    [
        *WITHOUT,
        *(pytest.param(p, marks=pytest.mark.assets(why)) for p, why in OTHERS.items()),
    ],
)


def blocks(page: str) -> list[tuple[str, str, str]]:
    return SHOWN.findall(text_of(ROOT / page))


@pytest.mark.real
@pages
def test_what_is_shown_is_what_is_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = blocks(page)
    assert found
    monkeypatch.chdir(tmp_path)
    for name, model in MODELS.items():
        if any(f'"{name}"' in code or f"-m {name}" in code for _, code, _ in found):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).symlink_to(real_model(model), target_is_directory=True)
    names: dict[str, Any] = {}
    exec("import unmask", names)
    for language, code, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if language == "python":
                exec(compile(code, page, "exec"), names)
            else:
                for line in code.replace("\\\n", " ").splitlines():
                    assert cli.main(shlex.split(line, comments=True)[1:]) == 0
        alike(printed.getvalue(), shown)


@pytest.mark.real
@pytest.mark.parametrize("name", ["score-pairs", "dependence"])
def test_a_table_that_is_shown_is_the_one_that_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command between two tables of a page reads the first and writes the second."""
    page = text_of(ROOT / "docs" / "how-to" / f"{name}.md")
    given, shown = re.findall(r"^```csv\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (line,) = re.findall(r"^unmask .*models/tiny-english.* -o .*$", page, re.MULTILINE)
    words = shlex.split(line)[1:]
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    Path("models/tiny-english").symlink_to(real_model("tiny-english"), target_is_directory=True)
    Path(words[1]).write_text(given, encoding="utf-8")
    assert cli.main(words) == 0
    said = capsys.readouterr().err.removeprefix("unmask: ").strip()
    assert said in " ".join(page.split())
    written = Path(words[words.index("-o") + 1]).read_text(encoding="utf-8").splitlines()
    for one, other in zip(written, shown.splitlines(), strict=False):
        assert NUMBER.sub("#", one) == NUMBER.sub("#", other)
        numbers, expected = (list(map(float, NUMBER.findall(row))) for row in (one, other))
        assert numbers == pytest.approx(expected, abs=1e-4)


def test_every_page_that_shows_what_a_block_prints_is_run() -> None:
    shown = {page for page in all_pages() if SHOWN.search(text_of(page))}
    assert shown == {ROOT / page for page in (*WITHOUT, *OTHERS)} - {ROOT / "README.md"}


def test_every_block_of_the_readme_shows_what_it_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 110
    code = re.findall(r"^```(?:python|sh)\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    shown = {block for _, block, _ in blocks("README.md")}
    # what installs, and what runs for days
    silent = [block for block in code if block not in shown]
    assert all(block.startswith(("git clone", "runs/table1.sh")) for block in silent), silent
