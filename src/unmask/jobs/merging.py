"""The parts of a job's folder as one file, in the order of the input."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unmask.durable import explained, replacing
from unmask.errors import StoreError
from unmask.jobs.folder import place_of, read_progress, stored_plan
from unmask.jobs.parts import opened
from unmask.printable import describe, quoted
from unmask.records import places
from unmask.records.parquet import parquet_library
from unmask.records.writing import written


class Merged(NamedTuple):
    """How many rows were written, and how many units of the job have no part."""

    rows: int
    missing: int


def merge(folder: str, output: Path, format: str) -> Merged:
    """Write the rows of all parts into one file, which is there whole or not at all."""
    parts, missing = finished_parts(folder)
    if not parts:
        raise StoreError(f"{places.shown(folder)} has no rows yet")
    schema = schema_of_parts(parts)
    with explained(output), replacing(output) as unfinished:
        write = {"parquet": _write_parquet}.get(format, _write_text)
        rows = write(unfinished, parts, schema, format)
    return Merged(rows, missing)


def finished_parts(folder: str) -> tuple[list[str], int]:
    """The parts of the units that are done, in their order, and how many units have none."""
    plan = stored_plan(folder)
    if plan is None:
        raise StoreError(f"{places.shown(folder)} is not the folder of a job: it has no plan")
    progress = read_progress(folder, plan)
    for number in progress.damaged:
        raise _damaged(place_of(folder, number))
    parts = [place_of(folder, number) for number in progress.stored]
    return parts, len(progress.done) - len(parts)


def _damaged(place: str) -> StoreError:
    return StoreError(
        f"{places.shown(place)} is damaged, or of another job; repeat the command that made the "
        "folder, which computes it again"
    )


def schema_of_parts(parts: list[str]) -> Any:
    """All columns of all parts; one that has several types becomes text."""
    pa, _ = parquet_library()
    fields: dict[str, Any] = {}
    for schema in places.in_parallel(_schema_of, parts):
        for field in schema:
            before = fields.get(field.name, pa.null())
            fields[field.name] = _common(pa, before, field.type)
    return pa.schema(list(fields.items()))


def _schema_of(place: str) -> Any:
    _, pq = parquet_library()
    with places.open_file(place) as file:
        return pq.read_schema(file)


def _common(pa: Any, one: Any, other: Any) -> Any:
    if {one, other} == {pa.int64(), pa.uint64()}:
        # neither has all numbers of the other
        return pa.string()
    try:
        schemas = [pa.schema([("x", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return pa.string()


def tables_of_parts(parts: list[str], schema: Any) -> Iterator[Any]:
    """The rows of each part, with the columns of a schema."""
    pa, _ = parquet_library()
    for place in parts:
        try:
            with places.open_file(place) as file:
                table = opened(file.read()).read(use_threads=False)
        except (pa.ArrowException, OSError, ValueError):
            raise _damaged(place) from None
        columns = [_as_type(pa, table, field) for field in schema]
        yield pa.table(columns, schema=schema)


def _as_type(pa: Any, table: Any, field: Any) -> Any:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    column = table.column(field.name)
    if field.type == pa.string() and not pa.types.is_string(column.type):
        values = column.to_pylist()
        shown = [
            v if v is None or isinstance(v, str) else json.dumps(v, default=str) for v in values
        ]
        return pa.array(shown, pa.string())
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise StoreError(
            f"the parts have column {quoted(field.name)} as {column.type} and as {field.type},"
            f" which loses digits ({describe(error)}); give it one type in the input"
        ) from None


def _write_parquet(path: Path, parts: list[str], schema: Any, _: str) -> int:
    _, pq = parquet_library()
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables_of_parts(parts, schema):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _write_text(path: Path, parts: list[str], schema: Any, format: str) -> int:
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, table in enumerate(tables_of_parts(parts, schema)):
            some = table.to_pylist()
            file.write(written(some, schema.names, format, header=number == 0))
            rows += len(some)
    return rows
