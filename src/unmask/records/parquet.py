"""Rows of Parquet files, all columns of them as a table.

pyarrow is imported where it is used: that takes a fifth of a second.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from unmask.errors import CorpusError
from unmask.printable import quoted
from unmask.records import places
from unmask.records.rows import columns_reason


def group_sizes(place: str) -> list[int]:
    """The number of rows of each row group, as the file is now: nothing stale is remembered."""
    _group_sizes.cache_clear()
    _row_group.cache_clear()
    return _group_sizes(place)


def read_table(
    place: str, start: int, stop: int | None, texts: Sequence[str]
) -> tuple[Any, list[str | None]]:
    """The rows of a range, and for each that cannot be used the reason; `texts` are columns."""
    import pyarrow as pa

    where, slices, before, sizes = places.shown(place), [], 0, _group_sizes(place)
    stop = sum(sizes) if stop is None else stop
    for group, count in enumerate(sizes):
        first, last = max(start - before, 0), min(stop - before, count)
        if first < last:
            slices.append(_row_group(place, group).slice(first, last - first))
        before += count
    if sum(map(len, slices)) != stop - start:
        raise CorpusError(f"{where} has fewer rows than when the job was planned")
    table = pa.concat_tables(slices)
    if (why := columns_reason((), table.column_names, where)) is not None:
        raise CorpusError(why)
    table, reasons = _readable(table, texts)
    missing = columns_reason(texts, table.column_names, where)
    return table, [missing or reason for reason in reasons]


def _readable(table: Any, texts: Sequence[str]) -> tuple[Any, list[str | None]]:
    """The table with texts that are UTF-8: a writer may have put other bytes there.

    In a column of texts to read that is a reason; elsewhere they are escaped.
    """
    import pyarrow as pa

    reasons: list[str | None] = [None] * table.num_rows
    for index, name in enumerate(table.column_names):
        try:
            table.column(index).validate(full=True)
        except pa.ArrowInvalid:
            values = table.column(index).cast(pa.large_binary()).to_pylist()
            for row, value in enumerate(values):
                text = value and value.decode("utf-8", "backslashreplace")
                if name in texts and value and text.encode() != value:
                    reasons[row] = f"{quoted(name)} is not UTF-8: {quoted(text)}"
                values[row] = text
            table = table.set_column(index, name, pa.array(values, pa.string()))
    return table, reasons


# files of units that are read at the same time
@lru_cache(8)
def _group_sizes(place: str) -> list[int]:
    with _opened(place) as file:
        return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


# the last of them: units that follow each other are often of one
@lru_cache(2)
def _row_group(place: str, group: int) -> Any:
    with _opened(place) as file:
        return file.read_row_group(group)


@contextmanager
def _opened(place: str) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    errors = pa.ArrowException, UnicodeDecodeError
    with places.reading(place, *errors), places.open_file(place) as file:
        yield pq.ParquetFile(file)
