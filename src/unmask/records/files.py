"""Inputs cut into units, and the rows of a unit.

A unit is a range of rows of a Parquet file, or of bytes of any other, or rows in memory; a line
belongs to the unit that it begins in. Where units begin depends on the input and the number of rows
in a unit alone, so that every process cuts alike.
"""

import hashlib
import json
import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import CorpusError
from unmask.printable import quoted
from unmask.records import parquet, places
from unmask.records.lines import Line, read_lines
from unmask.records.places import FoundFile
from unmask.records.rows import ENDINGS, READERS, TEXT_COLUMN, Record, Row
from unmask.records.tables import Layout, listed, open_table

if TYPE_CHECKING:
    import pyarrow

FORMATS = (*sorted((*READERS, "parquet")),)
_ENDINGS = (
    *(f".{ending}{packed}" for packed in ("", *places.COMPRESSED) for ending in ENDINGS),
    ".parquet",
)
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
        """Where it is, for errors."""
        kind, (first, last) = ("row", self.rows) if self.rows else ("byte", self[3:5])
        which = f"{kind} {first:,}" if first == last else f"{kind}s {first:,} to {last:,}"
        return f"{which} of {places.shown(self.place) if self.place else 'the input'}"


@dataclass(frozen=True)
class RowBatch:
    """The rows of a unit, or for each that cannot be read the reason; and of Parquet, all columns.

    Where there is a `table`, `rows` have only the columns that were requested.
    """

    rows: Sequence[Row]
    reasons: Sequence[str | None]
    table: "pyarrow.Table | None" = None

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        if self.table is not None:
            return list(self.table.column_names)
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def whole_rows(self) -> Sequence[Row]:
        """The rows with all their columns."""
        return self.rows if self.table is None else self.table.to_pylist()


class Source(NamedTuple):
    """An input cut into units; of a pipe they are read once, and it has no `identity`.

    `rows` is how many there are, if that is known before they are read.
    """

    units: Iterable[Unit]
    rows_per_unit: int
    rows: int | None = None
    identity: list[list[object]] | None = None

    @property
    def unit_count(self) -> int | None:
        """The number of units, if that is known before they are read."""
        return len(self.units) if isinstance(self.units, Sequence) else None


class _Cut(NamedTuple):
    """Where the units of a file begin, or of rows in memory; `unit` is all of it."""

    unit: Unit
    identity: list[object]
    starts: Sequence[int]
    # the numbers of their first lines, and how many rows there are, where that is known
    lines: Sequence[int] | None = None
    rows: int | None = None

    def units(self, number: int, size: int, times: int) -> Iterator[Unit]:
        """Its units, of so many times `size` rows; the first has this number."""
        starts = self.starts[::times]
        lines = None if self.lines is None else self.lines[::times]
        for index, start in enumerate(starts):
            stop = starts[index + 1] if index + 1 < len(starts) else self.unit.stop
            first = index * size * times + 1
            yield self.unit._replace(
                number=number + index,
                start=start,
                stop=stop,
                line=None if lines is None else lines[index],
                rows=None
                if self.rows is None
                else (first, min(first - 1 + size * times, self.rows)),
                records=None if self.unit.records is None else self.unit.records[start:stop],
            )


