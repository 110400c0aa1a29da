"""Result rows in Parquet files: one part per write, whole or not at all, never changed afterwards.

pyarrow comes with the extra `evaluate`, and is imported when a file is written or read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.durable import write_file
from unmask.errors import StoreError, UnmaskError
from unmask.evaluation.rows import Row
from unmask.jobs.parts import opened, sealed
from unmask.printable import quoted

if TYPE_CHECKING:
    import pyarrow

_PLAN = "plan"
_TEXTS = ("corpus", "mask", "model", "support", "example_id", "sentence_id", "construction")
_NUMBERS = (
    "pairwise_nll",
    "unary_nll",
    "all_kl",
    "gold_kl",
    "incompatibility",
    "seconds",
    "pairwise_error",
    "unary_error",
)
_COUNTS = ("gold_bytes", "length", "token_distance", "passes", "forward_passes")
_NOTES = ("software", "device", "error", _PLAN)


class DamagedPartError(UnmaskError):
    """A part that cannot be read back: cut short, or changed since it was written."""


class OtherPlanError(DamagedPartError):
    """A part that is whole, but of another plan: copied here, or the plan was changed."""


def write_part(path: Path, rows: Sequence[Row], plan: str) -> None:
    """Write result rows, each with the digest of the plan that they are of."""
    pa, pq = _arrow()
    table = pa.Table.from_pylist([{**row.to_dict(), _PLAN: plan} for row in rows], _schema(pa))
    sink = pa.BufferOutputStream()
    # with a seal, because a disk may keep a file's length and lose its content
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    write_file(path, lambda file: file.write(sealed(sink.getvalue().to_pybytes())))


def read_part(path: Path, plan: str) -> list[Row]:
    """Read result rows back; a damaged part, or one of another plan, raises `DamagedPartError`."""
    table = _table(path, plan)
    try:
        return [Row.from_dict(values) for values in table.to_pylist()]
    except UnmaskError as error:
        raise DamagedPartError(f"{quoted(path.name)} cannot be read: {error}") from None


@dataclass(frozen=True)
class Contents:
    """Of a part: of each example the error of one of its rows, and what computed them.

    The error is None if the example has metrics.
    """

    errors: Mapping[str, str | None]
    software: frozenset[str]


def read_contents(path: Path, plan: str) -> Contents:
    """What a process must know of a part to go on."""
    table = _table(path, plan)
    ids, errors, software = (
        table[name].to_pylist() for name in ("example_id", "error", "software")
    )
    return Contents(dict(zip(ids, errors, strict=True)), frozenset(filter(None, software)))


def _table(path: Path, plan: str) -> Any:
    """All columns, so that every checksum is looked at, but that of the plan."""
    pa, _ = _arrow()
    shown = quoted(path.name)
    try:
        table = opened(path.read_bytes()).read(use_threads=False)
        plans = set(table[_PLAN].to_pylist())
    except FileNotFoundError:
        # merged with others, or set aside, since the folder was looked at
        raise
    except (pa.ArrowMemoryError, pa.ArrowNotImplementedError) as error:
        raise StoreError(f"cannot read {shown}: {quoted(str(error), limit=120)}") from None
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        # the system's own errors, of a network disk for example, say nothing about the file
        if isinstance(error, OSError) and error.errno is not None:
            why = error.strerror or str(error)
            raise StoreError(f"cannot read {shown}: {why}; try again") from None
        raise DamagedPartError(f"{shown} cannot be read: {quoted(str(error), limit=120)}") from None
    if plans != {plan}:
        raise OtherPlanError(f"{shown} holds result rows of another plan")
    return table.drop_columns([_PLAN])


def _schema(pa: "Any") -> "pyarrow.Schema":
    pair = pa.list_(pa.int32())
    kinds = {
        **dict.fromkeys(_TEXTS, pa.string()),
        **dict.fromkeys(_NUMBERS, pa.float64()),
        **dict.fromkeys(_COUNTS, pa.int64()),
        "converged": pa.bool_(),
        "positions": pair,
        "spans": pa.list_(pair),
        **dict.fromkeys(_NOTES, pa.string()),
    }
    return pa.schema(list(kinds.items()))


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise StoreError(
            "results are kept in Parquet files, which need pyarrow: pip install 'unmask[evaluate]'"
        ) from None
    return pyarrow, pyarrow.parquet
