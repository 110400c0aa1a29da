"""Every kind of job on both sinks, by one code: kills, a full disk, damage, and another job.

A sink is a file that is merged from parts, or a folder of parts. Whatever happens to a job,
repeating its command leaves the rows of a run that nothing happened to, or ends in one line and
changes nothing.
"""

import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import killable
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file

from unmask import cli
from unmask.jobs.model_source import ModelSource
from unmask.jobs.worker import Worker

UNITS, ROWS = 8, 16
DAMAGES = 5
NOUNS = ("cat", "dog", "man", "woman")
TEXTS = [f"the {one} saw the {other}." for one in NOUNS for other in NOUNS]


class Given(NamedTuple):
    """A command without its input, its rows, and an option that makes other rows."""

    command: list[str]
    rows: list[dict[str, str]]
    ending: str
    other: list[str]
    said: str


KINDS = {
    "score": Given(
        ["score", "FILE"],
        [{"text": text} for text in TEXTS],
        "csv",
        ["--base-two"],
        "base_two is 'false' there, 'true' here",
    ),
    "pairs": Given(
        ["pairs", "FILE", "--method", "log-pool"],
        [{"text": "the [MASK] saw [MASK].", "word1": t.split()[1], "word2": "mat"} for t in TEXTS],
        "csv",
        ["--half-tables"],
        "half_tables",
    ),
    "fill": Given(
        ["fill", "FILE"],
        [{"text": text.replace("saw", "[MASK]")} for text in TEXTS],
        "jsonl",
        ["--top", "3"],
        "top is '10' there, '3' here",
    ),
    "decode": Given(
        ["decode", "FILE", "--threshold", "3"],
        [{"text": text.replace("saw the", "[MASK] [MASK]")} for text in TEXTS],
        "jsonl",
        ["--threshold", "0"],
        "threshold is '3.0' there, '0.0' here",
    ),
    "dependence": Given(
        ["dependence", "FILE", "--samples", "4"],
        [{"text": text} for text in TEXTS],
        "tsv",
        ["--apc"],
        "apc is 'false' there, 'true' here",
    ),
    "consistency": Given(
        ["consistency", "FILE", "--random-orders", "2"],
        [{"text": text, "contrast": text.replace("cat", "dog")} for text in TEXTS],
        "jsonl",
        ["--random-orders", "3"],
        "orders is '2' there, '3' here",
    ),
    "evaluate": Given(
        ["evaluate", "FILE", "--column", "text", "--examples", "16", "--method", "mlm"],
        [{"text": text} for text in TEXTS],
        "",
        ["--seed", "1"],
        "seed is '0' there, '1' here",
    ),
}
CASES = [(kind, sink) for kind in KINDS for sink in ("file", "folder")]
# an evaluation is a folder that reports are made of
CASES.remove(("evaluate", "file"))


@dataclass(frozen=True)
class Case:
    """A job in a folder of its own, on one of the sinks."""

    place: Path
    given: Given
    arguments: list[str]
    model: str
    is_folder: bool

    @property
    def output(self) -> Path:
        return self.place / ("out" if self.is_folder else f"out.{self.given.ending}")

    @property
    def command(self) -> list[str]:
        slash = "/" * self.is_folder
        return [*self.arguments, "-m", self.model, "-o", f"{self.output}{slash}", "--quiet"]

    def run(self, *more: str, units: int | None = None) -> tuple[int, list[str]]:
        """The exit code, and the lines on stderr; interrupted when more than so many units run."""
        real, begun, err = Worker.answers, count(1), io.StringIO()

        def run(self: Worker, *given: Any) -> Any:
            if units is not None and next(begun) > units:
                raise KeyboardInterrupt
            return real(self, *given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Worker, "answers", run)
            with redirect_stderr(err), redirect_stdout(io.StringIO()):
                code = cli.main([*self.command, *more])
        return code, err.getvalue().splitlines()

    @property
    def parts(self) -> Path:
        """The folder that its parts are in."""
        return self.output if self.is_folder else Path(f"{self.output}.parts")

    def files(self) -> dict[Path, bytes]:
        """All files of the output, but for locks."""
        places = [*self.place.glob("out*"), *self.place.glob("out*/*"), *self.place.glob(".out*")]
        return {p: p.read_bytes() for p in places if p.is_file() and "_lock" not in p.name}

    def restore(self, files: dict[Path, bytes]) -> None:
        """Put an earlier state of the output there."""
        for place in self.files():
            place.unlink()
        shutil.rmtree(self.parts, ignore_errors=True)
        for place, content in files.items():
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(content)

    def rows(self) -> object:
        """The rows in their order, but for the time that they took."""
        if not self.is_folder:
            return self.output.read_text(encoding="utf-8")
        return [
            (part.name, [row | {"seconds": None} for row in pq.read_table(part).to_pylist()])
            for part in sorted(self.output.glob("part-*"))
        ]


