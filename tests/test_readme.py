"""The README's snippets run, and its table is the one that the results page holds."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import unmask
from assets import real_model

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "docs" / "results" / "first-joints.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.real
@pytest.mark.slow
def test_python_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = real_model("caption-bert")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks("python")).replace("bert-base-cased", str(model))
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    joint = names["joint"]
    assert isinstance(joint, unmask.Joint)
    assert joint.top(1)[0].tokens == ("man", "is")
    assert set(names["joints"]) == {"mlm", "mrf", "ag"}  # type: ignore[call-overload]


@pytest.mark.real
def test_command_runs() -> None:
    model = real_model("caption-bert")
    (command,) = [b for b in blocks("sh") if b.startswith('unmask fill "')]
    words = shlex.split(command.replace("bert-base-cased", str(model)))
    # `python -m unmask` is what the installed script calls
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["rank", "mlm", "prob", "log-pool", "prob"]
    assert re.search(r"^J = 0\.\d{3} bits: the two conditionals ", done.stdout, re.MULTILINE)
    assert "8,193 forward passes" in done.stderr


def rows(markdown: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in markdown.splitlines()
        if re.match(r"\| \d \|", line)
    ]


def test_the_table_is_the_published_one() -> None:
    page = RESULTS.read_text(encoding="utf-8")
    section = page.split("## Two ")[1].split("\n## ")[0]
    published = [[row[0], row[1], row[7]] for row in rows(section)]
    assert rows(README) == published
