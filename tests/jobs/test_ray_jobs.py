"""Jobs on a Ray cluster: workers that are killed, units that kill them, a driver that is killed.

The cluster is one of this machine, with two CPUs, or the one that RAY_ADDRESS names.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import killable
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_every_kind import KINDS

from unmask import Settings, cli
from unmask.jobs.folder import Folder
from unmask.jobs.kinds import Kind, Reason
from unmask.jobs.model_source import ModelSource
from unmask.jobs.ray_workers import RayWorkers
from unmask.jobs.running import Job, Result, run_job
from unmask.jobs.worker import Worker
from unmask.language_model import LanguageModel
from unmask.records.files import open_input

pytestmark = [pytest.mark.long, pytest.mark.no_cover]

TEXTS = [f"the {one} saw a {two}." for one in ("cat", "dog", "man") for two in ("mat", "dog")]


@dataclass(frozen=True, kw_only=True)
class Tokens(Kind):
    """Counts tokens; a text with `fatal` in it ends its process."""

    seconds: float = 0.0
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name, verb = "tokens", "counted"

    output_columns: ClassVar = {"tokens": "int64", "model": "string", "reason": "string"}

    def read(self, lm: LanguageModel, rows: Sequence[Any]) -> list[Any]:
        return [row["text"] or Reason("it is empty") for row in rows]

    def run(self, lm: LanguageModel, items: Sequence[str]) -> list[list[dict[str, Any]]]:
        time.sleep(self.seconds)
        if any("fatal" in text for text in items):
            os.kill(os.getpid(), signal.SIGKILL)
        return [[{"tokens": len(lm.tokenizer(text)["input_ids"])}] for text in items]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Ray itself, connected; no process that shares the tests imports it for nothing."""
    import ray.data

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # other processes of this machine are none of its business
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")
        here = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": 2, "include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="critical", **here)
        # the kind of this file, which workers cannot import
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield ray
        ray.shutdown()


def run(
    texts: Sequence[str], model: str, place: Path, *, size: int, kind: Kind, on_ray: bool = True
) -> Result:
    """A job over texts, in units of so many."""
    source = place.parent / "in.txt"
    source.write_text("\n".join(texts) + "\n")
    where = ModelSource(place=model, device="cpu")
    lm = where.load()
    rows = open_input([str(source)])
    job = Job(kind=kind, input=rows, lm=lm, model_name="m", rows_per_unit=size)
    workers = RayWorkers(source=where, count=(2, 2)) if on_ray else None
    return run_job(job, str(place), workers=workers, progress=False)


def parts(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(place.glob("part-*"))}


def test_parts_of_a_cluster_are_those_of_this_process(cluster, model, tmp_path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS * 4))
    command = ["score", str(tmp_path / "in.txt"), "-m", model, "--rows-per-unit", "3", "--quiet"]
    for name, more in (("ray", ["--ray", "auto", "--workers", "1-2"]), ("here", [])):
        assert cli.main([*command, "-o", f"{tmp_path}/{name}/", *more]) == 0
    assert len(parts(tmp_path / "ray")) == 8
    assert parts(tmp_path / "ray") == parts(tmp_path / "here")
    assert cli.main([*command, "-o", f"{tmp_path}/out.csv", "--ray", "auto"]) == 0
    assert cli.main([*command, "-o", f"{tmp_path}/plain.csv"]) == 0
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()


def test_a_unit_that_kills_its_worker_is_named_and_all_others_are_done(
    cluster, model, tmp_path
) -> None:
    texts = [f"the cat {n}." for n in range(400)]
    texts[137] = "the fatal dog."
    result = run(texts, model, tmp_path / "run", size=1, kind=Tokens())
    assert (result.done, result.units) == (399, 400)
    (error,) = result.errors
    assert error.startswith("row 138 of ")
    assert error.endswith("in.txt': it ended its process 3 times, and is skipped")
    assert len(parts(tmp_path / "run")) == 399


def worker_pids() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"ray::MapWorker" in title:
                found.append(int(entry.name))
    return found


