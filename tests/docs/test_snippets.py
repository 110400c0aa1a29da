"""Every snippet and every command of README and documentation runs, with stand-ins for models."""

import argparse
import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snippets
from snippets import ROOT, Block, Command, blocks, commands

from unmask import cli
from unmask.constructions.registered import REGISTERED
from unmask.records import corpora
from unmask.sequences import blimp

pytestmark = pytest.mark.usefixtures("read_once")

PAGES = snippets.pages()
SHELL = ("sh", "bash")
# what is no code, or none that this project could run
NO_CODE = {"", "csv", "json", "yaml", "text", "bibtex", "latex"}
NOT_HERE = {"sql": "DuckDB, which nothing else here needs"}
EXECUTED_ELSEWHERE = {
    "README.md": "tests/docs/test_shown_outputs.py, with the model that it names",
    "docs/how-to/dependence.md": "the same",
}
# commands that are only parsed, and why; any other is run
ONLY_PARSED = {
    ("--ray",): "starts Ray or needs a cluster; tests/jobs/test_ray_jobs.py runs it",
    ("--device", "cuda"): "needs a GPU",
    ("consistency",): "takes minutes; tests/cli/test_consistency_command.py runs it",
    ("--shift",): "needs a model of that kind; tests/model/test_masked_diffusion.py makes one",
    ("demo",): "serves until it is stopped; the demo has tests of its own",
}
OTHER_PROGRAMS = {
    "installs software": ("pip", "python", "python3", "helm"),
    "is about the repository": ("cd", "git"),
    "needs containers or Kubernetes": ("docker", "kubectl"),
    "changes the manifests to a registry that is the reader's": ("sed",),
    "needs a cluster": ("ray", "sbatch", "scontrol", "awk", "head"),
    "is about the machine's files": ("flock", "grep", "echo", "ls", "wc"),
    "is of the shell": (
        *("export", "source", "for", "do", "done", "if", "then", "fi", "wait", "exit"),
        *("gpus=4", "gpu", "gpu++", "code=$?", "head=$", "address=$", ":6379"),
    ),
}
# what variables of the pages may stand for
VARIABLES = {
    "gpu": "3",
    "gpus": "4",
    "address": "10.0.0.5:6379",
    "SLURM_ARRAY_TASK_ID": "0",
    "SLURM_ARRAY_TASK_COUNT": "8",
}
RUNS = ("bert-snli", "bert-xsum")
LOADS = re.compile(r'((?:unmask\.load|from_pretrained)\(|\bmodel=|\bplace=)"([^"]+)"')


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def of_pages(*languages: str, without: Iterable[str] = ()) -> Any:
    found = [page for page in PAGES if any(one.language in languages for one in blocks(page))]
    found = [page for page in found if name_of(page) not in without]
    return pytest.mark.parametrize("page", found, ids=name_of)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return snippets.save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Constructions that a page registers are not there for other tests."""
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets of the hub have the stand-in sentences and pairs, whatever their name."""

    def rows_of(
        place: str, columns: Sequence[str], split: str, *_: object
    ) -> Iterator[tuple[str, Any]]:
        if "sentence_good" in columns:
            rows = snippets.blimp_pairs()
        else:
            rows = [dict.fromkeys(columns, text) for text in snippets.SENTENCES]
        return ((split, row) for row in rows)

    library = SimpleNamespace(get_dataset_config_names=lambda place: ["anaphor_gender_agreement"])
    monkeypatch.setattr(corpora, "dataset_rows", rows_of)
    monkeypatch.setattr(blimp, "dataset_rows", rows_of)
    monkeypatch.setattr(blimp, "datasets_library", lambda *_: nullcontext(library))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a page's reader is: with the files that the page reads."""
    snippets.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- every block has its rule ------------------------------------------------------------------


def uncovered(block: Block) -> bool:
    language = block.language
    # a directive of the documentation's; its cells are run by the build, on pages that say so
    directive = language.startswith("{") and not language.startswith("{code")
    return not directive and language not in {*SHELL, *NO_CODE, *NOT_HERE, "python"}


def test_every_language_has_a_rule() -> None:
    for page in PAGES:
        for block in blocks(page):
            assert not uncovered(block), f"{name_of(page)}:{block.line}: {block.language!r}"
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks(page))


# --- Python ------------------------------------------------------------------------------------


