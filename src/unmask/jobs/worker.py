"""A model with a kind of job: what turns rows into result rows, here and on a cluster."""

import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import CorpusError, UnmaskWarning
from unmask.jobs.folder import MOST_DEATHS, Folder
from unmask.jobs.kinds import Counts, Kind, Reason, Rows, add, counted
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.model_source import SOFTWARE, ModelSource
from unmask.jobs.parts import part_table
from unmask.language_model import LanguageModel
from unmask.printable import describe, quoted
from unmask.records.files import RowBatch, Unit, read_unit

if TYPE_CHECKING:
    import pyarrow


class Outcome(NamedTuple):
    """The counters of a unit that was done, or the reason why it was not."""

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
        # rows without numbers would hide it until the end of a pipeline
        if why := clash(table.column_names, self.kind):
            raise ValueError(why)
        batch = RowBatch.of_table(table, (*required, *optional), [None] * table.num_rows)
        return self.answers(batch, self.items(batch))[0]

    def read(self, unit: Unit) -> tuple[RowBatch, list[Any]]:
        """The rows of a unit, and what the model is run on for each; it does not run."""
        try:
            required, optional, _ = self.kind.input_columns
            batch = read_unit(unit, required, optional)
            return batch, self.items(batch)
        except CorpusError:
            raise
        except Exception as error:  # a unit that fails says why, and the others go on
            raise CorpusError(describe(error)) from error

    def items(self, batch: RowBatch) -> list[Any]:
        """The item of each row, or the reason why there is none."""
        names, reasons = batch.columns, list(batch.reasons)
        is_lost, texts = clash(names, self.kind) is not None, self.kind.input_columns.required
        for place, row in enumerate(batch.rows):
            if is_lost and reasons[place] is None:
                # of JSON lines each may have other columns
                reasons[place] = clash(names if batch.table else row, self.kind)
            for name in texts if reasons[place] is None else ():
                value = row.get(name)
                if not (value is None or isinstance(value, str)):
                    reasons[place] = (
                        f"the row has {quoted(value)} ({type(value).__name__}) under "
                        f"{quoted(name)}, where a text should be; name a column that holds strings"
                    )
        good = [row for row, why in zip(batch.rows, reasons, strict=True) if why is None]
        read = iter(self.kind.read(self.lm, good))
        return [next(read) if why is None else Reason(why) for why in reasons]

    def answers(self, batch: RowBatch, items: Sequence[Any]) -> tuple["pyarrow.Table", Counts]:
        """The rows of a batch with their result rows, and their counters."""
        kind, counts = self.kind, counted(len(items))
        run = iter(self._run([item for item in items if not isinstance(item, Reason)], counts))
        results = list[Rows]()
        for row, item in zip(batch.rows, items, strict=True):
            answers = kind.without(item) if isinstance(item, Reason) else next(run)
            answers = [{**kind.shared(answer.get("method")), **answer} for answer in answers]
            results.append(answers)
            add(counts, kind.tally(row, item, answers))
            # by method: where only some have a reason, as words of a text, there is an answer
            reasons = dict[str, list[str | None]]()
            for answer in answers:
                method = answer.get("method") or kind.name
                reasons.setdefault(method, []).append(answer.get("reason"))
            for method, each in reasons.items():
                missing = {method: {"count": 1, "example": each[0]}}
                add(counts, {"without": missing} if all(each) else {"answers": 1})
        return part_table(batch, results, kind), counts

    def _run(self, items: Sequence[Any], counts: Counts) -> list[Rows]:
        """The result rows of items; where some fail together, those of each on its own."""
        results = list[Rows]()
        waiting = [[item] for item in reversed(items)] if self.kind.runs_alone else [items]
        while waiting:
            together = waiting.pop()
            try:
                with warnings.catch_warnings():
                    # rows count unknown tokens; a warning per unit would be thousands
                    warnings.simplefilter("ignore", UnmaskWarning)
                    results += self.kind.run(self.lm, together) if together else []
            except Exception as error:  # any error belongs in the row that caused it
                reason, half = describe(error), len(together) // 2
                if is_of_accelerator(reason):
                    raise
                if half:
                    waiting += [together[half:], together[:half]]
                    continue
                is_final = isinstance(error, self.kind.final)
                counts["failed"] += not is_final
                results.append(self.kind.without(str(error) if is_final else reason, together[0]))
        return results

    def do(
        self, unit: Unit, folder: Folder, read: Future[tuple[RowBatch, list[Any]]] | None = None
    ) -> Outcome:
        """Compute a unit, unless it is done, and write its part; what cannot be written raises.

        Its rows may be `read` already. It is noted before it begins: if it takes this process
        along, its note stays.
        """
        number = unit.number
        try:
            batch, items = self.read(unit) if read is None else read.result()
        except CorpusError as error:
            return Outcome(counted(), str(error))
        # behind the reading: another process may do the unit meanwhile
        receipt = folder.receipt(number)
        if "counts" in receipt:
            # done by another process: a block of Ray's is repeated as a whole
            return Outcome(receipt["counts"])
        deaths = receipt.get("begun", 0)
        if deaths >= MOST_DEATHS:
            why = f"{unit.name}: it ended its process {deaths} times, and is skipped"
            return Outcome(counted(), why)
        began = time.perf_counter()
        folder.note(number, {"begun": deaths + 1})
        try:
            table, counts = self.answers(batch, items)
            seconds = round(time.perf_counter() - began, 3)
            folder.write(
                number, table, {"counts": counts, "seconds": seconds, "software": SOFTWARE}
            )
        except BaseException:
            # this process survived, and reports the error itself
            folder.forget(number)
            raise
        return Outcome(counts)


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
