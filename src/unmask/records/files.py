"""Inputs cut into units, and the rows of a unit.

A unit is a range of rows of a Parquet file, or of bytes of any other, or rows in memory; a line
belongs to the unit that it begins in. Where units begin depends on the input and the number of rows
in a unit alone, so that every process cuts alike.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import CorpusError
from unmask.printable import quoted
from unmask.records import parquet, places
from unmask.records.lines import Line, read_lines
from unmask.records.places import FoundFile
from unmask.records.rows import ENDINGS, READERS, TEXT_COLUMN, Record, Row
from unmask.records.tables import Layout, listed, missing_reason, open_table

if TYPE_CHECKING:
    import pyarrow

FORMATS = tuple(sorted(set(ENDINGS.values())))
_ENDINGS = tuple(f".{end}{packed}" for packed in ("", *places.COMPRESSED) for end in ENDINGS)
# formats in which a line is a row: of an object of a store they are cut unread
_OF_LINES = ("jsonl", "tsv", "txt")
_BLOCK = 2**20
# before an input is refused because no row of it can be read; and how many of each file are enough
_FILES_LOOKED_AT, _ROWS_LOOKED_AT, _ROWS_ENOUGH = 8, 1000, 64


class Unit(NamedTuple):
    """A slice of the input: the rows, or else the bytes, from `start` to before `stop`.

    The file begins with a header of so many bytes; `line` is the number of the slice's first line,
    None where it is not known, and `rows` are the numbers of its first and last row. In place of a
    file it may have `records`.
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

    Its rows are those of `files`, each with its format, or `records`; of these, `identity` is what
    they are known by, in place of a hash. At a pipe `begin` looks; errors call it `shown`.
    """

    names: Sequence[str] = ()
    sample: Sequence[Row] = ()
    files: Sequence[tuple[FoundFile, str]] = ()
    columns: Sequence[str] = ()
    limit: int | None = None
    records: Iterable[Record] | None = None
    identity: list[object] | None = None
    where: str = "the input"

    @property
    def is_pipe(self) -> bool:
        """True if its rows are read once, as they come."""
        return self.records is not None and not isinstance(self.records, Sequence)

    def begin(self, *, hold: bool = False) -> "InputRows":
        """The same after the first row of a pipe that can be read; with `hold` all are read."""
        if not self.is_pipe:
            return self
        rest, head = iter(self.records or ()), list[Record]()
        for record in rest:
            head.append(record)
            # no further than the first row: it may be a terminal
            if record.reason is None and not hold:
                break
        names, sample = _look([head], self.where)
        if hold:
            return rows_in_memory(head)
        return replace(self, names=names, sample=sample, records=chain(head, rest))

    def cut(self, size: int, *, at_least: int = 1, at_most: int | None = None) -> Source:
        """Units of so many rows; of fewer, or more, where there would be too few or too many."""
        source = self._cut(size)
        while (units := source.unit_count or at_least) < at_least and size > 1:
            size = max(1, min(size, source.rows or size) // 2)
            source = self._cut(size)
        # of each file one unit is left
        while at_most is not None and units > max(at_most, len(self.files)):
            size *= -(-units // at_most)
            source = self._cut(size)
            units = source.unit_count or 0
        return source

    def _cut(self, size: int) -> Source:
        if self.records is not None:
            return _cut_records(self.records, self.identity, size)
        cut = partial(_cut_file, columns=self.columns, size=size)
        if self.limit is None:
            cuts = list(places.in_parallel(cut, self.files))
        else:
            cuts, left = list[Source](), self.limit
            for file in self.files:
                if left > 0:
                    cuts.append(cut(file, limit=left))
                    left -= cuts[-1].rows or 0
        every = chain.from_iterable(cut.units for cut in cuts)
        units = [unit._replace(number=number) for number, unit in enumerate(every)]
        counts = [cut.rows for cut in cuts if cut.rows is not None]
        rows = sum(counts) if len(counts) == len(cuts) else None
        return Source(units, size, rows, [file for cut in cuts for file in cut.identity])

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
    by default. If no row of the files can be read, they are refused; a pipe is not read yet.
    """
    pipe = next(filter(is_pipe, inputs), None)
    if pipe is not None and len(inputs) > 1:
        raise CorpusError(f"{places.shown(pipe)} is read alone; leave out the other files")
    if pipe is not None:
        unit = Unit(0, pipe, format_of(pipe, format, piped_format))
        records = islice(read_records(unit, columns), limit)
        return InputRows(columns=columns, records=records, where=places.shown(pipe))
    files = [(file, format_of(file.place, format)) for file in places.find(inputs, _ENDINGS)]
    step = max(1, len(files) // _FILES_LOOKED_AT)
    heads = (_head(file.place, its, columns) for file, its in files[::step][:_FILES_LOOKED_AT])
    where = places.shown(files[0][0].place) if len(files) == 1 else "the input"
    names, sample = _look(heads, where)
    return InputRows(names, sample, files, columns, limit)


def _look(heads: Iterable[Iterable[Record]], where: str) -> tuple[list[str], list[Row]]:
    """The columns of the first rows of some files, and some rows that can be read."""
    names, sample, why = list[str](), list[Row](), ""
    for head in heads:
        good = list[Row]()
        for record in head:
            if record.reason is not None:
                why = why or record.reason
                continue
            good.append(record.row)
            if len(good) == _ROWS_ENOUGH:
                break
        # lines of JSON may each have others: that of a later row is no slip
        names = names or list(good[0] if good else ())
        sample += good
    if not sample:
        raise CorpusError(why or f"{where} holds no text; give at least one")
    return names, sample


def _head(place: str, format: str, columns: Sequence[str]) -> Iterator[Record]:
    """The first rows of a file, or why it cannot be read."""
    unit = Unit(0, place, format)
    try:
        if format == "parquet":
            # of the first group alone: a damaged one further on is a matter of its unit
            rows = next(filter(None, parquet.group_sizes(place)), 0)
            unit = unit._replace(stop=min(_ROWS_ENOUGH, rows))
        yield from islice(read_records(unit, columns), _ROWS_LOOKED_AT)
    except CorpusError as error:
        yield Record({}, str(error))


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
        raise CorpusError(
            f"the name of {places.shown(place)} does not show its format; name it: "
            f"{listed(FORMATS)}"
        )
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
    file_and_format: tuple[FoundFile, str],
    columns: Sequence[str],
    size: int,
    limit: int | None = None,
) -> Source:
    """The first `limit` rows of a file in units of so many.

    A file of this machine is known by its hash, for which it is read once; an object of a store by
    when it was written, and one of lines is not read, but cut by bytes: as many as that many lines
    of its beginning have.
    """
    (file, format), total, rows = file_and_format, hashlib.sha256(), None
    place, where, is_local = file.place, places.shown(file.place), file.changed is None
    is_packed = places.without_compression(place)[1] is not None
    units, whole = list[Unit](), Unit(0, place, format)
    with places.reading(place), places.open_file(place) as opened:

        def read() -> bytes:
            block = opened.read(_BLOCK)
            total.update(block)
            return block

        whole = whole._replace(header=_layout(place, format, columns).end)
        if format == "parquet":
            try:
                rows = sum(parquet.group_sizes(place))
                rows = rows if limit is None else min(rows, limit)
            except CorpusError:
                # one unit, which fails with the reason when it is read
                units.append(whole)
            for start in range(0, rows or 0, size):
                stop = min(start + size, rows or 0)
                units.append(whole._replace(start=start, stop=stop, rows=(start + 1, stop)))
        elif not is_local and format in _OF_LINES and not (is_packed or limit):
            sample = read()
            step = max(1, round(size * len(sample) / max(1, sample.count(b"\n"))))
            for start in range(0, file.size, step):
                stop = min(start + step, file.size)
                units.append(whole._replace(start=start, stop=stop, line=None))
        else:
            lines, last, rows = read_lines(read, where), Line(0, "", 0, ""), 0
            # lines of JSON are not parsed to be counted
            how = ("txt", ()) if format == "jsonl" else (format, columns)
            records = islice(READERS[how[0]](lines, how[1]), limit)
            while batch := list(islice(records, size)):
                start, line, last = last.end, last.number + 1, batch[-1].line or last
                numbers, rows = (rows + 1, rows + len(batch)), rows + len(batch)
                unit = whole._replace(start=start, stop=last.end, line=line, rows=numbers)
                units.append(unit)
        while is_local and read():
            pass
    known_by = total.hexdigest() if is_local else f"written {file.changed}"
    known_by += f", {rows} rows" if rows is not None and rows == limit else ""
    return Source(units, size, rows, [[file.name, file.size, known_by]])


