"""The folder of an evaluation, as its readers see it: what was measured, and the result rows.

It is the folder of a job (`jobs.folder`). Imports no torch: a report can be made where none runs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from unmask.durable import make_folder
from unmask.errors import StoreError
from unmask.evaluation.rows import COLUMNS, LabelledMethod, ResultRow
from unmask.jobs.folder import Shard, agree, folder_at, stored_plan
from unmask.jobs.kinds import counted
from unmask.jobs.parts import rows_of, table_of
from unmask.jobs.plan import JobPlan
from unmask.printable import quoted
from unmask.records import places

# the name of the kind, which torch is not imported for
KIND = "evaluate"


class CorpusIdentity(NamedTuple):
    """A corpus wherever it lies: its name in tables, and a hash of its sentences."""

    name: str
    sentences: int
    digest: str


@dataclass(frozen=True)
class EvaluationRun:
    """A plan and its result rows, each example and construction once, in order of example.

    `damaged` are the names of parts that cannot be read. `seconds` is how long all others took.
    """

    plan: JobPlan
    rows: tuple[ResultRow, ...]
    damaged: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def corpus(self) -> CorpusIdentity:
        """The corpus that the examples are from."""
        ((name, sentences, digest),) = self.plan.input
        return CorpusIdentity(str(name), int(str(sentences)), str(digest))

    @property
    def draw(self) -> Mapping[str, Any]:
        """The choice of examples, as `Evaluate.draw` has it."""
        draw: Mapping[str, Any] = self.plan.options["draw"]
        return draw

    @property
    def missing(self) -> int:
        """The examples of the plan that have no rows yet."""
        count: int = self.draw["count"]
        return count - len({row.example_id for row in self.rows})

    @property
    def failed(self) -> dict[str, str]:
        """The reasons why examples have no numbers, by example."""
        return {row.example_id: row.reason for row in self.rows if row.reason is not None}


def holds_run(place: str | Path) -> bool:
    """True if `evaluate` wrote this folder."""
    plan = stored_plan(str(place))
    return plan is not None and plan.kind == KIND


def read_run(place: str | Path) -> EvaluationRun:
    """Everything that the folder of an evaluation holds.

    Args:
        place: The folder that `evaluate` wrote.
    Returns:
        The plan and the result rows.
    Raises:
        StoreError: There is no run, or it is damaged.
    Examples:
        >>> from unmask.evaluation.run import read_run
        >>> len(read_run("results").rows)
        1
    """
    folder = folder_at(str(place))
    plan, rows, damaged, seconds = folder.plan, list[ResultRow](), [], 0.0
    if plan.kind != KIND:
        why = f"unmask {plan.kind} made it"
        raise StoreError(f"{places.shown(str(place))} is not the folder of an evaluation: {why}")
    try:
        for number, receipt in folder.receipts().items():
            try:
                table = folder.table(number, receipt)
            except StoreError:
                damaged.append(Path(folder.path(number)).name)
                continue
            rows += (ResultRow(**row) for row in rows_of(table))
            seconds += receipt["seconds"]
        labels = [LabelledMethod(**method).label for method in plan.options["constructions"]]
        order = {label: index for index, label in enumerate(labels)}
        rows.sort(key=lambda row: (row.mask, row.example_id, order[row.construction]))
        run = EvaluationRun(plan, tuple(rows), tuple(damaged), seconds)
        _ = run.corpus, run.missing, dict(run.draw["refused"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise StoreError(f"the plan is damaged: {quoted(str(error))}") from None
    return run


def copy_run(run: EvaluationRun, folder: str | Path) -> None:
    """A run as one part in a new folder, to be kept beside a paper or in a repository.

    It holds ids of examples and no text, and of errors only their kind: an error may name machines,
    folders and text.
    """
    place = str(folder)
    if os.path.exists(place) and any(os.scandir(place)):
        raise StoreError(f"{places.shown(place)} is not empty; a run is copied into a new folder")
    rows = [
        replace(row, reason=row.reason and (row.reason.split(":")[0] or "an error"))
        for row in run.rows
    ]
    counts = counted(len({row.example_id for row in rows}))
    if reasons := {row.example_id: row.reason for row in rows if row.reason}:
        example = next(iter(reasons.values()))
        counts["without"] = {KIND: {"count": len(reasons), "example": example}}
    software = sorted({row.software for row in run.rows if row.software})
    facts = {"counts": counts, "seconds": round(run.seconds, 3), "software": "; ".join(software)}
    plan = replace(run.plan, rows_per_unit=run.draw["count"], units=1)
    make_folder(Path(place))
    table = table_of([*map(vars, rows)], COLUMNS)
    agree(place, plan, Shard()).write(0, table, facts)
