"""The rows of a unit as one Parquet table, from which every value is read back as it was.

Parquet has a type per column, and JSON lines have not: a column of mixed values is JSON in a column
of text. Which columns are, and which rows did not have a column, stands in the table's metadata.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.errors import StoreError
from unmask.jobs.kinds import Kind
from unmask.records.files import RowBatch
from unmask.records.parquet import parquet_library
from unmask.records.rows import Row

if TYPE_CHECKING:
    import pyarrow

# in the metadata: the columns of the input, those whose values are JSON, rows without a column
_FACTS, INPUT, JSON, ABSENT = b"unmask", "columns", "json", "absent"
# a text is repeated with each of its rows, and an array of texts ends at 2 GiB
_ROWS_AT_ONCE = 2**14
# the types of JSON values that are columns of their own
_NAMES = {str: "string", bool: "bool", int: "int64", float: "double"}


def part_table(batch: RowBatch, results: Sequence[Sequence[Row]], kind: Kind) -> "pyarrow.Table":
    """All columns of the input beside the results: an input row is repeated for each result row."""
    pa, _ = parquet_library()
    dropped = {*kind.dropped_columns, *kind.output_columns}
    names = [name for name in batch.columns if name not in dropped]
    arrays, as_json = list[Any](), [n for n, of in kind.output_columns.items() if of == "json"]
    for name in names:
        if batch.table is not None:
            arrays.append(batch.table.column(name))
            continue
        array, is_json = _column(pa, [row.get(name) for row in batch.rows])
        arrays.append(array)
        as_json += [name] if is_json else []
    repeated = [n for n, rows in enumerate(results) for _ in rows]
    own = list(chain.from_iterable(results))
    absent = {} if batch.table is not None else _absent(batch.rows, names, repeated)
    tables = []
    for start in range(0, len(own) or 1, _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        results_table = table_of(own[start:stop], kind.output_columns)
        numbers = _array(pa, repeated[start:stop], "int64")
        columns = [*(one.take(numbers) for one in arrays), *results_table.columns]
        tables.append(pa.table(columns, names=[*names, *results_table.column_names]))
    facts = {INPUT: names, JSON: as_json, ABSENT: absent}
    return pa.concat_tables(tables).replace_schema_metadata({_FACTS: json.dumps(facts)})


def table_of(rows: Sequence[Row], types: Mapping[str, str]) -> "pyarrow.Table":
    """Result rows as a table, with columns of these types."""
    pa, _ = parquet_library()
    columns = []
    for name, of in types.items():
        values = [row.get(name) for row in rows]
        columns.append(_json(pa, values) if of == "json" else _array(pa, values, of))
    return pa.table(columns, names=list(types))


def _absent(
    rows: Sequence[Row], names: Sequence[str], repeated: Sequence[int]
) -> dict[str, list[int]]:
    """The rows of the part, by column, whose row of the input does not have it."""
    absent: dict[str, list[int]] = {}
    lacking = [set(names) - row.keys() if len(row) < len(names) else () for row in rows]
    for place, number in enumerate(repeated):
        for name in lacking[number]:
            absent.setdefault(name, []).append(place)
    return absent


def _type(pa: Any, name: str) -> Any:
    """An Arrow type by its name; `list<int32>` is not an alias that Arrow knows."""
    if name.startswith("list<"):
        return pa.list_(_type(pa, name[len("list<") : -1]))
    return pa.type_for_alias(name)


def _column(pa: Any, values: list[Any]) -> tuple[Any, bool]:
    """Values of JSON with the type that all of them have; else as JSON."""
    types = {type(value) for value in values if value is not None}
    try:
        if not types:
            return pa.nulls(len(values)), False
        if len(types) == 1 and (name := _NAMES.get(types.pop())):
            return _array(pa, values, name), False
    except (UnicodeEncodeError, OverflowError):
        # half of a surrogate pair, or a number of more than 64 bits
        pass
    return _json(pa, values), True


def _json(pa: Any, values: list[Any]) -> Any:
    return _array(pa, [None if v is None else json.dumps(v) for v in values], "string")


def _array(pa: Any, values: Sequence[Any], name: str) -> Any:
    """Values as an Arrow array of a type.

    Not by `pa.array` where it can be helped: that imports pandas, if it is there, for a second.
    """
    type_ = _type(pa, name)
    if name == "string":
        texts = [b"" if value is None else value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)])
        buffers = [ends.astype(np.int32), b"".join(texts)]
        if ends[-1] > np.iinfo(np.int32).max:
            return pa.array(values, type_)
    elif name == "bool":
        buffers = [_bits(map(bool, values))]
    elif name in ("double", "int64"):
        plain = [0 if value is None else value for value in values]
        buffers = [np.array(plain, dtype=name)]
    else:
        return pa.array(values, type_)
    valid = _bits(value is not None for value in values)
    data = [pa.py_buffer(buffer) for buffer in (valid, *buffers)]
    return pa.Array.from_buffers(type_, len(values), data)


def _bits(values: Iterable[bool]) -> Any:
    return np.packbits(np.fromiter(values, bool), bitorder="little")


def encoded(table: "pyarrow.Table") -> bytes:
    """A table as a Parquet file."""
    pa, pq = parquet_library()
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decoded(content: bytes) -> "pyarrow.Table":
    """The table of a Parquet file; its errors are a `StoreError`."""
    pa, pq = parquet_library()
    try:
        return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"it is not a Parquet file: {error}") from None


def rows_of(table: "pyarrow.Table") -> Iterator[dict[str, Any]]:
    """The rows of a part, with the values that they had before."""
    facts = facts_of(table.schema)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    for name in facts.get(JSON, ()):
        if name in columns:
            columns[name] = [None if v is None else json.loads(v) for v in columns[name]]
    absent = {name: set(numbers) for name, numbers in facts.get(ABSENT, {}).items()}
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        row = dict(zip(columns, values, strict=True))
        for name, numbers in absent.items():
            if number in numbers:
                del row[name]
        yield row


def facts_of(schema: Any) -> Mapping[str, Any]:
    """The facts about the columns of a part."""
    facts: Mapping[str, Any] = json.loads((schema.metadata or {}).get(_FACTS, b"{}"))
    return facts