def _layout(place: str, format: str | None, columns: Sequence[str]) -> Layout:
    """The layout of a table; any other file has no columns."""
    if format not in ("csv", "tsv"):
        return Layout([])
    with places.open_file(place) as file:
        lines = read_lines(partial(file.read, _BLOCK), places.shown(place))
        return open_table(lines, format, columns)[0]


# --- what a unit holds -------------------------------------------------------------------------


def read_unit(unit: Unit, columns: Sequence[str], optional: Sequence[str] = ()) -> RowBatch:
    """The rows of a unit; a file that cannot be read raises a `CorpusError`.

    A row without one of the columns has a reason, unless it is optional.
    """
    if unit.records is None and unit.format == "parquet":
        with places.reading(unit.place):
            table, reasons = parquet.read_table(unit.place, unit.start, unit.stop, columns)
        missing = missing_reason(columns, table.column_names, places.shown(unit.place))
        reasons = [missing or reason for reason in reasons]
        return RowBatch.of_table(table, (*columns, *optional), reasons)
    records = list(read_records(unit, columns) if unit.records is None else unit.records)
    return RowBatch([record.row for record in records], [record.reason for record in records])


def records_or_raise(place: str, format: str | None, columns: Sequence[str]) -> Iterator[Record]:
    """Every row of a file; the first that cannot be read raises a `CorpusError`."""
    for record in read_records(Unit(0, place, format_of(place, format)), columns):
        if record.reason is not None:
            raise CorpusError(record.reason)
        yield record


