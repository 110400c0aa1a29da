"""Nothing is lost in a crash: kills, cut files, full disks, rivals leave the rows of a quiet run.

Plain sentences with tiny-english over a small support: real, and cheap. Ten kills need many of
them, the rest only some.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from multiprocessing.process import BaseProcess
from pathlib import Path

import killable
import pytest
from assets import real_model

from unmask.evaluation.rows import Row
from unmask.evaluation.store.merging import saves
from unmask.evaluation.store.parts import read_part
from unmask.evaluation.store.run_folder import parts, read_plan, read_run

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.long]

MANY, SOME = 200, 60
# how many examples further a run is killed; 0 is while it starts
KILLED_AFTER = [0, 0, 1, 1, 2, 2, 4, 4, 8, 12]
SUPPORT = "a,A,man,woman,in,on,the,is,of,with,and,."
# the least of them, and one with a solver
METHODS = "mlm,hcb,pseudo-gibbs"
METHOD_COUNT = 3

Arguments = Callable[..., list[str]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences mostly of the support: of others, each start would mask and reject many."""
    who, where = ("man", "woman", "boy", "girl", "dog"), ("park", "street", "house", "car", "boat")
    texts = [
        f"{article} {one} is {place} the {thing} with a {other}."
        for article in ("A", "The")
        for one, other in permutations(who, 2)
        for place in ("in", "on")
        for thing in where
    ]
    path = tmp_path_factory.mktemp("corpus") / "some.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def arguments(corpus: Path) -> Arguments:
    """The command line of an evaluation into a folder."""

    def of(output: Path, *more: str, examples: int = SOME) -> list[str]:
        return [
            *("evaluate", str(corpus), "--model", str(real_model("tiny-english"))),
            *("--output", str(output), "--examples", str(examples // 2), "--method", METHODS),
            *("--support", SUPPORT, "--batch-size", "64", "--save-every", "0", "--quiet", *more),
        ]

    return of


def values(row: Row) -> dict[str, object]:
    """All of a row but its time."""
    return {name: value for name, value in row.to_dict().items() if name != "seconds"}


def saved(folder: Path) -> list[dict[str, object]]:
    """Every row of every part, as often as it was written."""
    plan = read_plan(folder)
    assert plan is not None
    rows = [row for path in parts(folder) for row in read_part(path, plan.digest)]
    return sorted(map(values, rows), key=lambda row: (row["example_id"], row["construction"]))


def saves_of(folder: Path) -> int:
    """How often rows were saved: parts that were merged are fewer."""
    return max((saves(path.name)[1] for path in parts(folder)), default=0)


def quiet_run(folder: Path, arguments: Arguments, examples: int) -> list[dict[str, object]]:
    assert killable.finish(arguments(folder / "run", examples=examples), folder / "log") == 0
    rows = saved(folder / "run")
    assert len(rows) == examples * METHOD_COUNT
    assert not any(row["error"] for row in rows)
    return rows


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, arguments: Arguments
) -> list[dict[str, object]]:
    return quiet_run(tmp_path_factory.mktemp("undisturbed"), arguments, SOME)


def test_ten_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, arguments: Arguments) -> None:
    (tmp_path / "quiet").mkdir()
    undisturbed = quiet_run(tmp_path / "quiet", arguments, MANY)
    again, log = arguments(tmp_path / "run", examples=MANY), tmp_path / "log"
    moments = random.Random(20)
    for further in moments.sample(KILLED_AFTER, len(KILLED_AFTER)):
        # a random moment after so many examples; never the last
        wanted = saves_of(tmp_path / "run") + further
        process = killable.start(again, log)
        _wait_for(lambda wanted=wanted: saves_of(tmp_path / "run") >= wanted, process)
        process.join(moments.uniform(0, 0.1 if further else 1))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "a run that has ended cannot be killed"
    assert 0 < saves_of(tmp_path / "run") < MANY
    assert killable.finish(again, log) == 0
    assert saved(tmp_path / "run") == undisturbed


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, arguments: Arguments) -> Path:
    """A run saved in parts of several examples."""
    folder = tmp_path_factory.mktemp("done")
    assert killable.finish(arguments(folder / "run", "--save-every", "0.2"), folder / "log") == 0
    assert 3 < len(parts(folder / "run")) < SOME
    return folder / "run"


