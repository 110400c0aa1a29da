"""A kind of job as a class for `ray.data.Dataset.map_batches`, for pipelines that exist already.

Ray Data then plans, retries and writes: a batch that fails ends its run or is dropped whole. A row
that cannot be answered has a reason in its place, as in a job. `unmask.jobs.running` needs no
pipeline, and goes on after a kill.
"""

from typing import TYPE_CHECKING, Any

from unmask.jobs.kinds import Kind
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.model_source import ModelSource
from unmask.jobs.parts import part_tables
from unmask.jobs.work import Work
from unmask.records.files import RowBatch
from unmask.records.parquet import parquet_library

if TYPE_CHECKING:
    import pyarrow


class MapBatches:
    """An actor that holds the model: tables in, the same tables with the kind's columns out.

    With `batch_format="pyarrow"`, a class for `map_batches`, and `fn_constructor_kwargs` with a
    `model` (a name, a folder or a `ModelSource`) and a `kind` (by default `ScoreKind()`, which
    scores the column `text` by `pll`).
    """

    def __init__(self, model: str | ModelSource, kind: Kind | None = None) -> None:
        source = ModelSource(place=model) if isinstance(model, str) else model
        self._lm, self._kind = source.load(), kind or ScoreKind(model_name=source.place)
        self._work = Work(self._kind, _Nothing())

    def __call__(self, table: "pyarrow.Table") -> "pyarrow.Table":
        """The rows of a batch, each as often as it has results."""
        kind = self._kind
        missing = [name for name in kind.required_columns if name not in table.column_names]
        if missing:
            raise ValueError(f"the data set has no column {missing[0]!r}")
        names = [
            name
            for name in (*kind.required_columns, *kind.optional_columns)
            if name in table.column_names
        ]
        batch = RowBatch(table.select(names).to_pylist(), [None] * table.num_rows, table)
        result = self._work.run(self._lm, self._work.prepared(self._lm, batch))
        pa, _ = parquet_library()
        return pa.concat_tables(
            part_tables(batch, result.rows, kind.output_columns, kind.dropped_columns)
        )


class _Nothing:
    """Ray Data keeps the rows."""

    def write(self, number: int, answered: Any) -> None:
        """Nothing."""
