"""One unit from its slice of the input to its part of the output: what a worker does.

Only what cannot be stored raises. A row that fails has a reason in its place; a unit that cannot be
read is an outcome with an error.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from unmask import __version__
from unmask.errors import CorpusError, StoreError, UnmaskError, UnmaskWarning
from unmask.jobs.executors.ray_failures import is_of_accelerator
from unmask.jobs.executors.task import Failure, OverlappedIO, Task
from unmask.jobs.kinds import FailedRows, Kind, Reason
from unmask.jobs.model_source import check_model
from unmask.jobs.plan import JobPlan
from unmask.jobs.tally import Tally
from unmask.language_model import LanguageModel
from unmask.printable import describe, printable, quoted
from unmask.records.files import InMemoryUnit, RowBatch, Unit, read_unit
from unmask.records.rows import Row


class Done(NamedTuple):
    """The outcome of a unit: its counters, or why it has none.

    `unread` means that the error is in the input.
    """

    unit: int
    tally: Tally
    seconds: float = 0.0
    error: str | None = None
    unread: bool = False


@dataclass(frozen=True)
class InMemoryInput:
    """Rows that need not be read, in units; `identity` is what they are recognised by."""

    rows: Sequence[Sequence[Row]]
    identity: list[list[object]]

    @property
    def unit_count(self) -> int:
        """How many units they are."""
        return len(self.rows)

    @property
    def texts(self) -> int:
        """How many rows."""
        return sum(map(len, self.rows))

    def units(self, start: int = 0) -> Iterator[InMemoryUnit]:
        """Every unit from one on, numbered from 0."""
        return (InMemoryUnit(n, rows) for n, rows in enumerate(self.rows) if n >= start)

    def to_dict(self) -> list[list[object]]:
        """What the input is known by."""
        return self.identity


class UnitRows(NamedTuple):
    """A unit under way: its rows, what the model is run on for each, and the result rows of each.

    `unread` means that the error is in the input.
    """

    batch: RowBatch
    items: Sequence[Any] = ()
    rows: Sequence[Sequence[Mapping[str, Any]]] = ()
    tally: Tally = Tally()
    seconds: float = 0.0
    error: str | None = None
    unread: bool = False


class Store(Protocol):
    """Where the rows of a unit go; called in a thread of its own."""

    def write(self, number: int, rows: UnitRows) -> None:
        """Keep them: they are there when this returns."""


_EMPTY = RowBatch([], [])


@dataclass(frozen=True)
class Work:
    """How every unit is processed. A value: it is sent to workers."""

    kind: Kind
    store: Store

    def read(self, lm: LanguageModel, unit: Unit | InMemoryUnit) -> UnitRows:
        """The rows of a unit, tokenised."""
        try:
            return self.prepared(lm, batch_of(unit, self.kind))
        except CorpusError as error:
            return UnitRows(_EMPTY, error=str(error), unread=True)
        except Exception as error:  # a unit that fails says why, and the others go on
            return UnitRows(_EMPTY, error=describe(error))

    def prepared(self, lm: LanguageModel, batch: RowBatch) -> UnitRows:
        """Rows that were read, tokenised."""
        lost = clash(set(batch.columns) - set(self.kind.dropped_columns), self.kind.output_columns)
        items: list[Any] = [Reason(why or lost) if why or lost else None for why in batch.reasons]
        good = [place for place, why in enumerate(items) if why is None]
        read = self.kind.read(lm, [batch.rows[place] for place in good])
        for place, item in zip(good, read, strict=True):
            items[place] = item
        return UnitRows(batch, items)

    def run(self, lm: LanguageModel, read: UnitRows) -> UnitRows:
        """Run the model on what can be; all others have a reason."""
        began = time.perf_counter()
        with warnings.catch_warnings():
            # rows count unknown tokens; a warning per unit would be thousands
            warnings.simplefilter("ignore", UnmaskWarning)
            valid = [item for item in read.items if not isinstance(item, Reason)]
            results = iter(_run_all(self.kind, lm, valid) if valid else [])
        rows = [
            self.kind.without(item) if isinstance(item, Reason) else next(results)
            for item in read.items
        ]
        tally = self.kind.tally(read.batch.rows, rows)
        # also where rows have no column for it
        tally.unknown = max(tally.unknown, sum(map(_has_unknown, read.items)))
        tally.failed = sum(isinstance(some, FailedRows) for some in rows)
        seconds = time.perf_counter() - began
        return read._replace(items=(), rows=rows, tally=tally, seconds=seconds)

    def write(self, unit: Unit | InMemoryUnit, rows: UnitRows) -> Done:
        """Store the rows."""
        if rows.error is None:
            self.store.write(unit.number, rows)
        return Done(unit.number, rows.tally, rows.seconds, rows.error, rows.unread)

    def task(self, plan: JobPlan | None = None, *, ahead: bool = True, stores: bool = True) -> Task:
        """The same for an executor: with a plan, of this model alone.

        Unless `ahead`, a unit is read when the one before it has been written. Workers that do not
        store give what `write` takes: their disk need not be the driver's.
        """
        if not stores:
            return Task(_check(plan), self.answered, _give_up)
        if ahead:
            return Task(_check(plan), self.run, _give_up, OverlappedIO(self.read, self.write))
        return Task(_check(plan), self.whole, _give_up)

    def whole(self, lm: LanguageModel, unit: Unit | InMemoryUnit) -> Done:
        """All of it, one after the other."""
        return self.write(*self.answered(lm, unit))

    def answered(
        self, lm: LanguageModel, unit: Unit | InMemoryUnit
    ) -> tuple[Unit | InMemoryUnit, UnitRows]:
        """A unit and its rows, which are yet to be stored."""
        return unit, self.run(lm, self.read(lm, unit))


def clash(theirs: Iterable[str], own: Iterable[str]) -> str | None:
    """Why a column of the input would be lost under one of the output's own."""
    present = set(theirs)
    for name in own:
        if name in present:
            return (
                f"the input has a column {quoted(name)}, and so has the output; rename it, or give "
                "the new columns a prefix"
            )
    return None