def read_records(unit: Unit, columns: Sequence[str]) -> Iterator[Record]:
    """The rows of a file one by one, with all their columns."""
    where, is_input = places.shown(unit.place), unit.place == "-"
    if unit.format == "parquet" and is_pipe(unit.place):
        raise CorpusError(f"{where} is a pipe, from which Parquet cannot be read; give a file")
    if unit.format == "parquet":
        batch = read_unit(unit, columns)
        yield from map(Record, batch.table.to_pylist() if batch.table else (), batch.reasons)
        return
    if is_input and sys.stdin is None:
        raise CorpusError("there is no standard input to read from; give a file")
    # standard input is not ours to close
    with (
        places.reading(unit.place),
        nullcontext(sys.stdin.buffer) if is_input else places.open_file(unit.place) as file,
    ):
        for record in READERS[unit.format](_lines(file, unit, where), columns):
            line, reason = record.line, record.reason
            if line is not None and line.end <= unit.start:
                # the first row of a table without names, which tells its columns to each unit
                continue
            if reason is None and line and not all(name in record.row for name in columns):
                reason = missing_reason(columns, record.row, line.where)
            yield record if reason is None else record._replace(reason=reason)


def _lines(file: Any, unit: Unit, where: str) -> Iterator[Line]:
    """The lines of the header, and those that begin in the unit."""
    if unit.start > 0:
        header = [b"", file.read(unit.header)]
        yield from read_lines(header.pop, where)
    # where lines are not counted, a unit begins in one of the unit before
    skips = unit.line is None and unit.start > 0
    at = unit.start - skips
    if at > 0 and file.seekable():
        file.seek(at)
    elif at > 0:
        for left in range(at - unit.header, 0, -_BLOCK):
            file.read(min(left, _BLOCK))
    number, after = (0, unit.start) if skips else (unit.line or 1, 0)
    read = partial(file.read1, _BLOCK)
    for line in read_lines(read, where, start=at, number=number, after=after):
        if unit.stop is not None and at >= unit.stop:
            return
        at = line.end
        if not skips:
            yield line
        skips = False
