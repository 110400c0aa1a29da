"""The rows of a unit as one Parquet file, whose footer says whose they are, and what is in them."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.jobs.inputs import Batch, Row, parquet_library

if TYPE_CHECKING:
    import pyarrow

# the key of the footer
_FACTS = b"unmask"


def part_table(
    batch: Batch, found: Sequence[Sequence[Row]], adds: Mapping[str, str], leaves_out: Sequence[str]
) -> "pyarrow.Table":
    """All columns of the input, and next to them what was found: a row as often as it needs."""
    pa, _ = parquet_library()
    repeated = pa.array([n for n, rows in enumerate(found) for _ in rows], pa.int64())
    columns = [
        (name, column.take(repeated))
        for name, column in _columns(pa, batch)
        if name not in (*leaves_out, *adds)
    ]
    for name, type_name in adds.items():
        values = [row.get(name) for rows in found for row in rows]
        columns.append((name, pa.array(values, pa.type_for_alias(type_name))))
    return pa.table([column for _, column in columns], names=[name for name, _ in columns])


def _columns(pa: Any, batch: Batch) -> list[tuple[str, Any]]:
    """The columns that came in; of lines, each with whatever type all its values have."""
    if batch.table is not None:
        return list(zip(batch.table.column_names, batch.table.columns, strict=True))
    names = dict.fromkeys(name for row in batch.rows for name in row)
    return [(name, _column(pa, [row.get(name) for row in batch.rows])) for name in names]


def _column(pa: Any, values: list[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {str}:
        return pa.array([_encodable(value) for value in values], pa.string())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    # whatever else JSON can hold stays JSON
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())


def _encodable(value: str | None) -> str | None:
    # JSON can spell half of a surrogate pair, which has no place in UTF-8
    return value and value.encode("utf-8", "backslashreplace").decode()


def encoded(table: "pyarrow.Table", facts: Mapping[str, Any]) -> bytes:
    """The table as a Parquet file, with facts about it in its footer."""
    pa, pq = parquet_library()
    metadata = {**(table.schema.metadata or {}), _FACTS: json.dumps(facts).encode()}
    sink = pa.BufferOutputStream()
    # checksums, because a disk may keep a file's length and lose its content
    options: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
    pq.write_table(table.replace_schema_metadata(metadata), sink, **options)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def facts_of(file: Any) -> Mapping[str, Any] | None:
    """The facts of a whole part; None of anything else."""
    pa, pq = parquet_library()
    try:
        metadata = pq.read_metadata(file).metadata or {}
        facts = json.loads(metadata[_FACTS])
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None
