"""The rows of a unit as one Parquet table, and the parts of a folder as one file.

Parquet has a type per column, and JSON lines have not: a column of mixed values is JSON in a column
of text. Which columns are, and which rows did not have a column, stands in the table's metadata,
from which every value is read back as it was.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.durable import explained, replacing
from unmask.errors import StoreError
from unmask.jobs.folder import Folder, Receipt
from unmask.jobs.kinds import Kind
from unmask.records import places
from unmask.records.files import RowBatch
from unmask.records.rows import Row
from unmask.records.writing import written

if TYPE_CHECKING:
    import pyarrow

# in the metadata: the columns of the input, those whose values are JSON, rows without a column
_FACTS, _INPUT, _JSON, _ABSENT = b"unmask", "columns", "json", "absent"
# a text is repeated with each of its rows, and an array of texts ends at 2 GiB
_ROWS_AT_ONCE = 2**14
# the types of JSON values that are columns of their own
_NAMES = {str: "string", bool: "bool", int: "int64", float: "double"}


# --- a unit --------------------------------------------------------------------------------------


def part_table(batch: RowBatch, results: Sequence[Sequence[Row]], kind: Kind) -> "pyarrow.Table":
    """All columns of the input beside the results: an input row is repeated for each result row."""
    import pyarrow as pa

    types, dropped = kind.output_columns, kind.input_columns.dropped
    names = [name for name in batch.columns if name not in {*dropped, *types}]
    columns = {name: _column(batch, name) for name in names}
    as_json = [name for name, (_, is_json) in columns.items() if is_json]
    as_json += [name for name, type_name in types.items() if type_name == "json"]
    numbers = [number for number, rows in enumerate(results) for _ in rows]
    answers, tables = list(chain.from_iterable(results)), []
    for start in range(0, len(answers) or 1, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        repeated = _array(numbers[part], "int64")
        table = table_of(answers[part], types, kind.prefix)
        arrays = [*(array.take(repeated) for array, _ in columns.values()), *table.columns]
        tables.append(pa.table(arrays, names=[*names, *types]))
    absent: dict[str, list[int]] = {}
    for place, number in enumerate(numbers if batch.table is None else ()):
        for name in names:
            if name not in batch.rows[number]:
                absent.setdefault(name, []).append(place)
    facts = json.dumps({_INPUT: names, _JSON: as_json, _ABSENT: absent})
    return pa.concat_tables(tables).replace_schema_metadata({_FACTS: facts})


def table_of(rows: Sequence[Row], types: Mapping[str, str], prefix: str = "") -> "pyarrow.Table":
    """Result rows, which are without a prefix, as a table with columns of these types."""
    import pyarrow as pa

    columns = [
        _array([row.get(name.removeprefix(prefix)) for row in rows], type_name)
        for name, type_name in types.items()
    ]
    return pa.table(columns, names=list(types))


def _column(batch: RowBatch, name: str) -> tuple[Any, bool]:
    """A column of the input with the type that all its values have; else as JSON."""
    import pyarrow as pa

    if batch.table is not None:
        return batch.table.column(name), False
    values = [row.get(name) for row in batch.rows]
    types = {_NAMES.get(type(value), "json") for value in values if value is not None}
    try:
        if not types:
            return pa.nulls(len(values)), False
        if len(types) == 1 and "json" not in types:
            return _array(values, types.pop()), False
    except (UnicodeEncodeError, pa.ArrowInvalid):
        # half of a surrogate pair, or a number of more than 64 bits
        pass
    return _array(values, "json"), True


def _array(values: Sequence[Any], type_name: str) -> Any:
    """Values as an Arrow array of a type, by way of their texts.

    By `pa.array` only where it must be: that imports pandas, if it is there, for a second.
    """
    import pyarrow as pa

    *lists, inner = type_name.rstrip(">").split("<")
    if lists:
        nested = pa.type_for_alias(inner)
        for _ in lists:
            nested = pa.list_(nested)
        return pa.array(values, nested)
    texts = pa.lib.StringBuilder()
    is_text = type_name == "string"
    texts.append_values([v if v is None or is_text else json.dumps(v) for v in values])
    return texts.finish().cast("string" if type_name == "json" else type_name)


def rows_of(table: "pyarrow.Table") -> Iterator[dict[str, Any]]:
    """The rows of a part, with the values that they had before."""
    facts = _facts(table.schema)
    columns = {name: _values(table, name, facts) for name in table.column_names}
    absent = {name: set(numbers) for name, numbers in facts.get(_ABSENT, {}).items()}
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        row = dict(zip(columns, values, strict=True))
        for name, numbers in absent.items():
            if number in numbers:
                del row[name]
        yield row


def _facts(schema: Any) -> dict[str, Any]:
    """The notes of a part on its columns; none in a part that passes no column on."""
    facts: dict[str, Any] = json.loads((schema.metadata or {}).get(_FACTS, b"{}"))
    return facts


def _values(table: Any, name: str, facts: Row) -> list[Any]:
    """The values of a column as they were before."""
    values: list[Any] = table.column(name).to_pylist()
    if name in facts.get(_JSON, ()):
        return [None if value is None else json.loads(value) for value in values]
    return values


# --- all units -----------------------------------------------------------------------------------


def merge(folder: Folder, receipts: Mapping[int, Receipt], output: Path, format: str) -> int:
    """Write the rows of all parts into one file, whole or not at all; returns how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not receipts:
        raise StoreError(f"{places.shown(folder.place)} has no rows yet")
    schema = _schema(folder, receipts)
    tables = (folder.table(*part) for part in receipts.items())
    with explained(output), replacing(output) as unfinished:
        if format == "parquet":
            with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
                for table in tables:
                    facts = _facts(table.schema)
                    columns = [_as_type(table, field, facts) for field in schema]
                    writer.write_table(pa.table(columns, schema=schema))
        else:
            with unfinished.open("w", encoding="utf-8", newline="") as file:
                for number, table in enumerate(tables):
                    rows = [*rows_of(table)]
                    file.write(written(rows, schema.names, format, header=number == 0))
    return sum(receipt["rows"] for receipt in receipts.values())


def _schema(folder: Folder, receipts: Mapping[int, Receipt]) -> Any:
    """All columns of all parts, the input's first; one that has several types becomes text."""
    import pyarrow as pa

    types, of_input = dict[str, set[Any]](), dict[str, None]()

    def schema_of(number: int) -> Any:
        return folder.table(number, receipts[number]).schema

    for schema in places.in_parallel(schema_of, receipts):
        of_input.update(dict.fromkeys(_facts(schema).get(_INPUT, ())))
        for field in schema:
            types.setdefault(field.name, set()).update({field.type} - {pa.null()})
    return pa.schema(
        (name, pa.string() if len(types[name]) > 1 else next(iter(types[name]), pa.null()))
        for name in dict.fromkeys([*of_input, *types])
    )


def _as_type(table: Any, field: Any, facts: Row) -> Any:
    """A column of a part with its type in the file; of several types as texts."""
    import pyarrow as pa

    is_there = field.name in table.column_names
    if not is_there or table.column(field.name).type == pa.null():
        return pa.nulls(table.num_rows, field.type)
    if table.column(field.name).type == field.type and field.name not in facts.get(_JSON, ()):
        return table.column(field.name)
    values = _values(table, field.name, facts)
    texts = [v if v is None or isinstance(v, str) else json.dumps(v, default=str) for v in values]
    return _array(texts, "string")
