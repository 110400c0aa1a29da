"""The rows of a unit as one Parquet file, whose footer names their plan, unit and counters.

A part is sealed: between its pages and its footer, where readers of Parquet look at nothing, stands
the SHA-256 of all its other bytes. Checksums of pages alone leave out the footer and the headers of
pages, and to verify them takes ten times as long, since pages must be decompressed.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from unmask.durable import add_bytes
from unmask.records.files import RowBatch
from unmask.records.parquet import parquet_library
from unmask.records.rows import Row

if TYPE_CHECKING:
    import pyarrow

# the key of the footer
_FACTS = b"unmask"
_SEAL = b"unmask sha256 "
_SEAL_BYTES = len(_SEAL) + hashlib.sha256().digest_size
# what ends a Parquet file: the length of its footer in 4 bytes, and a mark
_END_BYTES = 8
# a text is repeated with each of its rows, and an array of texts ends at 2 GiB
_ROWS_AT_ONCE = 2**14
# a float64 has every whole number up to here
_WHOLE = 2**53


def part_tables(
    batch: RowBatch,
    results: Sequence[Sequence[Row]],
    output_columns: Mapping[str, str],
    dropped_columns: Sequence[str],
) -> Iterator["pyarrow.Table"]:
    """All columns of the input beside the results: an input row is repeated for each result row.

    Yields at least one table, each of a few thousand rows.
    """
    pa, _ = parquet_library()
    input_columns = _columns(pa, batch, (*dropped_columns, *output_columns))
    types = {name: _type(pa, type_name) for name, type_name in output_columns.items()}
    repeated = [n for n, rows in enumerate(results) for _ in rows]
    own = list(chain.from_iterable(results))
    for start in range(0, len(own) or 1, _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        numbers, rows = pa.array(repeated[start:stop], pa.int64()), own[start:stop]
        columns = [one.take(numbers) for _, one in input_columns]
        columns += [_own_column(pa, [row.get(n) for row in rows], of) for n, of in types.items()]
        yield pa.table(columns, names=[*(name for name, _ in input_columns), *types])


def _own_column(pa: Any, values: list[Any], of: Any) -> Any:
    if of == pa.string():
        # values of no fixed shape are JSON
        values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    return pa.array(values, of)


def _type(pa: Any, name: str) -> Any:
    """An Arrow type by its name; `list<int32>` is not an alias that Arrow knows."""
    if name.startswith("list<"):
        return pa.list_(_type(pa, name[len("list<") : -1]))
    return pa.type_for_alias(name)


def _columns(pa: Any, batch: RowBatch, dropped: Sequence[str]) -> list[tuple[str, Any]]:
    """The columns of the input; those of lines get the common type of their values."""
    names = [name for name in batch.columns if name not in dropped]
    if batch.table is not None:
        return [(name, batch.table.column(name)) for name in names]
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
    if kinds == {int} and all(value is None or 0 <= value < 2**64 for value in values):
        return pa.array(values, pa.uint64())
    if kinds <= {int, float} and all(_fits_float(value) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    # all other values of JSON stay JSON
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())


def _fits_float(value: float | None) -> bool:
    return not isinstance(value, int) or -_WHOLE <= value <= _WHOLE


def _encodable(value: str | None) -> str | None:
    # JSON can spell half of a surrogate pair, which has no place in UTF-8
    return value and value.encode("utf-8", "backslashreplace").decode()


def encoded(tables: Iterable["pyarrow.Table"], facts: Mapping[str, Any]) -> bytes:
    """Tables of the same columns as a Parquet file, with facts about it in its footer."""
    pa, pq = parquet_library()
    rest = iter(tables)
    first = next(rest)
    schema = first.schema.with_metadata({_FACTS: json.dumps(facts).encode()})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in chain([first], rest):
            writer.write_table(table)
    return sealed(sink.getvalue().to_pybytes())


def sealed(content: bytes) -> bytes:
    """A Parquet file with its seal."""
    footer = _footer(len(content), content[-_END_BYTES:])
    seal = _SEAL + hashlib.sha256(content).digest()
    return b"".join((content[:footer], seal, content[footer:]))


def _footer(size: int, end: bytes) -> int:
    return size - _END_BYTES - int.from_bytes(end[:4], "little")


def check_seal(file: BinaryIO) -> None:
    """Raise a `ValueError` where a file has no seal, or one that its bytes do not have."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END_BYTES))
    footer = max(0, _footer(size, file.read()))
    start = max(0, footer - _SEAL_BYTES)
    file.seek(start)
    seal, total = file.read(_SEAL_BYTES), hashlib.sha256()
    for first, last in ((0, start), (footer, size)):
        add_bytes(total, file, first, last)
    if seal != _SEAL + total.digest():
        raise ValueError("its checksum is not that of its bytes")


def opened(content: bytes) -> Any:
    """A part as a `ParquetFile`, after a look at its seal.

    From memory: pyarrow reads a file object of Python in threads of its own, and if the process
    ends before they do, as after an error, they abort it.
    """
    pa, pq = parquet_library()
    check_seal(io.BytesIO(content))
    return pq.ParquetFile(pa.BufferReader(content))


def facts_of(file: BinaryIO, *, whole: bool) -> Mapping[str, Any] | None:
    """The facts of a part; None of anything else, and if all bytes are looked at, of a damaged one.

    Errors of the disk are raised.
    """
    pa, pq = parquet_library()
    try:
        if whole:
            check_seal(file)
        metadata = pq.read_metadata(file).metadata or {}
        facts = json.loads(metadata[_FACTS])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return None
    return facts if isinstance(facts, dict) else None