@pytest.mark.parametrize("kept", [0, 3, 0.5, -1])
def test_cut_parts_are_set_aside_and_done_again(
    tmp_path: Path, arguments: Arguments, done: Path, undisturbed, kept
) -> None:
    subprocess.run(["cp", "-r", str(done), str(tmp_path / "run")], check=True)
    for path in parts(tmp_path / "run")[::3]:
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * kept) if isinstance(kept, float) else kept])
    assert killable.finish(arguments(tmp_path / "run"), tmp_path / "log") == 0
    assert saved(tmp_path / "run") == undisturbed
    said = (tmp_path / "log").read_text()
    assert "set aside and computed again" in said
    assert "Traceback" not in said
    assert list((tmp_path / "run").glob("rows/*/*.damaged"))


def test_a_full_disk_ends_in_one_line_and_the_run_goes_on_later(
    tmp_path: Path, arguments: Arguments, undisturbed
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)], check=True)
    try:
        assert killable.finish(arguments(disk / "run"), tmp_path / "log") == 2
        (said,) = (tmp_path / "log").read_text().splitlines()
        assert said.startswith("unmask: cannot write ")
        assert "No space left on device" in said
        before = saved(disk / "run")
        assert 0 < len(before) < len(undisturbed)
        assert not list(disk.glob("run/rows/*/.*")), "what was half written takes no room"
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        assert killable.finish(arguments(disk / "run"), tmp_path / "log") == 0
        assert saved(disk / "run") == undisturbed
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_complete_run_on_a_disk_that_is_read_only_has_nothing_to_do(
    tmp_path: Path, arguments: Arguments, done: Path, undisturbed
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", str(disk)], check=True)
    try:
        subprocess.run(["cp", "-r", str(done), str(disk / "run")], check=True)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert killable.finish(arguments(disk / "run"), tmp_path / "log") == 0
        assert (tmp_path / "log").read_text() == ""
        assert saved(disk / "run") == undisturbed
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        parts(disk / "run")[0].unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert killable.finish(arguments(disk / "run"), tmp_path / "log") == 2
        (said,) = (tmp_path / "log").read_text().splitlines()
        assert "cannot be written to, and " in said
    finally:
        subprocess.run(["umount", str(disk)], check=True)


CHANGED = {
    "activation": ("config.json", '"gelu"', '"relu"', "model.config.hidden_act is 'gelu' there"),
    "tokenizer": (
        "tokenizer.json",
        '"handle_chinese_chars": true',
        '"handle_chinese_chars": false',
        "model.tokenizer.normalizer.handle_chinese_chars is 'true' there, 'false' here",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_killed_run_does_not_go_on_with_a_changed_model(
    tmp_path: Path, arguments: Arguments, undisturbed, name: str
) -> None:
    file, old, new, said = CHANGED[name]
    model = Path(shutil.copytree(real_model("tiny-english"), tmp_path / "tiny-english"))
    again = arguments(tmp_path / "run", "--model", str(model))
    process = killable.start(again, tmp_path / "log")
    _wait_for(lambda: saves_of(tmp_path / "run") >= 5, process)
    process.kill()
    process.join()
    before, content = saved(tmp_path / "run"), (model / file).read_text(encoding="utf-8")
    assert old in content
    (model / file).write_text(content.replace(old, new), encoding="utf-8")
    assert killable.finish(again, tmp_path / "second") == 2
    (line,) = (tmp_path / "second").read_text().splitlines()
    assert line.startswith("unmask: the output holds a run with another plan: ")
    assert said in line
    assert saved(tmp_path / "run") == before
    (model / file).write_text(content, encoding="utf-8")
    assert killable.finish(again, tmp_path / "third") == 0
    assert (tmp_path / "third").read_text() == ""
    assert saved(tmp_path / "run") == undisturbed


def test_a_killed_run_goes_on_with_other_versions_and_says_so(
    tmp_path: Path, arguments: Arguments, undisturbed
) -> None:
    again = arguments(tmp_path / "run")
    process = killable.start(again, tmp_path / "log")
    _wait_for(lambda: saves_of(tmp_path / "run") >= 5, process)
    process.kill()
    process.join()
    fake = (
        "import sys, transformers; transformers.__version__ = '99.0'; import unmask.cli;"
        " sys.exit(unmask.cli.main(sys.argv[1:]))"
    )
    second = subprocess.run(
        [sys.executable, "-c", fake, *again], capture_output=True, text=True, check=False
    )
    assert second.returncode == 0, second.stderr
    (line,) = second.stderr.splitlines()
    assert line.startswith(
        "unmask: result rows of this run were computed with other versions (transf"
    )
    assert "99.0 here" in line
    numbers = [{**row, "software": None} for row in saved(tmp_path / "run")]
    assert numbers == [{**row, "software": None} for row in undisturbed]
    manifest = json.loads((tmp_path / "run/rows/0-of-1/manifest.json").read_text())
    assert len(manifest["software"]) == 2


def test_a_rival_on_the_same_shard_is_refused_in_one_line(
    tmp_path: Path, arguments: Arguments, undisturbed
) -> None:
    first = killable.start(arguments(tmp_path / "run"), tmp_path / "first")
    lock = tmp_path / "run" / "rows" / "0-of-1"
    _wait_for(lambda: list(lock.glob("*.parquet")), first)
    # held amid its work until the rivals have been refused
    os.kill(first.pid, signal.SIGSTOP)
    assert killable.finish(arguments(tmp_path / "run"), tmp_path / "second") == 2
    (said,) = (tmp_path / "second").read_text().splitlines()
    assert said.startswith("unmask: another process is writing shard 0/1")
    overlap = arguments(tmp_path / "run", "--shard", "0/2")
    assert killable.finish(overlap, tmp_path / "third") == 2
    assert "overlaps" in (tmp_path / "third").read_text()
    os.kill(first.pid, signal.SIGCONT)
    first.join(300)
    assert first.exitcode == 0
    assert saved(tmp_path / "run") == undisturbed


def test_shards_share_a_folder(tmp_path: Path, arguments: Arguments, undisturbed) -> None:
    started = [
        killable.start(arguments(tmp_path / "run", "--shard", f"{i}/3"), tmp_path / f"log{i}")
        for i in range(3)
    ]
    for process in started:
        process.join(300)
    assert [process.exitcode for process in started] == [0, 0, 0]
    assert saved(tmp_path / "run") == undisturbed
    # each did its share, and one process of them all finds nothing left to do
    counted = Counter(path.parent.name for path in parts(tmp_path / "run"))
    assert set(counted) == {"0-of-3", "1-of-3", "2-of-3"}
    before = len(parts(tmp_path / "run"))
    assert killable.finish(arguments(tmp_path / "run"), tmp_path / "log") == 0
    assert len(parts(tmp_path / "run")) == before


def test_what_is_done_is_saved_when_asked_to_leave(tmp_path: Path, arguments: Arguments) -> None:
    """A batch system's SIGTERM: rows that wait for the next save are not lost."""
    patient = arguments(tmp_path / "run", "--save-every", "1000", examples=MANY)
    process = killable.start(patient, tmp_path / "log")
    _wait_for(lambda: (tmp_path / "run" / "plan.json").exists(), process)
    threading.Event().wait(1)
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 128 + signal.SIGTERM
    assert 0 < len(read_run(tmp_path / "run").rows) < MANY * METHOD_COUNT


def _wait_for(condition: Callable[[], object], process: BaseProcess) -> None:
    for _ in range(6000):
        if condition():
            return
        assert process.exitcode is None, "it ended before it began"
        threading.Event().wait(0.01)
    raise AssertionError("nothing happened for a minute")
