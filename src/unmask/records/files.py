"""Inputs cut into units, and the rows of a unit.

A unit is a range of rows of a Parquet file, or of bytes of any other, or rows in memory; a line
belongs to the unit that it begins in. Where units begin depends on the input and the number of rows
in a unit alone, so that every process cuts alike.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, count, islice, pairwise, takewhile, tee
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import CorpusError
from unmask.printable import quoted
from unmask.records import parquet, places
from unmask.records.places import FoundFile
from unmask.records.rows import (
    ENDINGS,
    FORMATS,
    OF_LINES,
    READERS,
    TABLES,
    TEXT_COLUMN,
    Line,
    Record,
    Row,
    columns_reason,
    listed,
    read_lines,
)

if TYPE_CHECKING:
    import pyarrow

_ENDINGS = tuple(f".{end}{packed}" for packed in ("", *places.COMPRESSED) for end in ENDINGS)
_BLOCK = 2**20
# before an input is refused because no row of it can be read; and how many of each file are enough
_FILES_LOOKED_AT, _ROWS_LOOKED_AT, _ROWS_ENOUGH = 8, 1000, 64


class Unit(NamedTuple):
    """A slice of the input: the rows, or else the bytes, from `start` to before `stop`.

    A table begins with a `header` of so many bytes: up to the end of its first row. `line` is the
    number of the slice's first line, None where it is not known, and `rows` are the numbers of its
    first and last row. In place of a file it may have `records`.
    """

    number: int
    place: str = ""
    format: str = "txt"
    start: int = 0
    stop: int | None = None
    header: int = 0
    line: int | None = 1
    rows: tuple[int, int] | None = None
    records: Sequence[Record] | None = None

    @property
    def name(self) -> str:
        """The place of the unit, for errors."""
        first, last = self.rows or (self.start, self.stop or 0)
        noun = "row" if self.rows else "byte"
        which = f"{noun} {first:,}" if first == last else f"{noun}s {first:,} to {last:,}"
        return f"{which} of {places.shown(self.place) if self.place else 'the input'}"


@dataclass(frozen=True)
class RowBatch:
    """The rows of a unit, or for each that cannot be read the reason; and of Parquet, all columns.

    Where there is a `table`, `rows` have only the columns that were requested.
    """

    rows: Sequence[Row]
    reasons: Sequence[str | None]
    table: "pyarrow.Table | None" = None

    @classmethod
    def of_table(
        cls, table: "pyarrow.Table", names: Sequence[str], reasons: Sequence[str | None]
    ) -> "RowBatch":
        """The rows of a table with some of its columns, as far as it has them."""
        present = [name for name in names if name in table.column_names]
        rows = table.select(present).to_pylist() if present else [{}] * table.num_rows
        return cls(rows, reasons, table)

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        if self.table is not None:
            return list(self.table.column_names)
        return list(dict.fromkeys(name for row in self.rows for name in row))


class Source(NamedTuple):
    """An input cut into units; of a pipe they are read once, and it has no `identity`.

    `rows` is how many there are, if that is known before they are read.
    """

    units: Sequence[Unit] | Iterator[Unit]
    rows_per_unit: int
    rows: int | None = None
    identity: Sequence[list[object]] = ()

    @property
    def unit_count(self) -> int | None:
        """The number of units, if that is known before they are read."""
        return len(self.units) if isinstance(self.units, Sequence) else None


@dataclass(frozen=True)
class InputRows:
    """An INPUT after a look at its first rows: `names` are their columns, `sample` some of them.

    Its rows are those of `files`, or `records`; of these, `identity` is what they are known by, in
    place of a hash.
    """

    names: Sequence[str] = ()
    sample: Sequence[Row] = ()
    files: Sequence[FoundFile] = ()
    columns: Sequence[str] = ()
    limit: int | None = None
    records: Iterable[Record] | None = None
    identity: list[object] | None = None

    @property
    def is_pipe(self) -> bool:
        """True if its rows are read once, as they come."""
        return self.records is not None and not isinstance(self.records, Sequence)

    def rows_or_raise(self) -> Iterator[Record]:
        """Every row; the first that cannot be read raises a `CorpusError`."""
        units = (Unit(0, file.place, file.format) for file in self.files)
        each = chain.from_iterable(read_records(unit, self.columns) for unit in units)
        for record in islice(each, self.limit) if self.records is None else self.records:
            if record.reason is not None:
                raise CorpusError(record.reason)
            yield record

    def cut(self, size: int, *, at_least: int = 1, at_most: int | None = None) -> Source:
        """Units of so many rows; of fewer, or more, where there would be too few or too many."""
        if self.records is not None:
            source = _cut_records(self.records, self.identity, size)
        else:
            source = self._cut_files(size)
        count = source.unit_count
        if count is not None and count < at_least and size > 1:
            smaller = max(1, min(size, source.rows or size) // 2)
            return self.cut(smaller, at_least=at_least)
        # of each file one unit is left
        if count is not None and at_most is not None and count > max(at_most, len(self.files)):
            return self.cut(size * -(-count // at_most), at_most=at_most)
        return source

    def _cut_files(self, size: int) -> Source:
        cut = partial(_cut_file, columns=self.columns, size=size)
        if self.limit is None:
            cuts = list(places.in_parallel(cut, self.files))
        else:
            cuts, left = list[Source](), self.limit
            for file in self.files:
                if left > 0:
                    cuts.append(cut(file, limit=left))
                    left -= cuts[-1].rows or 0
        units = (unit for source in cuts for unit in source.units)
        numbered = [unit._replace(number=number) for number, unit in enumerate(units)]
        rows = None if any(cut.rows is None for cut in cuts) else sum(cut.rows for cut in cuts)
        return Source(numbered, size, rows, [cut.identity[0] for cut in cuts])

    def all_names(self, units: Iterable[Unit]) -> list[str]:
        """The columns of all rows: those of JSON lines on this machine may each have others."""
        names = dict.fromkeys(self.names)
        for unit in units:
            if unit.format == "jsonl" and not places.is_url(unit.place):
                names.update(dict.fromkeys(read_unit(unit, self.columns).columns))
        return list(names)


def rows_in_memory(records: Sequence[Record]) -> InputRows:
    """An input of rows that need not be read."""
    names = dict.fromkeys(name for record in records for name in record.row)
    good = [record.row for record in records if record.reason is None]
    return InputRows(list(names), good[:_ROWS_LOOKED_AT], records=records)


def open_input(
    inputs: Sequence[str],
    columns: Sequence[str] = (TEXT_COLUMN,),
    *,
    format: str | None = None,
    limit: int | None = None,
    piped_format: str = "txt",
) -> InputRows:
    """The rows of files, patterns, folders and URLs, or of one pipe (`-` is stdin).

    At most `limit` rows. `format` is theirs if names do not show it, `piped_format` that of a pipe
    by default. An input is refused if none of its first rows can be read.
    """
    if pipe := next(filter(is_pipe, inputs), None):
        where = places.shown(pipe)
        if len(inputs) > 1:
            raise CorpusError(f"{where} is read alone; leave out the other files")
        unit = Unit(0, pipe, format_of(pipe, format, piped_format))
        if unit.format == "parquet":
            raise CorpusError(f"{where} is a pipe, from which Parquet cannot be read; give a file")
        head, records = tee(islice(read_records(unit, columns), limit))
        # no further than the first good row: it may be a terminal
        sample = _look([head], where, 1)
        return InputRows(list(sample[0]), sample, columns=columns, records=records)
    files = [
        replace(file, format=format_of(file.place, format))
        for file in places.find(inputs, _ENDINGS)
    ]
    where = places.shown(files[0].place) if len(files) == 1 else "the input"
    step = max(1, len(files) // _FILES_LOOKED_AT)
    units = (Unit(0, file.place, file.format) for file in files[::step][:_FILES_LOOKED_AT])
    heads = (islice(read_records(unit, columns), _ROWS_LOOKED_AT) for unit in units)
    sample = _look(heads, where, _ROWS_ENOUGH)
    # lines of JSON may each have others: that of a later row is no slip
    return InputRows(list(sample[0]), sample, files, columns, limit)


def _look(heads: Iterable[Iterable[Record]], where: str, enough: int) -> list[Row]:
    """The first rows that can be read of each file, no more than are enough."""
    sample, reasons = list[Row](), list[str]()
    for head in heads:
        left = enough
        try:
            for row, reason, _ in head:
                if reason is not None:
                    reasons.append(reason)
                    continue
                sample.append(row)
                left -= 1
                if not left:
                    break
        except CorpusError as error:
            reasons += error.args
    if not sample:
        raise CorpusError([*reasons, f"{where} holds no text; give at least one"][0])
    return sample


def is_pipe(place: str) -> bool:
    """True if a place gives its lines once: standard input, a pipe or a terminal."""
    path = os.path.expanduser(place)
    if place == "-" or places.is_url(place) or not os.path.exists(path) or os.path.isdir(path):
        return place == "-"
    # /dev/stdin and /dev/fd/3 may be a file, which some systems have then read already
    return os.path.abspath(path).startswith("/dev/") or not os.path.isfile(path)


def format_by_name(name: str) -> str | None:
    """The format that the name of a file shows, if any."""
    return ENDINGS.get(places.without_compression(name.lower())[0].rpartition(".")[2])


def format_of(place: str, named: str | None = None, default: str | None = None) -> str:
    """The format of a file: as it is named, as its name shows, or else the default."""
    if named is not None and named not in FORMATS:
        raise CorpusError(f"format is one of {listed(FORMATS)}, not {quoted(named)}")
    format = named or format_by_name(place) or default
    if format is None:
        why = f"the name of {places.shown(place)} does not show its format"
        raise CorpusError(f"{why}; name it: {listed(FORMATS)}")
    return format


# --- where units begin -------------------------------------------------------------------------


def _cut_records(records: Iterable[Record], identity: list[object] | None, size: int) -> Source:
    rest = iter(records)
    batches = takewhile(bool, (list(islice(rest, size)) for _ in count()))
    units = (
        Unit(number, records=batch, rows=(number * size + 1, number * size + len(batch)))
        for number, batch in enumerate(batches)
    )
    if not isinstance(records, Sequence):
        # of a pipe, as they come
        return Source(units, size)
    if identity is None:
        values = [[list(record.row.items()), record.reason] for record in records]
        digest = hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()
        identity = ["rows", len(records), digest]
    return Source(list(units), size, len(records), [identity])


def _cut_file(
    file: FoundFile, columns: Sequence[str], size: int, limit: int | None = None
) -> Source:
    """The first `limit` rows of a file in units of so many.

    A file of this machine is known by its hash, for which it is read once; an object of a store by
    when it was written, and one of lines is not read, but cut by bytes.
    """
    whole, digest = Unit(0, file.place, file.format), hashlib.sha256()
    is_local, is_packed = file.changed is None, places.without_compression(file.place)[1]
    with places.reading(file.place), places.open_file(file.place) as opened:

        def read() -> bytes:
            block = opened.read(_BLOCK)
            digest.update(block)
            return block

        blocks = iter(read, b"")
        if file.format == "parquet":
            units = _units_of_groups(whole, size, limit)
        elif is_local or limit or is_packed or file.format not in OF_LINES:
            units = _units_of_lines(whole, blocks, columns, size, limit)
        else:
            units = _units_of_bytes(whole, blocks, columns, size, file.size)
        while is_local and read():
            pass
    last = units[-1].rows if units else (0, 0)
    rows = last[1] if last else None
    known_by = digest.hexdigest() if is_local else f"written {file.changed}"
    known_by += f", {rows} rows" if rows is not None and rows == limit else ""
    return Source(units, size, rows, [[file.name, file.size, known_by]])


def _units_of_groups(whole: Unit, size: int, limit: int | None) -> list[Unit]:
    try:
        count = sum(parquet.group_sizes(whole.place))
    except CorpusError:
        # one unit, which fails with the reason when it is read
        return [whole]
    count = count if limit is None else min(count, limit)
    ranges = ((start, min(start + size, count)) for start in range(0, count, size))
    return [whole._replace(start=a, stop=b, rows=(a + 1, b)) for a, b in ranges]


def _units_of_lines(
    whole: Unit, blocks: Iterable[bytes], columns: Sequence[str], size: int, limit: int | None
) -> list[Unit]:
    # lines of JSON are not parsed to be counted
    format, columns = ("txt", ()) if whole.format == "jsonl" else (whole.format, columns)
    lines = read_lines(blocks, places.shown(whole.place))
    records = islice(READERS[format](lines, columns), limit)
    units, rows, last = list[Unit](), 0, Line(0, "", 0, "")
    while batch := list(islice(records, size)):
        if not units and format in TABLES and batch[0].line:
            whole = whole._replace(header=batch[0].line.end)
        start, number, last = last.end, last.number + 1, batch[-1].line or last
        numbers, rows = (rows + 1, rows + len(batch)), rows + len(batch)
        units.append(whole._replace(start=start, stop=last.end, line=number, rows=numbers))
    return units


def _units_of_bytes(
    whole: Unit, blocks: Iterator[bytes], columns: Sequence[str], size: int, end: int
) -> list[Unit]:
    """Units of as many bytes as `size` lines of the beginning have."""
    sample = next(blocks, b"")
    for first in _units_of_lines(whole, chain([sample], blocks), columns, 1, 1):
        whole = first._replace(rows=None)
    step = max(1, round(size * len(sample) / max(1, sample.count(b"\n"))))
    ranges = ((start, min(start + step, end)) for start in range(0, end, step))
    return [whole._replace(start=start, stop=stop, line=None) for start, stop in ranges]


# --- what a unit holds -------------------------------------------------------------------------


def read_unit(unit: Unit, columns: Sequence[str], optional: Sequence[str] = ()) -> RowBatch:
    """The rows of a unit; a file that cannot be read raises a `CorpusError`.

    A row without one of the columns has a reason, unless it is optional.
    """
    if unit.format == "parquet":
        table, reasons = parquet.read_table(unit.place, unit.start, unit.stop, columns)
        return RowBatch.of_table(table, (*columns, *optional), reasons)
    records = list(read_records(unit, columns) if unit.records is None else unit.records)
    return RowBatch([record.row for record in records], [record.reason for record in records])


def read_records(unit: Unit, columns: Sequence[str]) -> Iterator[Record]:
    """The rows of a file, or a slice of its lines, one by one, with all their columns."""
    place = unit.place
    if unit.format == "parquet":
        # never over the end of a group: the next one may be damaged
        for begin, end in pairwise(accumulate(parquet.group_sizes(place), initial=0)):
            for start in range(begin, end, _ROWS_ENOUGH):
                stop = min(start + _ROWS_ENOUGH, end)
                table, reasons = parquet.read_table(place, start, stop, columns)
                yield from map(Record, table.to_pylist(), reasons)
        return
    with places.reading(place), places.open_file(place) as file:
        records = READERS[unit.format](_lines(file, unit, places.shown(place)), columns)
        # the first row of a table tells its columns to each unit
        for record in islice(records, 1 if unit.start and unit.header else 0, None):
            line, reason = record.line, record.reason
            if reason is None and line and not all(name in record.row for name in columns):
                reason = columns_reason(columns, record.row, line.where)
            yield record if reason == record.reason else record._replace(reason=reason)


def _lines(file: Any, unit: Unit, where: str) -> Iterator[Line]:
    """The lines of the header, and those that begin in the unit."""
    # where lines are not counted, a unit begins in one of the unit before
    is_cut_unread = unit.line is None and unit.start > 0
    begin, number = unit.start - is_cut_unread, 0 if is_cut_unread else unit.line or 1
    if unit.start > 0:
        yield from read_lines([file.read(unit.header)], where)
        if file.seekable():
            file.seek(begin)
        else:
            for left in range(begin - unit.header, 0, -_BLOCK):
                file.read(min(left, _BLOCK))
    if is_cut_unread:
        where += f" after byte {unit.start:,}"
    blocks = iter(partial(file.read1, _BLOCK), b"")
    for line in read_lines(blocks, where, start=begin, number=number):
        if begin >= unit.start:
            yield line
        begin = line.end
        if unit.stop is not None and begin >= unit.stop:
            return