@pytest.mark.slow
@of_pages("python", without=EXECUTED_ELSEWHERE)
def test_python_runs(page: Path, models: dict[str, str], folder: Path) -> None:
    code = snippets.python(page)
    code = LOADS.sub(lambda found: f'{found[1]}"{snippets.stand_in(found[2], models)}"', code)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, name_of(page), "exec"), names)


# --- commands ----------------------------------------------------------------------------------


def other_program(command: Command) -> bool:
    known = {name for names in OTHER_PROGRAMS.values() for name in names}
    return command.words[0] in known or re.match(r"[A-Z_]+=", command.words[0]) is not None


def only_parsed(words: Sequence[str]) -> bool:
    return any(set(wanted) <= set(words) for wanted in ONLY_PARSED)


def filled(word: str) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda found: VARIABLES[found[1]], word)


class Reader:
    """Runs a page's commands in order, as its reader would."""

    def __init__(
        self, models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        self.models, self.monkeypatch, self.capsys = models, monkeypatch, capsys
        self.evaluated: dict[str, list[str]] = {}

    def run(self, command: Command) -> None:
        words = [filled(word) for word in command.unmask]
        try:
            chosen = cli._parser(words[0]).parse_args(words)
        except SystemExit:
            pytest.fail(f"unmask {shlex.join(words)}: not a command")
        if only_parsed(words):
            return
        less = self._less_to_do(chosen)
        if chosen.command == "evaluate" and not chosen.dry_run:
            self._start_anew(chosen.output, [*words, *less])
        given = io.TextIOWrapper(io.BytesIO(command.standard_input()), encoding="utf-8")
        self.monkeypatch.setattr(sys, "stdin", given)
        for option in ("output", "figure"):
            if isinstance(where := getattr(chosen, option, None), str):
                Path(where).parent.mkdir(parents=True, exist_ok=True)
        code = cli.main([*self._with_stand_in(words), *less])
        out, err = self.capsys.readouterr()
        assert code == 0, f"unmask {shlex.join(words)}: {err}"
        if command.writes is not None and command.writes != "/dev/null":
            Path(command.writes).write_text(out, encoding="utf-8")

    def _with_stand_in(self, words: Sequence[str]) -> list[str]:
        found = list(words)
        if found[0] == "head":
            found[1] = snippets.stand_in(found[1], self.models)
        for place, word in enumerate(found[:-1]):
            # a model that a command before has made is taken as it is
            if word in ("-m", "--model") and not Path(found[place + 1]).is_dir():
                found[place + 1] = snippets.stand_in(found[place + 1], self.models)
        return found

    def _less_to_do(self, chosen: argparse.Namespace) -> list[str]:
        """Fewer examples than the default; after the first on a page, fewer constructions too."""
        if chosen.command != "evaluate":
            return []
        examples = int(chosen.examples or 1000)
        few = ["--examples", "1"] if examples > len(snippets.SENTENCES) else []
        quick = ["--method", "mlm,log-pool"] if self.evaluated and chosen.method is None else []
        return [*few, *quick]

    def _start_anew(self, output: str, words: list[str]) -> None:
        """Pages evaluate several things as one folder, which is refused where they differ."""
        places = [at for at, word in enumerate(words) if word == "--shard"]
        same = [word for at, word in enumerate(words) if at - 1 not in places]
        if self.evaluated.get(output) != same:
            self.evaluated[output] = same
            shutil.rmtree(output, ignore_errors=True)


@pytest.fixture(scope="module")
def runs(models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluations that a page speaks of as done before."""
    place = tmp_path_factory.mktemp("runs")
    corpus = place / "corpus.txt"
    corpus.write_text("\n".join(snippets.SENTENCES), encoding="utf-8")
    for name in RUNS:
        given = ["--method", "mlm,log-pool", "--corpus-name", name, "--quiet"]
        words = ["evaluate", str(corpus), "-m", models["words"], "-o", str(place / name), *given]
        assert cli.main(words) == 0
    corpus.unlink()
    return place


@pytest.mark.slow
@of_pages(*SHELL, without=["README.md"])  # tests/docs/test_shown_outputs.py
def test_commands_run(
    page: Path,
    models: dict[str, str],
    runs: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(runs, folder / "runs")
    reader = Reader(models, monkeypatch, capsys)
    for block in blocks(page):
        for command in commands(block.text) if block.language in SHELL else ():
            if command.unmask:
                reader.run(command)
            else:
                assert other_program(command), f"{name_of(page)}:{block.line}: {command.words}"