class Job(NamedTuple):
    """A case with the rows and files of a run that nothing happened to, and of one half done."""

    case: Case
    rows: object
    whole: dict[Path, bytes]
    half: dict[Path, bytes]

    def check_whole(self) -> None:
        """The output is that of a run that nothing happened to, and nothing else is left."""
        assert self.case.rows() == self.rows
        left = [place.name for place in self.case.files() if place != self.case.output]
        assert [name for name in left if not name.startswith(("part-", "_part", "_plan"))] == [
            name for name in left if name.startswith("_card")
        ]


@pytest.fixture(scope="module", autouse=True)
def models_loaded_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelSource, "load", cache(ModelSource.load))
        yield


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def job(
    request: pytest.FixtureRequest, model: str, tmp_path_factory: pytest.TempPathFactory
) -> Job:
    kind, sink = request.param
    given, place = KINDS[kind], tmp_path_factory.mktemp(kind)
    assert len(given.rows) == ROWS
    lines = [json.dumps(row | {"long": "long " * 100}) for row in given.rows]
    (place / "in.jsonl").write_text("\n".join(lines))
    named = [str(place / "in.jsonl") if word == "FILE" else word for word in given.command]
    arguments = [*named, "--rows-per-unit", str(ROWS // UNITS)]
    case = Case(place, given, arguments, model, sink == "folder")
    assert case.run() == (0, [])
    rows, whole = case.rows(), case.files()
    case.restore({})
    code, said = case.run(units=UNITS // 2)
    (said,) = said
    assert code == 130
    assert re.fullmatch(
        rf"unmask: interrupted; 8 \w+s are saved in '{case.parts}'; repeat the command to go on",
        said,
    )
    return Job(case, rows, whole, case.files())


# --- kills -------------------------------------------------------------------------------------


def _killed(arguments: list[str], output: str, at: int, delay: float) -> None:
    """Run a command that is killed some time after so many operations on files of its output."""
    operations = count(1)

    def look(_: str, given: tuple[Any, ...]) -> None:
        paths = [os.fspath(one) for one in given if isinstance(one, str | os.PathLike)]
        if any(output in path for path in paths) and next(operations) == at:
            if not delay:
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()

    sys.addaudithook(look)
    os._exit(cli.main(arguments))


def forget_deaths(parts: Path) -> None:
    """Remove the receipts of units that were begun: so many kills are no sign of a bad unit."""
    for receipt in parts.glob("_part-*"):
        if b"begun" in receipt.read_bytes():
            receipt.unlink()


def check_kills(job: Job, kills: int) -> None:
    """Kill a job so often, as it starts, plans, runs and writes; then let it end."""
    draw, case, killed = random.Random(7), job.case, 0
    case.restore({})
    while killed < kills:
        at, delay = draw.randint(1, 40), draw.choice([0.0, draw.uniform(0, 0.05)])
        code = killable.call(_killed, case.command, str(case.output), at, delay)
        killed += code == -signal.SIGKILL
        forget_deaths(case.parts)
        if code == 0:
            # it was done before it was killed
            job.check_whole()
            case.restore({})
        else:
            assert code == -signal.SIGKILL
    assert case.run()[0] == 0
    job.check_whole()


@pytest.mark.slow
def test_kills_lose_no_row_and_repeat_none(job: Job) -> None:
    check_kills(job, 2)


@pytest.mark.long
def test_twenty_kills_lose_no_row_and_repeat_none(job: Job) -> None:
    check_kills(job, 20)


@pytest.mark.slow
def test_what_a_kill_leaves_of_a_part_or_a_merge_is_removed(job: Job) -> None:
    case = job.case
    case.restore(job.half)
    beside = case.place / f".{case.output.name}.7.unfinished"
    left = case.output / ".part.7.unfinished" if case.is_folder else beside
    # of another output
    other = case.place / f".{case.output.name}2.7.unfinished"
    for place in (left, other):
        place.write_text("some rows")
    assert case.run()[0] == 0
    assert not left.exists()
    assert other.exists()
    other.unlink()
    job.check_whole()


# --- a full disk, damage -----------------------------------------------------------------------


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """As with `ulimit -f`: the write that makes a file longer is cut off there, and fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_job_goes_on_later(job: Job) -> None:
    """As if a file could not become longer than all parts but one."""
    case = job.case
    sizes = [len(content) for place, content in job.half.items() if place.name.startswith("part-")]
    case.restore({})
    with files_up_to(max(sizes) - 1):
        code, (*_, said) = case.run()
    assert code == 2
    assert said.startswith(f"unmask: cannot write '{case.parts / 'part-00000'}")
    assert said.endswith(
        ": File too large; what was saved before is safe: allow larger files (ulimit -f) or choose "
        "another place, and repeat the command"
    )
    assert not list(case.parts.glob(".*")), "what was half written takes no room"
    assert case.run() == (0, [])
    job.check_whole()


def damaged(content: bytes, draw: random.Random) -> bytes:
    """The content cut off, with a bit flipped, or with some bytes zero or of another place."""
    place = draw.randrange(len(content))
    length = draw.randint(1, 64)
    rest = content[place + length :]
    match draw.randrange(5):
        case 0:
            return content[:place]
        case 1:
            return content[:place] + bytes(length) + rest
        case 2:
            return content[:place] + content[: len(content) - place - len(rest)] + rest
        case _:
            flipped = content[place] ^ 1 << draw.randrange(8)
            return content[:place] + bytes([flipped]) + content[place + 1 :]


@pytest.mark.slow
def test_a_damaged_output_is_mended_or_refused_in_one_line(job: Job) -> None:
    """Never wrong rows: neither after the command is repeated, nor in a merged file."""
    case, draw, noticed = job.case, random.Random(5), 0
    begun = job.whole if case.is_folder else job.half
    for _ in range(DAMAGES):
        parts = [place for place in begun if "part-" in place.name]
        hit = draw.choice(parts)
        case.restore({**begun, hit: damaged(begun[hit], draw)})
        if case.is_folder:
            check_merged(job)
        code, said = case.run()
        if code == 0:
            job.check_whole()
        else:
            assert (code, len(said)) == (2, 1), said
            assert not case.output.is_file()
        noticed += bool(said)
    assert noticed > DAMAGES / 4


def check_merged(job: Job) -> None:
    """A merged file has the rows of a run that nothing happened to, or fewer, or there is none."""
    output = job.case.place / "merged.parquet"
    output.unlink(missing_ok=True)
    with redirect_stderr(io.StringIO()) as err:
        code = cli.main(["merge", str(job.case.output), str(output), "--quiet"])
    if code == 2:
        assert (err.getvalue().count("\n"), output.exists()) == (1, False)
        return
    merged = [row | {"seconds": None} for row in pq.read_table(output).to_pylist()]
    rows = [row for _, rows in job.rows for row in rows]
    # without its receipt a part is not there
    assert merged == rows if code == 0 else all(row in rows for row in merged)


@pytest.mark.slow
def test_what_is_whole_is_not_computed_again(job: Job) -> None:
    """After parts that are cut off, empty or of another unit; after a receipt that is gone."""
    case = job.case
    if not case.is_folder:
        case.restore(job.half)
        assert case.run(units=UNITS // 2) == (0, [])
        job.check_whole()
        return
    parts = sorted(place for place in job.whole if place.name.startswith("part-"))
    case.restore(job.whole)
    parts[1].write_bytes(job.whole[parts[1]][:-300])
    parts[2].write_bytes(job.whole[parts[7]])
    parts[4].write_bytes(b"")
    (receipt,) = case.output.glob("_part-000005-*")
    receipt.unlink()
    said = ["unmask: damaged parts, which are computed again: 3"]
    assert case.run(units=4) == (0, said)
    assert {place: place.read_bytes() for place in parts[6:]}.items() <= job.whole.items()
    job.check_whole()
    assert case.run(units=0) == (0, [])


# --- another job -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_model(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of the same name and size, with another weight."""
    copy = shutil.copytree(model, tmp_path_factory.mktemp("other") / Path(model).name)
    weights = load_file(copy / "model.safetensors")
    name = next(name for name in weights if "word_embeddings" in name)
    weights[name][7] += 1.0
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    return str(copy)


@pytest.mark.slow
def test_another_job_is_refused_in_one_line(job: Job, other_model: str) -> None:
    """It leaves what is there, which the same command goes on with."""
    case, source = job.case, job.case.place / "in.jsonl"
    content = source.read_text()
    first, rest = content.split("\n", 1)
    # as long as before
    changed = first.replace("the cat", "the dog").replace("long", "lung") + "\n" + rest
    case.restore(job.half)
    for more, text, said in (
        (case.given.other, content, case.given.said),
        (["--rows-per-unit", "5"], content, "rows_per_unit is '2' there, '5' here"),
        (["--dtype", "bfloat16"], content, "model.dtype is 'float32' there, 'bfloat16' here"),
        (["-m", other_model], content, "model.weights is"),
        ([], changed, "'in.jsonl' of the input has changed"),
        (["--limit", "15"], content, "'in.jsonl' of the input has changed"),
    ):
        if more[:1] == ["--limit"] and case.given.ending == "":
            continue
        source.write_text(text)
        code, lines = case.run(*more)
        assert (code, len(lines)) == (2, 1), lines
        assert lines[0].startswith(f"unmask: '{case.parts}' holds the rows of another job: ")
        assert said in lines[0]
        assert case.files() == job.half
    source.write_text(content)
    # how the model is run is not what the job is
    assert case.run("--batch-size", "3") == (0, [])
    if not case.is_folder:
        # a file that is whole is made anew
        assert case.run(*case.given.other)[0] == 0
        assert case.rows() != job.rows
