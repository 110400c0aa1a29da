"""A model with a kind of job: what turns rows into result rows, here and on a cluster."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import CorpusError, UnmaskError, UnmaskWarning
from unmask.jobs.folder import MOST_DEATHS, Folder
from unmask.jobs.kinds import Counts, FailedRows, Kind, Reason, counted
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.model_source import SOFTWARE, ModelSource
from unmask.jobs.parts import part_table
from unmask.language_model import LanguageModel
from unmask.printable import describe, quoted
from unmask.records.files import RowBatch, Unit, read_unit

if TYPE_CHECKING:
    import pyarrow


class Outcome(NamedTuple):
    """A unit that was done, with its counters, or not, with a reason."""

    unit: int
    counts: Counts
    error: str | None = None


class Worker:
    """A model and a kind of job; by default the score of the column `text`.

    It is also a class for `ray.data.Dataset.map_batches` with `batch_format="pyarrow"`, in a
    pipeline that exists already: tables in, the same tables with the kind's columns out, each row
    as often as it has results. A row without an answer has a reason in its place.

    Args:
        model: A name on the Hub, a folder, a `ModelSource`, or a model that is loaded.
        kind: What to do with the rows.
    Examples:
        >>> import pyarrow as pa
        >>> from unmask.jobs.worker import Worker
        >>> worker = Worker("models/tiny-english")
        >>> worker(pa.table({"text": ["A man sits."]})).column("tokens").to_pylist()
        [4]
    """

    def __init__(self, model: str | ModelSource | LanguageModel, kind: Kind | None = None) -> None:
        source = ModelSource(place=model) if isinstance(model, str) else model
        self.lm = source.load() if isinstance(source, ModelSource) else source
        self.kind = kind or ScoreKind(model_name=self.lm.name)

    def __call__(self, table: "pyarrow.Table") -> "pyarrow.Table":
        """The rows of a batch."""
        required, optional, _ = self.kind.input_columns
        for name in required:
            if name not in table.column_names:
                raise ValueError(f"the data set has no column {name!r}")
        batch = RowBatch.of_table(table, (*required, *optional), [None] * table.num_rows)
        return self.answers(batch, self._items(batch))[0]

    def read(self, unit: Unit) -> tuple[RowBatch, list[Any]]:
        """The rows of a unit, and what the model is run on for each; it does not run."""
        try:
            required, optional, _ = self.kind.input_columns
            batch = read_unit(unit, required, optional)
            return batch, self._items(batch)
        except CorpusError:
            raise
        except Exception as error:  # a unit that fails says why, and the others go on
            raise CorpusError(describe(error)) from error

    def _items(self, batch: RowBatch) -> list[Any]:
        reasons = list(batch.reasons)
        if clash(batch.columns, self.kind):
            # of JSON lines each may have other columns
            each = (batch.columns if batch.table else row for row in batch.rows)
            lost = [clash(names, self.kind) for names in each]
            reasons = [why or other for why, other in zip(reasons, lost, strict=True)]
        good = [row for row, why in zip(batch.rows, reasons, strict=True) if why is None]
        read = iter(self.kind.read(self.lm, good))
        return [next(read) if why is None else Reason(why) for why in reasons]

    def answers(self, batch: RowBatch, items: Sequence[Any]) -> tuple["pyarrow.Table", Counts]:
        """The rows of a batch with their result rows, and their counters."""
        kind = self.kind
        with warnings.catch_warnings():
            # rows count unknown tokens; a warning per unit would be thousands
            warnings.simplefilter("ignore", UnmaskWarning)
            valid = [item for item in items if not isinstance(item, Reason)]
            results = iter(self._run(valid) if valid else [])
        rows = [kind.without(i) if isinstance(i, Reason) else next(results) for i in items]
        counts = kind.count(batch.rows, rows)
        # also where rows have no column for it
        unknown = (
            isinstance(item, tuple) and any(getattr(text, "unknown", ()) for text in item)
            for item in items
        )
        counts["unknown"] = max(counts["unknown"], sum(unknown))
        counts["failed"] = sum(isinstance(answers, FailedRows) for answers in rows)
        return part_table(batch, rows, kind), counts

    def _run(self, items: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """The rows of all items; where one fails, those of each on its own."""
        try:
            return self.kind.run(self.lm, items)
        except Exception as error:  # whatever it is belongs into the row that it comes of
            reason = describe(error)
            if is_of_accelerator(reason):
                raise
            if len(items) == 1 and isinstance(error, UnmaskError):
                return [self.kind.without(str(error))]
            if len(items) == 1:
                return [FailedRows(self.kind.without(reason))]
        half = len(items) // 2
        return [*self._run(items[:half]), *self._run(items[half:])]

    def do(
        self, unit: Unit, read: Callable[[], tuple[RowBatch, list[Any]]], folder: Folder
    ) -> Outcome:
        """Compute a unit, unless it is done, and write its part; what cannot be written raises.

        It is noted before it begins: if it takes this process along, its note stays.
        """
        number = unit.number
        # done by another process: a block of Ray's is repeated as a whole
        if (receipt := folder.receipt(number)) is not None:
            return Outcome(number, receipt["counts"])
        try:
            batch, items = read()
        except CorpusError as error:
            return Outcome(number, counted(), str(error))
        began = time.perf_counter()
        if not folder.begin(number):
            why = f"{unit.name}: it ended its process {MOST_DEATHS} times, and is skipped"
            return Outcome(number, counted(), why)
        try:
            table, counts = self.answers(batch, items)
            seconds = round(time.perf_counter() - began, 3)
            facts = {"counts": counts, "seconds": seconds, "software": SOFTWARE}
            folder.write(number, table, facts)
        finally:
            folder.end(number)
        return Outcome(number, counts)


def clash(names: Iterable[str], kind: Kind) -> str | None:
    """The reason why a column of the input would be lost under one of the output's own."""
    passed_on = set(names) - set(kind.input_columns.dropped)
    for name in kind.output_columns:
        if name in passed_on:
            return (
                f"the input has a column {quoted(name)}, and so has the output; rename it, or give "
                "the new columns a prefix"
            )
    return None


def is_of_accelerator(description: str) -> bool:
    """True if an error is the accelerator's own: a process does not recover from it.

    Lack of memory is not: CUDA recovers from that.
    """
    names = ("AcceleratorError", "CUDA error", "HIP error")
    is_memory = "out of memory" in description.lower() or "ALLOC_FAILED" in description
    return any(name in description for name in names) and not is_memory