@dataclass(frozen=True)
class InputRows:
    """An INPUT after a look at its first rows: `names` are their columns, `sample` some of them.

    Its rows are those of `files`, each with its format, or `records`; of these, `identity` is what
    they are known by, in place of a hash.
    """

    names: Sequence[str]
    sample: Sequence[Row]
    files: Sequence[tuple[FoundFile, str]] = ()
    columns: Sequence[str] = ()
    limit: int | None = None
    records: Iterable[Record] | None = None
    identity: list[object] | None = None

    def cut(self, size: int, *, at_least: int = 1, at_most: int = sys.maxsize) -> Source:
        """Units of so many rows; of fewer, or more, where there would be too few or too many."""
        if self.records is not None and not isinstance(self.records, Sequence):
            return Source(_as_they_come(self.records, size), size)
        cuts = self._cuts(size)
        while sum(len(one.starts) for one in cuts) < at_least and size > 1:
            size = max(1, min(size, sum(one.rows or size for one in cuts)) // 2)
            cuts = self._cuts(size)
        times = 1
        while sum(-(-len(one.starts) // times) for one in cuts) > at_most:
            # of each file one unit is left
            times *= 2
        units = list[Unit]()
        for one in cuts:
            units.extend(one.units(len(units), size, times))
        counts = [one.rows for one in cuts if one.rows is not None]
        rows = sum(counts) if len(counts) == len(cuts) else None
        return Source(units, size * times, rows, [one.identity for one in cuts])

    def _cuts(self, size: int) -> list[_Cut]:
        if isinstance(self.records, Sequence):
            return [_cut_records(self.records, self.identity, size)]
        cut = partial(_cut_file, columns=self.columns, size=size)
        if self.limit is None:
            return list(places.in_parallel(cut, self.files))
        cuts, left = list[_Cut](), self.limit
        for file in self.files:
            if left > 0:
                cuts.append(cut(file, limit=left))
                left -= cuts[-1].rows or 0
        return cuts

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
    hold: bool = False,
) -> InputRows:
    """The rows of files, patterns, folders and URLs, or of one pipe (`-` is stdin).

    At most `limit` rows. `format` is theirs if names do not show it, `piped_format` that of a pipe
    by default; with `hold` a pipe is read to its end.
    """
    if format is not None and format not in FORMATS:
        raise CorpusError(f"format is one of {listed(FORMATS)}, not {quoted(format)}")
    pipe = next(filter(is_pipe, inputs), None)
    if pipe is not None:
        if len(inputs) > 1:
            raise CorpusError(f"{places.shown(pipe)} is read alone; leave out the other files")
        unit = Unit(0, pipe, format or format_by_name(pipe) or piped_format)
        return _open_pipe(unit, columns, limit, hold)
    files = [(file, format or format_by_name(file.name)) for file in places.find(inputs, _ENDINGS)]
    for file, its_format in files:
        if its_format is None:
            raise CorpusError(
                f"the name of {places.shown(file.place)} does not show its format; name it: "
                f"{listed(FORMATS)}"
            )
    return _look([(file, its_format or "") for file, its_format in files], columns, limit)


def _look(
    files: Sequence[tuple[FoundFile, str]], columns: Sequence[str], limit: int | None
) -> InputRows:
    """An input after a look at the first rows of some files; if none can be read, it is refused."""
    what = places.shown(files[0][0].place) if len(files) == 1 else "the input"
    why, names, sample = f"{what} holds no text; give at least one", list[str](), list[Row]()
    step = max(1, len(files) // _FILES_LOOKED_AT)
    for file, format in files[::step][:_FILES_LOOKED_AT]:
        try:
            batch = _first_rows(file.place, format, columns)
        except CorpusError as error:
            why = str(error)
            continue
        good = [row for row, reason in zip(batch.rows, batch.reasons, strict=True) if not reason]
        # lines of JSON may each have others: that of a later row is no slip
        names = names or list(batch.columns if batch.table is not None else good[0] if good else ())
        sample += good
        why = next(filter(None, batch.reasons), why)
    if not sample:
        raise CorpusError(why)
    return InputRows(names, sample, files, columns, limit)


def _first_rows(place: str, format: str, columns: Sequence[str]) -> RowBatch:
    if format == "parquet":
        # of the first group alone: a damaged one further on is a matter of its unit
        rows = next(filter(None, parquet.group_sizes(place)), 0)
        return read_unit(Unit(0, place, format, stop=min(_ROWS_ENOUGH, rows)), columns)
    records, good = list[Record](), 0
    for record in islice(_records(Unit(0, place, format), columns), _ROWS_LOOKED_AT):
        records.append(record)
        good += record.reason is None
        if good == _ROWS_ENOUGH:
            break
    return read_unit(Unit(0, records=records), columns)


def _open_pipe(unit: Unit, columns: Sequence[str], limit: int | None, hold: bool) -> InputRows:
    shown = places.shown(unit.place)
    if unit.format == "parquet":
        raise CorpusError(f"{shown} is a pipe, from which Parquet cannot be read; give a file")
    records, head = islice(_records(unit, columns), limit), list[Record]()
    # no further than the first row: it may be a terminal
    for record in records:
        head.append(record)
        if record.reason is None:
            break
    else:
        reasons = [record.reason for record in head]
        raise CorpusError((reasons and reasons[0]) or f"{shown} holds no text; give at least one")
    if hold:
        return rows_in_memory([*head, *records])
    row = head[-1].row
    return InputRows(list(row), [row], columns=columns, records=chain(head, records))


def is_pipe(place: str) -> bool:
    """Whether a place gives its lines once: standard input, a pipe or a terminal."""
    if place == "-" or places.is_url(place):
        return place == "-"
    path = os.path.expanduser(place)
    # /dev/stdin and /dev/fd/3 may be a file, which some systems have then read already
    is_device = os.path.abspath(path).startswith("/dev/")
    if not os.path.exists(path) or os.path.isdir(path):
        return False
    return is_device or not os.path.isfile(path)


def format_by_name(name: str) -> str | None:
    """The format that the name of a file shows, if any."""
    ending = places.without_compression(name.lower())[0].rpartition(".")[2]
    return ending if ending == "parquet" else ENDINGS.get(ending)


def check_header(place: str, format: str | None, columns: Sequence[str]) -> None:
    """Raise where the first line of a CSV or TSV file of this machine lacks a column."""
    path = os.path.expanduser(place)
    if os.path.isfile(path) and not is_pipe(place):
        layout = _layout(path, format or format_by_name(path), columns)
        if layout.reason is not None:
            raise CorpusError(layout.reason)


# --- where units begin -------------------------------------------------------------------------


def _as_they_come(records: Iterable[Record], size: int) -> Iterator[Unit]:
    rest = iter(records)
    for number in count():
        if not (some := list(islice(rest, size))):
            return
        yield Unit(number, records=some, rows=(number * size + 1, number * size + len(some)))


def _cut_records(records: Sequence[Record], identity: list[object] | None, size: int) -> _Cut:
    rows = len(records)
    if identity is None:
        total = hashlib.sha256()
        for record in records:
            values = json.dumps([list(record.row.items()), record.reason], default=str)
            total.update(values.encode() + b"\n")
        identity = ["rows", rows, total.hexdigest()]
    return _Cut(Unit(0, stop=rows, records=records), identity, range(0, rows, size), rows=rows)


def _cut_file(
    file_and_format: tuple[FoundFile, str],
    columns: Sequence[str],
    size: int,
    limit: int | None = None,
) -> _Cut:
    """A file of this machine is known by its hash, an object of a store by when it was written."""
    file, format = file_and_format
    with places.reading(file.place):
        if format == "parquet":
            return _cut_parquet(file, size, limit)
        unit = Unit(0, file.place, format, header=_layout(file.place, format, columns).end)
        is_packed = places.without_compression(file.place)[1] is not None
        if file.changed is None or is_packed or limit or format not in _OF_LINES:
            return _cut_by_records(file, unit, columns, size, limit)
        # unread: as many bytes as the rows of its beginning have
        with places.open_file(file.place) as opened:
            sample = opened.read(_BLOCK)
        mean = len(sample) / max(1, sample.count(b"\n"))
        starts = range(0, file.size, max(1, round(mean * size)))
        return _Cut(unit._replace(stop=file.size), _identity(file), starts)


def _cut_parquet(file: FoundFile, size: int, limit: int | None) -> _Cut:
    digest = ""
    if file.changed is None:
        with open(file.place, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    try:
        rows = sum(parquet.group_sizes(file.place))
    except CorpusError:
        # one unit, which fails with the reason when it is read
        return _Cut(Unit(0, file.place, "parquet", stop=1), _identity(file, digest), [0])
    is_part = limit is not None and limit < rows
    rows = rows if limit is None else min(rows, limit)
    unit = Unit(0, file.place, "parquet", stop=rows)
    identity = _identity(file, digest, rows if is_part else None)
    return _Cut(unit, identity, range(0, rows, size), rows=rows)


def _cut_by_records(
    file: FoundFile, unit: Unit, columns: Sequence[str], size: int, limit: int | None
) -> _Cut:
    """A file that is read once, to its end or the limit: for its hash, and where records end."""
    starts, lines, rows = array("q"), array("q"), 0
    total, last = hashlib.sha256(), Line(0, "", 0, "")
    # lines of JSON are not parsed to be counted
    reader = READERS["txt" if unit.format == "jsonl" else unit.format]
    with places.open_file(file.place) as opened:

        def read() -> bytes:
            block = opened.read(_BLOCK)
            total.update(block)
            return block

        shown = places.shown(file.place)
        for record in islice(reader(read_lines(read, shown), columns), limit):
            if rows % size == 0:
                starts.append(last.end)
                lines.append(last.number + 1)
            rows, last = rows + 1, record.line or last
        # what comes after a record that cannot be read belongs to the last unit
        while rows != limit and read():
            pass
    stop = last.end if rows == limit else None
    identity = _identity(file, total.hexdigest(), rows if rows == limit else None)
    return _Cut(unit._replace(stop=stop), identity, starts, lines, rows)


def _identity(file: FoundFile, digest: str = "", rows: int | None = None) -> list[object]:
    known_by = digest if file.changed is None else f"written {file.changed}"
    return [file.name, file.size, known_by + ("" if rows is None else f", {rows} rows")]


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
        missing = _missing(columns, table.column_names, places.shown(unit.place))
        present = [name for name in (*columns, *optional) if name in table.column_names]
        rows = table.select(present).to_pylist() if present else [{}] * table.num_rows
        return RowBatch(rows, [missing or reason for reason in reasons], table)
    records = list(_records(unit, columns) if unit.records is None else unit.records)
    return RowBatch([one.row for one in records], [one.reason for one in records])


def records_or_raise(place: str, format: str | None, columns: Sequence[str]) -> Iterator[Record]:
    """Every row of a file; the first that cannot be read raises a `CorpusError`."""
    unit = Unit(0, place, format or format_by_name(place) or "txt")
    if unit.format == "parquet":
        batch = read_unit(unit, columns)
        records: Iterable[Record] = map(Record, batch.whole_rows, batch.reasons)
    else:
        records = _records(unit, columns)
    for record in records:
        if record.reason is not None:
            raise CorpusError(record.reason)
        yield record


def _records(unit: Unit, columns: Sequence[str]) -> Iterator[Record]:
    """The rows of a file of lines, one by one."""
    if unit.place == "-" and sys.stdin is None:
        raise CorpusError("there is no standard input to read from; give a file")
    # standard input is not ours to close
    is_input = unit.place == "-"
    with (
        places.reading(unit.place),
        nullcontext(sys.stdin.buffer) if is_input else places.open_file(unit.place) as file,
    ):
        for record in READERS[unit.format](_lines(file, unit), columns):
            line = record.line
            if line is not None and line.end <= unit.start:
                # the first row of a table without names, which tells its columns to each unit
                continue
            if record.reason is None and not all(name in record.row for name in columns):
                where = line.where if line is not None else ""
                record = record._replace(reason=_missing(columns, record.row, where))
            yield record


def _lines(file: Any, unit: Unit) -> Iterator[Line]:
    """The lines of the header, and those that begin in the unit."""
    shown, at, number = places.shown(unit.place), unit.start, unit.line
    if at > 0:
        header = [b"", file.read(unit.header)]
        yield from read_lines(header.pop, shown)
        # where lines are not counted, a unit begins in one of the unit before
        at -= number is None
        if file.seekable():
            file.seek(at)
        for left in range(at - unit.header, 0, -_BLOCK) if not file.seekable() else ():
            file.read(min(left, _BLOCK))
    skips = at < unit.start
    lines = read_lines(
        partial(file.read1, _BLOCK),
        shown,
        start=at,
        number=number or int(not skips),
        after=unit.start if skips else 0,
    )
    for line in lines:
        if unit.stop is not None and at >= unit.stop:
            return
        at = line.end
        if not skips:
            yield line
        skips = False


def _missing(columns: Sequence[str], fields: Iterable[str], where: str) -> str | None:
    """Why a row cannot be used that lacks one of the columns."""
    for column in columns:
        if column not in fields:
            return f"{where} has no {quoted(column)}; it has {listed(fields) or 'no key at all'}"
    return None
