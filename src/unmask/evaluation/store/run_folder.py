"""The folder of a run, as its readers see it: the plan, and the result rows that were saved.

    plan.json                        the plan, canonical JSON
    rows/0-of-2/part-000001.parquet  rows of a shard, one part per save, merged by the hundred
    rows/0-of-2/manifest.json        what the shard holds, for people and other programs
    locks/0-of-2.lock                held by the one process that writes this shard

Rows are what the parts hold: a manifest that was not rewritten before a crash is only out of date.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from unmask.errors import StoreError
from unmask.evaluation.plan import Plan
from unmask.evaluation.rows import Row
from unmask.evaluation.store.merging import SUFFIX, replaced
from unmask.evaluation.store.parts import DamagedPartError, OtherPlanError, read_contents, read_part
from unmask.printable import quoted

PLAN, ROWS, LOCKS, MANIFEST = "plan.json", "rows", "locks", "manifest.json"
# how often a folder is looked at anew when its parts are merged meanwhile
_LOOKS = 10
_T = TypeVar("_T")


@dataclass(frozen=True)
class Damaged:
    """A part that cannot be read, and why: `of_another_plan` if it is whole."""

    path: Path
    why: str
    of_another_plan: bool = False


@dataclass(frozen=True)
class Run:
    """A plan and its result rows, each example and construction once, in order of example.

    `missing` counts the examples of the plan that have no rows yet.
    """

    folder: Path
    plan: Plan
    rows: tuple[Row, ...]
    damaged: tuple[Damaged, ...]

    @property
    def missing(self) -> int:
        """Examples that are not done."""
        return self.plan.draw.count - len({row.example_id for row in self.rows})


def read_run(place: str | Path) -> Run:
    """Everything that a run's folder holds."""
    folder = Path(place)
    plan = read_plan(folder)
    if plan is None:
        raise StoreError(
            f"{quoted(str(folder), limit=150)} is not the folder of an evaluation: it has no {PLAN}"
        )
    found, damaged = _read_each(folder, lambda path: read_part(path, plan.digest))
    rows = _settled((path, row) for path, part in found for row in part)
    places = {one.label: place for place, one in enumerate(plan.constructions)}
    rows.sort(key=lambda row: (row.mask, row.example_id, places.get(row.construction, len(places))))
    return Run(folder, plan, tuple(rows), tuple(damaged))


def read_plan(folder: Path) -> Plan | None:
    """The plan of a folder; None if there is none."""
    path = folder / PLAN
    shown = quoted(str(path), limit=150)
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {shown}: {error}") from None
    try:
        values = json.loads(text)
    except ValueError:
        raise StoreError(f"{shown} is not JSON: it was changed since it was written") from None
    return Plan.from_dict(values)


@dataclass(frozen=True)
class Progress:
    """Which examples of a run have metrics, which only errors, and what cannot be read.

    `software` are the versions that computed its rows.
    """

    done: frozenset[str]
    failed: frozenset[str]
    damaged: tuple[Damaged, ...]
    software: frozenset[str]


def read_progress(folder: Path, plan: Plan) -> Progress:
    """What a process must know to go on: ids alone, so that millions of examples fit."""
    found, damaged = _read_each(folder, lambda path: read_contents(path, plan.digest))
    tried = [example for _, contents in found for example in contents.errors.items()]
    done = frozenset(name for name, error in tried if error is None)
    failed = frozenset(name for name, error in tried if error is not None) - done
    software = frozenset(line for _, contents in found for line in contents.software)
    return Progress(done, failed, tuple(damaged), software)


def parts(folder: Path) -> list[Path]:
    """The parts of all shards, in the order in which each shard wrote them.

    Those that a merged part stands for are not among them.
    """
    found = _listed(folder)
    # a folder that changes while it is listed may show neither a merged part nor what it replaced
    while found != (again := _listed(folder)):
        found = again
    gone = replaced(found)
    return [path for path in found if path not in gone]


def _listed(folder: Path) -> list[Path]:
    return sorted((folder / ROWS).glob(f"*/*{SUFFIX}"))


def _read_each(
    folder: Path, read: Callable[[Path], _T]
) -> tuple[list[tuple[Path, _T]], list[Damaged]]:
    """What is read of every part; from the start if one was merged with others meanwhile."""
    for _ in range(_LOOKS):
        found: list[tuple[Path, _T]] = []
        damaged: list[Damaged] = []
        try:
            for path in parts(folder):
                try:
                    found.append((path, read(path)))
                except DamagedPartError as error:
                    damaged.append(Damaged(path, str(error), isinstance(error, OtherPlanError)))
        except FileNotFoundError:
            continue
        return found, damaged
    raise StoreError(
        f"the result rows of {quoted(str(folder), limit=150)} keep changing; try again"
    )


def _settled(rows: Iterable[tuple[Path, Row]]) -> list[Row]:
    """One result row per example and construction: a failure counts until a later try succeeds."""
    found: dict[tuple[str, str], tuple[Path, Row]] = {}
    for path, row in rows:
        key = (row.example_id, row.construction)
        where, before = found.get(key, (path, None))
        if before is None or before.failed:
            found[key] = (path, row)
        elif not row.failed and _numbers(row) != _numbers(before):
            raise StoreError(
                f"the example {quoted(row.example_id)} has two different result rows of"
                f" {quoted(row.construction)}, in {where.parent.name}/{where.name} and"
                f" {path.parent.name}/{path.name}: they were copied between runs, or computed on"
                " two machines; remove one of the two"
            )
    return [row for _, row in found.values()]


def _numbers(row: Row) -> Row:
    # what a repetition must agree in
    return replace(row, seconds=0.0, device=None, software=None)
