"""The parts of a job's folder as one file, in the order of the input."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unmask.durable import explained, replacing
from unmask.errors import StoreError
from unmask.jobs.folder import Folder, Receipt, stored_plan
from unmask.jobs.parts import INPUT, JSON, facts_of, rows_of
from unmask.printable import describe, quoted
from unmask.records import places
from unmask.records.parquet import parquet_library
from unmask.records.writing import written


class Parts(NamedTuple):
    """The units of a folder that are done, and how many are not."""

    folder: Folder
    receipts: dict[int, Receipt]
    missing: int

    def tables(self) -> Iterator[Any]:
        """The rows of each part, in the order of the units; each is verified."""
        for number, receipt in self.receipts.items():
            yield self.folder.table(number, receipt)


class Merged(NamedTuple):
    """How many rows were written, and how many units of the job have no part."""

    rows: int
    missing: int


def parts_of(place: str) -> Parts:
    """The parts of a job's folder; a damaged one is a `StoreError`."""
    plan = stored_plan(place)
    if plan is None:
        raise StoreError(f"{places.shown(place)} is not the folder of a job: it has no plan")
    folder, receipts = Folder(place, plan.digest), dict[int, Receipt]()
    for number, receipt in folder.receipts().items():
        if receipt is None:
            raise folder.damaged(number)
        receipts[number] = receipt
    return Parts(folder, receipts, plan.units - len(receipts))


def merge(place: str, output: Path, format: str) -> Merged:
    """Write the rows of all parts into one file, which is there whole or not at all."""
    parts = parts_of(place)
    if not parts.receipts:
        raise StoreError(f"{places.shown(place)} has no rows yet")
    write = _write_parquet if format == "parquet" else _write_text
    with explained(output), replacing(output) as unfinished:
        rows = write(unfinished, parts, format)
    return Merged(rows, parts.missing)


def _write_text(path: Path, parts: Parts, format: str) -> int:
    count, names = 0, [] if format == "jsonl" else _schema(parts).names
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, table in enumerate(parts.tables()):
            file.write(written([*rows_of(table)], names, format, header=number == 0))
            count += table.num_rows
    return count


def _write_parquet(path: Path, parts: Parts, _: str) -> int:
    pa, pq = parquet_library()
    rows, schema = 0, _schema(parts)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in parts.tables():
            columns = [_as_type(pa, table, field) for field in schema]
            writer.write_table(pa.table(columns, schema=schema))
            rows += table.num_rows
    return rows


def _schema(parts: Parts) -> Any:
    """All columns of all parts, the input's first; one that has several types becomes text."""
    pa, pq = parquet_library()
    types, of_input = dict[str, Any](), dict[str, None]()

    def schema_of(number: int) -> Any:
        with places.open_file(parts.folder.part(number)) as file:
            return pq.read_schema(file)

    for schema in places.in_parallel(schema_of, parts.receipts):
        of_input.update(dict.fromkeys(facts_of(schema).get(INPUT, ())))
        for field in schema:
            types[field.name] = _common(pa, types.get(field.name, pa.null()), field.type)
    return pa.schema([(name, types[name]) for name in dict.fromkeys([*of_input, *types])])


def _common(pa: Any, one: Any, other: Any) -> Any:
    if {one, other} == {pa.int64(), pa.uint64()}:
        # neither has all numbers of the other
        return pa.string()
    try:
        schemas = [pa.schema([("x", type_)]) for type_ in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return pa.string()


def _as_type(pa: Any, table: Any, field: Any) -> Any:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    column = table.column(field.name)
    is_json = field.name in facts_of(table.schema).get(JSON, ())
    if field.type == pa.string() and (is_json or not pa.types.is_string(column.type)):
        values = [json.loads(v) if is_json and v else v for v in column.to_pylist()]
        texts = [
            v if v is None or isinstance(v, str) else json.dumps(v, default=str) for v in values
        ]
        return pa.array(texts, pa.string())
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise StoreError(
            f"the parts have column {quoted(field.name)} as {column.type} and as {field.type},"
            f" which loses digits ({describe(error)}); give it one type in the input"
        ) from None
