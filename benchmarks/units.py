"""What units cost besides the model: parts and receipts, the loop around the model, a Ray cluster.

    python benchmarks/units.py parts --units 2000
    python benchmarks/units.py loop --texts sentences.txt --model models/tiny-english
    python benchmarks/units.py ray --units 100000 --workers 2
    python benchmarks/units.py throughput --texts sentences.txt --workers 2

`parts`: CPU milliseconds per unit that a worker notes, writes and receives, of 20 rows each.
`loop`: rows per second of a job over sentences, and of a bare loop over `lm.score`, in turns.
`ray`: milliseconds per trivial unit over so many workers, from the first outcome to the last, when
that first one came, and the largest memory of the driver.
`throughput`: rows per second of a job over sentences on a cluster, and of a bare `map_batches` over
`lm.score` that writes no parts, in turns; from the first result on, when the workers have started.
The cluster is the one that RAY_ADDRESS names, or one that is started here.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleaved import in_turns, ratios, spread

import unmask
from unmask.jobs.kinds import Kind
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.model_source import ModelSource
from unmask.jobs.ray_workers import LOCAL, RayWorkers, joined
from unmask.jobs.running import Job, run_job
from unmask.records.files import rows_in_memory
from unmask.records.rows import Record

TINY_ENGLISH = str(Path(__file__).parent.parent / "models" / "tiny-english")


_COLUMNS = {"score": "double", "reason": "string"}


@dataclass(frozen=True, kw_only=True)
class Nothing(Kind):
    """Rows without work."""

    settings: unmask.Settings = field(
        default_factory=lambda: unmask.Settings(progress=False), compare=False
    )

    name, verb = "nothing", "written"

    output_columns = _COLUMNS

    def read(self, lm: unmask.LanguageModel, rows: Sequence[Any]) -> list[Any]:
        """The texts."""
        return [row["text"] for row in rows]

    def run(self, lm: unmask.LanguageModel, items: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """Always the same."""
        return [[{"score": -1.0, "reason": None}] for _ in items]


def job_over(lm: unmask.LanguageModel, kind: Kind, texts: Sequence[str], size: int | None) -> Job:
    """A job over texts in memory."""
    rows = rows_in_memory([Record({"text": text}) for text in texts])
    return Job(kind=kind, input=rows, lm=lm, model_name="model", rows_per_unit=size)


def parts(lm: unmask.LanguageModel, units: int) -> dict[str, Any]:
    """The cost of a unit without a model."""
    job = job_over(lm, Nothing(), ["The man is in the park."] * 20 * units, 20)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        run_job(job, folder, progress=False)
        seconds = time.process_time() - began
    return {"units": units, "cpu_ms_per_unit": round(1000 * seconds / units, 3)}


def loop(lm: unmask.LanguageModel, texts: list[str], repeats: int) -> dict[str, Any]:
    """A job beside a bare loop over the library's own call, with the same batches."""
    job = job_over(lm, ScoreKind(), texts, None)
    size = job.cut().rows_per_unit
    quiet = unmask.Settings(progress=False)

    def bare() -> None:
        for start in range(0, len(texts), size):
            lm.score(texts[start : start + size], settings=quiet)

    def whole() -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_job(job, folder, progress=False)

    seconds = in_turns({"job": whole, "bare": bare}, repeats)
    return {
        "texts": len(texts),
        "rows_per_unit": size,
        "rows_per_second": {name: len(texts) / min(each) for name, each in seconds.items()},
        "of_bare": spread(ratios(seconds["bare"], seconds["job"])),
    }


@dataclass(frozen=True, kw_only=True)
class Timed(RayWorkers):
    """Workers, and when each of their outcomes came back, with its rows."""

    back: list[tuple[float, int]] = field(default_factory=list)

    def run(self, *given: Any) -> Any:
        """The outcomes."""
        for outcome in super().run(*given):
            self.back.append((time.monotonic(), outcome.counts["texts"]))
            yield outcome


def cluster() -> Any:
    """The cluster, for as long as the context lasts."""
    return joined("auto" if "RAY_ADDRESS" in os.environ else LOCAL)


def on_ray(model: str, units: int, workers: int) -> dict[str, Any]:
    """Trivial units over a cluster."""
    source = ModelSource(place=model, device="cpu")
    job = job_over(source.load(), Nothing(), ["The man is in the park."] * units, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder, cluster():
        timed, began = Timed(source=source, count=(workers, workers)), time.monotonic()
        result = run_job(job, folder, workers=timed, progress=False)
    times = [seconds for seconds, _ in timed.back]
    return {
        "units": result.done,
        "workers": workers,
        "seconds_to_the_first": round(times[0] - began, 2),
        "ms_per_unit": round(1000 * (times[-1] - times[0]) / (len(times) - 1), 3),
        "seconds": round(times[-1] - began, 1),
        "driver_mb_before": before // 1000,
        "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000,
    }


class Bare:
    """A model in a process of a cluster."""

    def __init__(self, source: ModelSource) -> None:
        self.lm = source.load()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The scores of a batch."""
        scores = self.lm.score(list(batch["text"]), settings=unmask.Settings(progress=False))
        return {"score": [score.score for score in scores]}


def throughput(model: str, texts: list[str], workers: int, repeats: int) -> dict[str, Any]:
    """A job on a cluster beside a bare `map_batches` with the same batches."""
    import ray.data

    source = ModelSource(place=model, device="cpu")
    # so many units that workers end at about the same time
    job = job_over(source.load(), ScoreKind(), texts, max(1, len(texts) // (20 * workers)))
    units, rates = job.cut().unit_count, dict[str, list[float]](job=[], bare=[])

    def rate(back: list[tuple[float, int]]) -> float:
        return (len(texts) - back[0][1]) / (back[-1][0] - back[0][0])

    def whole() -> None:
        timed = Timed(source=source, count=(workers, workers))
        with tempfile.TemporaryDirectory() as folder:
            run_job(job, folder, workers=timed, progress=False)
        rates["job"].append(rate(timed.back))

    def bare() -> None:
        bare_worker: Any = Bare
        rows = [{"text": text} for text in texts]
        scores = ray.data.from_items(rows, override_num_blocks=units).map_batches(
            bare_worker,
            batch_size=None,
            fn_constructor_args=(source,),
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=1,
        )
        batches = scores.iter_batches(batch_size=None)
        rates["bare"].append(rate([(time.monotonic(), len(batch["score"])) for batch in batches]))

    with cluster():
        in_turns({"job": whole, "bare": bare}, repeats)
    return {
        "texts": len(texts),
        "units": units,
        "workers": workers,
        "rows_per_second": {name: max(each) for name, each in rates.items()},
        "of_bare": spread(ratios(rates["job"], rates["bare"])),
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description="What units cost besides the model.")
    parser.add_argument("what", choices=("parts", "loop", "ray", "throughput"))
    parser.add_argument("--model", default=TINY_ENGLISH)
    parser.add_argument("--units", type=int, default=2000)
    parser.add_argument("--texts", type=Path, help="a file with a text per line")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.what == "ray":
        print(json.dumps(on_ray(given.model, given.units, given.workers)))
        return
    if given.what == "parts":
        print(json.dumps(parts(unmask.load(given.model, device="cpu"), given.units)))
        return
    texts = given.texts.read_text(encoding="utf-8").splitlines()
    if given.what == "throughput":
        print(json.dumps(throughput(given.model, texts, given.workers, given.repeats)))
    else:
        print(json.dumps(loop(unmask.load(given.model, device="cpu"), texts, given.repeats)))


if __name__ == "__main__":
    main()
