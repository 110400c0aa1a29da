"""Rows of a run that is written by hand."""

from pathlib import Path

from evaluation_rows import a_row
from plans import a_plan

from unmask import Cloze
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan
from unmask.evaluation.rows import Row
from unmask.evaluation.store.run_writer import writing
from unmask.jobs.shards import Shard


def pairs(count: int = 5) -> list[MaskedPair]:
    cloze = Cloze("", (0, 1, 2, 3), (1, 2), (5, 6))
    return [
        MaskedPair(f"s{i:04}/random", f"s{i:04}", "random", cloze, None, 2) for i in range(count)
    ]


def rows(example: int, **changes: object) -> list[Row]:
    return [a_row(example, construction=name, **changes) for name in ("mlm", "ag-paper(steps=20)")]


def hold(folder: Path, plan: Plan | None = None, shard: Shard | None = None):
    return writing(folder, plan or a_plan(), shard or Shard(), lambda: Batch(tokens=2048))
