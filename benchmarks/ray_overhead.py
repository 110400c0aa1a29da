"""What Ray costs: rows per second of its workers on this machine against as many bare processes.

    python benchmarks/ray_overhead.py [--json] [--rounds 5] [--examples 80] [--workers 2]
                                      [--residues 12] [--output FILE]

The bare processes are those of `unmask evaluate --shard i/n`: each loads the model, measures its
share and writes it. With Ray, this process hands out the examples one by one and writes. Both do
the same examples with one thread each, in turns. Examples are antiberty's (25 tokens) on short
chains of residues with every construction: some 0.3 s each on a core, short enough for the cost of
a message to show, and a tenth of what a real one takes. Start-up is excluded on both sides: clocks
start when every worker has done its first example, for that one also loads compiled code. Rates are
of each worker from then to its own last example, summed: nothing is held against bare processes
that only comes of dividing in advance.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from interleaved import spread
from run import machine, versions

from unmask.evaluation.request import EvaluationRequest, Prepared, evaluate, prepare
from unmask.jobs.executors.local import LocalExecutor
from unmask.jobs.executors.ray_cluster import LOCAL, Cluster, RayExecutor
from unmask.jobs.executors.ray_pool import Answered, Event
from unmask.jobs.executors.ray_workers import RayTransport
from unmask.jobs.executors.task import Task
from unmask.jobs.model_source import ModelSource
from unmask.jobs.shards import Shard
from unmask.language_model import LanguageModel
from unmask.records.corpora import CorpusSpec
from unmask.settings import Settings

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
BATCH = 32


def corpus(folder: Path, examples: int, residues: int) -> Path:
    """Chains of residues, seeded."""
    draw = random.Random(11)
    path = folder / "chains.txt"
    chains = {" ".join(draw.choices(RESIDUES, k=residues)): None for _ in range(examples)}
    path.write_text("\n".join(chains) + "\n", encoding="utf-8")
    return path


def prepared(text: Path, model: str, examples: int) -> Prepared:
    return prepare(
        EvaluationRequest(
            corpus=CorpusSpec(place=str(text)),
            model=ModelSource(place=model, device="cpu"),
            masks=("random",),
            examples=examples,
            exact=True,
            settings=Settings(batch_size=BATCH),
        )
    )


def summed_rate(done: Sequence[Sequence[float]]) -> float:
    """Examples a second, from the moments at which each worker was done with each of its own."""
    warm = max(times[0] for times in done)
    rate = 0.0
    for times in done:
        counted = [at for at in times if at >= warm]
        if len(counted) < 3:
            raise RuntimeError(f"too few examples: a worker did {len(counted)}; give more")
        rate += (len(counted) - 1) / (counted[-1] - counted[0])
    return rate


class Timed(LocalExecutor):
    """This process, which waits for a line before it begins and notes what is done when."""

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__(lm)
        self.done: list[float] = []

    def run(self, task: Task, jobs: Iterable[Any]) -> Generator[Any, None, None]:
        print("ready", flush=True)
        sys.stdin.readline()
        for rows in super().run(task, jobs):
            self.done.append(time.time())
            yield rows


class WatchedTransport(RayTransport):
    """Notes which worker has done something when."""

    done: dict[int, list[float]]

    def wait(self, seconds: float) -> Sequence[Event]:
        events = super().wait(seconds)
        for event in events:
            if isinstance(event, Answered):
                self.done.setdefault(event.worker, []).append(time.time())
        return events


class TimedRay(RayExecutor):
    """Ray, with what is done when."""

    done: dict[int, list[float]]

    def _transport(self, task: Task) -> RayTransport:
        made = super()._transport(task)
        watched = WatchedTransport(self._ray, made.source, task, made.needs)
        watched.done = self.done = {}
        self._held.callback(watched.close)
        return watched


def be_bare(chosen: argparse.Namespace) -> int:
    """One of the bare processes: its share, and then its times on stdout."""
    torch.set_num_threads(1)
    work = prepared(Path(chosen.text), chosen.model, chosen.examples)
    executor = Timed(work.lm)
    evaluate(
        work,
        chosen.bare[1],
        shard=Shard.parse(chosen.bare[0]),
        executor=executor,
        progress=False,
    )
    print(json.dumps(executor.done), flush=True)
    return 0


def bare_rate(chosen: argparse.Namespace, folder: Path) -> float:
    """Processes that start at one moment; the sum of their rates."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(start_bare(chosen, f"{i}/{chosen.workers}", folder))
            for i in range(chosen.workers)
        ]
        for one in processes:
            answer(one, "ready")
        for one in processes:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        return summed_rate([json.loads(answer(one)) for one in processes])