def batch_of(unit: Unit | InMemoryUnit, kind: Kind) -> RowBatch:
    """The rows of a unit as a kind reads them."""
    if isinstance(unit, InMemoryUnit):
        return unit.batch
    return read_unit(unit, kind.required_columns, kind.optional_columns)


def _has_unknown(item: object) -> bool:
    """Whether one of the texts of an item has words that the vocabulary has no token for."""
    texts = item if isinstance(item, tuple) else ()
    return any(getattr(text, "unknown", None) for text in texts)


def _run_all(kind: Kind, lm: LanguageModel, items: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """The rows of all items; where one fails, those of each on its own."""
    try:
        return kind.run(lm, items)
    except Exception as error:  # whatever it is belongs into the row that it comes of
        description = describe(error)
        if is_of_accelerator(description):
            raise
        if len(items) == 1 and isinstance(error, UnmaskError):
            return [kind.without(str(error))]
        if len(items) == 1:
            return [FailedRows(kind.without(description))]
    half = len(items) // 2
    return [*_run_all(kind, lm, items[:half]), *_run_all(kind, lm, items[half:])]


def _check(plan: JobPlan | None) -> Callable[[LanguageModel], None]:
    def check(lm: LanguageModel) -> None:
        if plan is None:
            return
        if plan.software != f"unmask {__version__}":
            raise UnmaskError(
                f"unmask {__version__} is installed there and {printable(plan.software)} made"
                " the plan; give every machine the same version"
            )
        check_model(lm, plan.model)

    return check


def _give_up(unit: Unit | InMemoryUnit, failure: Failure) -> Done:
    name, _, message = failure.message.partition(": ")
    if name == StoreError.__name__:
        # no other unit could be stored either
        raise StoreError(message)
    why = ", ".join(filter(None, (failure.message, failure.details)))
    return Done(unit.number, Tally(), error=printable(why))
