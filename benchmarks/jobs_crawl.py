"""A file of many lines through `unmask score`: memory, speed next to a bare loop, and equal rows.

    python benchmarks/jobs_crawl.py --model models/tiny-english --lines 10000 100000 1000000

For each number of lines a process of its own scores them into a folder of parts, and prints its
peak memory and texts per second. The bare loop tokenises nothing and writes nothing: it runs the
forward passes of the same units, read before the clock starts. Rows are compared with those of
`score_texts` in memory, for the first lines.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import unmask
from unmask.jobs.executors.local import LocalExecutor
from unmask.jobs.kinds.score import Score
from unmask.jobs.merging import merge
from unmask.jobs.running import open_job, run_job
from unmask.jobs.work import Work
from unmask.sequences.scoring import score_texts

WORDS = [
    "a",
    "the",
    "man",
    "woman",
    "dog",
    "is",
    "are",
    "in",
    "on",
    "park",
    "street",
    "playing",
    "sitting",
    "red",
    "two",
    "with",
]
COMPARED = 2_000
BARE_UNITS = 4


def write_lines(path: Path, lines: int) -> None:
    """Sentences of 4 to 14 words, seeded."""
    draw = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            file.write(" ".join(draw.choices(WORDS, k=draw.randint(4, 14))) + ".\n")


def measure(model: str, lines: int) -> dict[str, Any]:
    """Everything about one number of lines."""
    torch.set_num_threads(1)
    lm = unmask.load(model)
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "in.txt", Path(folder) / "out"
        write_lines(source, lines)
        job = open_job(Score(), [str(source)])
        plan = job.plan(lm, name="model", dtype="float32")
        began = time.perf_counter()
        run_job(job, plan, str(output), LocalExecutor(lm), progress=False)
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        merge(str(output), Path(folder) / "out.jsonl", "jsonl")
        rows = [json.loads(row) for row in (Path(folder) / "out.jsonl").open(encoding="utf-8")]
        bare, texts = _bare(lm, job)
    some = rows[:COMPARED]
    there = score_texts(lm, [row["text"] for row in some])
    return {
        "lines": lines,
        "peak_mb": round(peak / 1000),
        "texts_per_second": round(lines / seconds, 1),
        "bare_texts_per_second": round(texts / bare, 1),
        "of_bare": round(lines / seconds * bare / texts, 3),
        "largest_difference": max(
            abs(row["score"] - one.score) for row, one in zip(some, there, strict=True)
        ),
    }


def _bare(lm: unmask.LanguageModel, job: Any) -> tuple[float, int]:
    """Seconds for the forward passes of some units, and their texts."""
    work = Work(job.kind, None)  # type: ignore[arg-type]
    units = [unit for unit, _ in zip(job.source.units(), range(BARE_UNITS), strict=False)]
    read = [work.read(lm, unit) for unit in units]
    began = time.perf_counter()
    for one in read:
        job.kind.run(lm, one.items)
    return time.perf_counter() - began, sum(len(one.items) for one in read)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="models/tiny-english")
    parser.add_argument("--lines", type=int, nargs="+", default=[1_000, 10_000])
    chosen = parser.parse_args()
    if len(chosen.lines) == 1:
        print(json.dumps(measure(chosen.model, chosen.lines[0])), flush=True)
        return 0
    for lines in chosen.lines:
        # memory is the peak of a process: each has its own
        given = [sys.executable, __file__, "--model", chosen.model, "--lines", str(lines)]
        subprocess.run(given, check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