def start_bare(chosen: argparse.Namespace, shard: str, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            *(sys.executable, __file__, "--bare", shard, str(folder)),
            *("--text", str(chosen.text), "--model", chosen.model),
            *("--examples", str(chosen.examples)),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(process: "subprocess.Popen[str]", wanted: str | None = None) -> str:
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if not said or (wanted is not None and said != wanted):
        raise RuntimeError(f"a bare process ended with {said!r}")
    return said


def ray_rate(chosen: argparse.Namespace, work: Prepared, ray: TimedRay, folder: Path) -> float:
    """Workers of a cluster that is up already, new ones in every round."""
    evaluate(work, folder, executor=ray, progress=False)
    if len(ray.done) != chosen.workers:
        raise RuntimeError(f"{len(ray.done)} workers took part, not {chosen.workers}")
    return summed_rate(list(ray.done.values()))


def measure(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    chosen.text = corpus(folder, chosen.examples, chosen.residues)
    work = prepared(chosen.text, chosen.model, chosen.examples)
    rates: dict[str, list[float]] = {"ray": [], "bare": []}
    cluster = Cluster(address=LOCAL, workers=chosen.workers)
    with TimedRay(work.request.model, cluster) as ray:
        for turn in range(chosen.rounds):
            for side in ("ray", "bare") if turn % 2 == 0 else ("bare", "ray"):
                place = folder / f"{side}-{turn}"
                rate = bare_rate(chosen, place) if side == "bare" else 0.0
                rates[side].append(rate or ray_rate(chosen, work, ray, place))
                print(f"round {turn + 1}, {side}: {rates[side][-1]:.2f} /s", file=sys.stderr)
    return report(chosen, work, rates)


def report(
    chosen: argparse.Namespace, work: Prepared, rates: dict[str, list[float]]
) -> dict[str, Any]:
    rows = len(work.plan.constructions)
    ratios = [ray / bare for ray, bare in zip(rates["ray"], rates["bare"], strict=True)]
    return {
        "machine": machine(),
        "versions": {**versions(), "ray": version("ray")},
        "rounds": chosen.rounds,
        "workers": chosen.workers,
        "examples": work.plan.draw.count,
        "rows_an_example": rows,
        "seconds_an_example": round(chosen.workers / statistics.median(rates["bare"]), 4),
        "rows_a_second": {
            side: [round(rate * rows, 3) for rate in found] for side, found in rates.items()
        },
        "ratio": spread(ratios),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "target": 0.9,
        "met": statistics.median(ratios) >= 0.9,
    }


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What Ray costs against bare processes.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a line")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=80, help="of a round, on each side")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--residues", type=int, default=12, help="length of the chains")
    parser.add_argument("--model", default=found_model(), help="folder of antiberty")
    parser.add_argument("--output", type=Path, help="write JSON to a file as well")
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--text", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def found_model() -> str:
    return str(Path(os.environ.get("UNMASK_TEST_MODELS", ".")) / "antiberty")


def main(given: list[str] | None = None) -> int:
    chosen = arguments(given)
    if chosen.bare:
        return be_bare(chosen)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(chosen, Path(folder))
    written = json.dumps(found, indent=2)
    if chosen.output:
        chosen.output.write_text(written + "\n", encoding="utf-8")
    line = "rows per second of Ray / of bare processes: {median} ({min} to {max})"
    print(written if chosen.json else line.format(**found["ratio"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