def test_killed_workers_lose_nothing(cluster, model, tmp_path) -> None:
    texts, draw, killed = [f"the cat {n}." for n in range(240)], random.Random(4), []
    expected = run(texts, model, tmp_path / "here", size=4, kind=Tokens(), on_ray=False)
    done = threading.Event()

    def kill() -> None:
        while len(killed) < 20 and not done.wait(draw.uniform(0.3, 1.5)):
            # after the first of its parts, so that the worker has its model
            if (pids := worker_pids()) and len(parts(tmp_path / "run")) > len(killed):
                victim = draw.choice(pids)
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        result = run(texts, model, tmp_path / "run", size=4, kind=Tokens(seconds=0.5))
    finally:
        done.set()
        thread.join()
    assert len(killed) >= 5
    assert (result.done, result.errors) == (expected.done, [])
    here = {name[:11]: content for name, content in parts(tmp_path / "here").items()}
    assert {name[:11]: content for name, content in parts(tmp_path / "run").items()} == here


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_killed_goes_on(cluster, model, tmp_path, kind: str) -> None:
    given = KINDS[kind]
    source, draw = tmp_path / "in.jsonl", random.Random(kind)
    source.write_text("\n".join(json.dumps(row) for row in given.rows))
    words = [str(source) if word == "FILE" else word for word in given.command]
    command = [*words, "-m", model, "--rows-per-unit", "1", "--quiet"]
    address = cluster.get_runtime_context().gcs_address
    # an evaluation is a folder
    ending = given.ending and f".{given.ending}"
    output = tmp_path / f"ray{ending}"
    folder = Path(f"{output}.parts") if ending else output
    again = [*command, "-o", f"{output}{'' if ending else '/'}", "--ray", address, "--workers", "1"]
    for count in (1, 5, 9):
        process = killable.start(again, tmp_path / "log")
        while len(list(folder.glob("part-*"))) < count:
            time.sleep(0.05)
            assert process.is_alive(), (tmp_path / "log").read_text()
        time.sleep(draw.uniform(0, 0.1))
        process.kill()
        process.join()
    assert killable.finish(again, tmp_path / "log") == 0
    plain = tmp_path / f"plain{ending}"
    assert cli.main([*command, "-o", f"{plain}{'' if ending else '/'}"]) == 0
    if ending:
        assert output.read_bytes() == plain.read_bytes()
    else:
        assert parts(output) == parts(plain)


def test_a_model_that_a_worker_cannot_load_ends_the_run_in_one_line(
    cluster, model, tmp_path, monkeypatch
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    lm = ModelSource(place=model, device="cpu").load()
    rows = open_input([str(tmp_path / "in.txt")])
    job = Job(kind=Tokens(), input=rows, lm=lm, model_name="m", rows_per_unit=2)
    workers = RayWorkers(source=ModelSource(place=str(tmp_path / "none")), count=(1, 1))
    with pytest.raises(Exception, match=r"a worker cannot go on: .*none"):
        run_job(job, str(tmp_path / "run"), workers=workers, progress=False)


def test_a_worker_is_for_pipelines_of_ray_data_too(cluster, model, tmp_path) -> None:
    table = pa.table({"n": range(12), "text": TEXTS * 2})
    scored = cluster.data.from_arrow(table).map_batches(
        Worker,
        fn_constructor_kwargs={"model": model},
        batch_format="pyarrow",
        compute=cluster.data.ActorPoolStrategy(size=1),
    )
    found = sorted(scored.take_all(), key=lambda row: row["n"])
    pq.write_table(table, tmp_path / "in.parquet")
    command = ["score", str(tmp_path / "in.parquet"), "-m", model, "-o", f"{tmp_path}/out.parquet"]
    assert cli.main([*command, "--quiet"]) == 0
    expected = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["text"] for row in found] == [row["text"] for row in expected]
    scores = [row["score"] for row in expected]
    assert [row["score"] for row in found] == pytest.approx(scores, abs=1e-6)


def test_two_drivers_in_one_folder_leave_valid_parts(model, tmp_path) -> None:
    """As in a bucket, which has no locks."""
    texts = [f"the cat {n}." for n in range(40)]
    first = run(texts, model, tmp_path / "run", size=4, kind=Tokens(), on_ray=False)
    folder = Folder(str(tmp_path / "run"), first.plan)
    before = parts(tmp_path / "run")
    for number in range(0, 10, 2):
        folder.forget(number)
    again = run(texts, model, tmp_path / "run", size=4, kind=Tokens(), on_ray=False)
    assert again.done == 10
    assert parts(tmp_path / "run") == before
    assert all(folder.receipts().values())
