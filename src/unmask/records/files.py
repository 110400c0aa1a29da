"""The one reader of rows: files cut into units, and the rows of a unit.

A unit is a run of rows of a Parquet file, a range of bytes of a file of lines, or rows in memory; a
line belongs to the unit that it begins in. Where units begin depends on the input and the number
of rows in a unit alone, so that every process cuts alike.
"""

import hashlib
import json
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from unmask.errors import CorpusError
from unmask.printable import describe, quoted
from unmask.records import parquet, places
from unmask.records.lines import LONGEST, decoded_lines, line_of
from unmask.records.places import FoundFile
from unmask.records.rows import TEXT_COLUMN, Record, Row, read_records
from unmask.records.tables import Layout, by_columns, listed, open_table, table_cells

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("csv", "fasta", "jsonl", "parquet", "tsv", "txt")
_FASTA = ("fa", "faa", "fna")
ENDINGS = tuple(
    f".{ending}{packed}"
    for packed in ("", *places.COMPRESSED)
    for ending in (*FORMATS, *_FASTA)
    if not (packed and ending == "parquet")
)
# of an object of a store: what its lines are like is taken from so many bytes
_SAMPLE_BYTES = 2**20
# before an input is refused because no row of it can be read; and how many of each file are enough
_FILES_LOOKED_AT, _ROWS_LOOKED_AT, _ROWS_ENOUGH = 8, 1000, 64


class Unit(NamedTuple):
    """A slice of the input: rows of Parquet from `start` to before `stop`, else bytes; or records.

    `line` is the number of its first line, None where it is not known; `layout` is that of its
    table, `rows` the numbers of its first and last row. At most `most` rows belong to it.
    """

    number: int
    place: str = ""
    format: str = "txt"
    start: int = 0
    stop: int = sys.maxsize
    line: int | None = 1
    layout: Layout | None = None
    most: int | None = None
    records: Sequence[Record] | None = None
    rows: tuple[int, int] | None = None

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

    @classmethod
    def of(cls, records: Iterable[Record]) -> "RowBatch":
        """Rows that were read one by one."""
        records = list(records)
        return cls([one.row for one in records], [one.reason for one in records])

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


@dataclass(frozen=True)
class InputFile:
    """A file and where its units begin; `rows` is how many it has, where that is known.

    `identity` is the hash of its content, or the time at which a store wrote it. Of the last unit
    only the first `most` rows are read.
    """

    entry: FoundFile
    format: str
    identity: str
    cuts: Sequence[int] = field(repr=False)
    stop: int
    lines: Sequence[int] | None = field(default=None, repr=False)
    rows: int | None = None
    layout: Layout | None = None
    most: int | None = None

    def units(self, number: int = 0) -> Iterator[Unit]:
        """Its units; the first has this number."""
        stops, last = chain(self.cuts[1:], [self.stop]), len(self.cuts) - 1
        for index, (start, stop) in enumerate(zip(self.cuts, stops, strict=False)):
            line = None if self.lines is None else self.lines[index]
            most = self.most if index == last else None
            place, format = self.entry.place, self.format
            yield Unit(number + index, place, format, start, stop, line, self.layout, most)


@dataclass(frozen=True)
class CutFiles:
    """Files cut into units of so many rows."""

    files: Sequence[InputFile]
    rows_per_unit: int

    @property
    def unit_count(self) -> int:
        """The number of units."""
        return sum(len(one.cuts) for one in self.files)

    @property
    def rows(self) -> int | None:
        """The number of rows, if that is known before they are read."""
        counts = [one.rows for one in self.files if one.rows is not None]
        return sum(counts) if len(counts) == len(self.files) else None

    def units(self) -> Iterator[Unit]:
        """Every unit, numbered from 0."""
        number, size = 0, self.rows_per_unit
        for file in self.files:
            for index, unit in enumerate(file.units(number)):
                last = min((index + 1) * size, file.rows or 0)
                yield unit._replace(rows=(index * size + 1, last) if last else None)
            number += len(file.cuts)

    def coarser(self, times: int) -> "CutFiles":
        """The same in units of so many times as many rows."""
        files = [
            replace(one, cuts=one.cuts[::times], lines=one.lines and one.lines[::times])
            for one in self.files
        ]
        return CutFiles(files, self.rows_per_unit * times)

    def to_dict(self) -> list[list[object]]:
        """The identity of the input, wherever it lies."""
        return [[one.entry.name, one.entry.size, one.identity] for one in self.files]


def _first_rows_of(files: Sequence[InputFile], limit: int, size: int) -> Iterator[InputFile]:
    """The files up to a number of rows."""
    for file in files:
        rows = limit if file.rows is None else min(limit, file.rows)
        if rows > 0 and rows == file.rows:
            yield file
        elif rows > 0:
            units = -(-rows // size)
            identity, most = f"{file.identity}, {rows} rows", rows - (units - 1) * size
            cuts = file.cuts[:units]
            yield replace(file, cuts=cuts, rows=rows, identity=identity, most=most)
        limit -= rows


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory, or of a pipe that is read once: then `identity` is None."""

    records: Iterable[Record]
    rows_per_unit: int
    identity: list[list[object]] | None = None

    @property
    def rows(self) -> int | None:
        """The number of rows, if that is known before they are read."""
        return len(self.records) if isinstance(self.records, Sequence) else None

    @property
    def unit_count(self) -> int | None:
        """The number of units, if that is known before they are read."""
        return None if self.rows is None else -(-self.rows // self.rows_per_unit)

    def units(self) -> Iterator[Unit]:
        """Every unit, numbered from 0."""
        rest = iter(self.records)
        for number in count():
            if not (records := list(islice(rest, self.rows_per_unit))):
                return
            first = number * self.rows_per_unit + 1
            yield Unit(number, records=records, rows=(first, first + len(records) - 1))

    def coarser(self, times: int) -> "HeldRows":
        """The same in units of so many times as many rows."""
        return replace(self, rows_per_unit=self.rows_per_unit * times)

    def to_dict(self) -> list[list[object]] | None:
        """The identity of the input."""
        return self.identity


Source = CutFiles | HeldRows


@dataclass(frozen=True)
class InputRows:
    """An INPUT after a look at its first rows: `names` are their columns, `sample` some of them.

    Its rows are those of `files`, each with its format, or `records`.
    """

    files: Sequence[tuple[FoundFile, str]]
    columns: Sequence[str]
    names: Sequence[str]
    sample: Sequence[Row]
    limit: int | None = None
    records: Iterable[Record] | None = None

    def cut(self, rows_per_unit: int) -> Source:
        """Its units, of so many rows; an empty file has none."""
        if self.records is not None:
            if not isinstance(self.records, Sequence):
                return HeldRows(self.records, rows_per_unit)
            total = hashlib.sha256()
            for one in self.records:
                values = json.dumps([list(one.row.items()), one.reason], default=str)
                total.update(values.encode() + b"\n")
            identity: list[list[object]] = [["rows", len(self.records), total.hexdigest()]]
            return HeldRows(self.records, rows_per_unit, identity)
        cut = partial(_cut, size=rows_per_unit, columns=self.columns, limit=self.limit)
        files = list(places.in_parallel(cut, self.files))
        if self.limit is not None:
            files = list(_first_rows_of(files, self.limit, rows_per_unit))
        return CutFiles(files, rows_per_unit)

    def all_names(self, units: Iterable[Unit]) -> list[str]:
        """The columns of all rows: those of JSON lines on this machine may each have others."""
        names = dict.fromkeys(self.names)
        for unit in units:
            if unit.format == "jsonl" and not places.is_url(unit.place):
                names.update(dict.fromkeys(read_unit(unit, self.columns).columns))
        return list(names)


def rows_in_memory(records: Sequence[Record]) -> InputRows:
    """An input of rows that need not be read."""
    names = dict.fromkeys(name for one in records for name in one.row)
    good = [one.row for one in records if one.reason is None]
    return InputRows((), (), list(names), good[:_ROWS_LOOKED_AT], records=records)


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
    if pipe is None:
        entries = places.find(inputs, ENDINGS)
        files = [(one, format or _format_of(one)) for one in entries]
        return replace(_looked_at(files, columns), limit=limit)
    if len(inputs) > 1:
        raise CorpusError(f"{_shown(pipe)} is read alone; leave out the other files")
    records = islice(_pipe_records(pipe, format, piped_format, columns), limit)
    head = _head(records, pipe)
    if hold:
        return rows_in_memory([*head, *records])
    return InputRows((), columns, list(head[-1].row), [head[-1].row], records=chain(head, records))


def _looked_at(files: Sequence[tuple[FoundFile, str]], columns: Sequence[str]) -> InputRows:
    """An input after a look at the first rows of some files; if none can be read, it is refused."""
    what = places.shown(files[0][0].place) if len(files) == 1 else "the input"
    why, names, sample = f"{what} holds no text; give at least one", list[str](), list[Row]()
    step = max(1, len(files) // _FILES_LOOKED_AT)
    for file, format in files[::step][:_FILES_LOOKED_AT]:
        _check_plain(format, columns, places.shown(file.place))
        try:
            batch = _first_rows(file, format, columns)
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
    return InputRows(files, columns, names, sample)


def _first_rows(file: FoundFile, format: str, columns: Sequence[str]) -> RowBatch:
    if format == "parquet":
        # of the first group alone: a damaged one further on is a matter of its unit
        rows = parquet.first_rows(file.place)
        return read_unit(Unit(0, file.place, format, 0, min(_ROWS_ENOUGH, rows)), columns)
    records, good = list[Record](), 0
    try:
        for one in islice(_line_records(Unit(0, file.place, format), columns), _ROWS_LOOKED_AT):
            records.append(one)
            good += one.reason is None
            if good == _ROWS_ENOUGH:
                break
    except places.READING_ERRORS as error:
        raise _unreadable(file.place, error) from None
    return RowBatch.of(records)


def _head(records: Iterable[Record], place: str) -> list[Record]:
    """The rows up to the first that can be read; the reason is raised where there is none."""
    head: list[Record] = []
    for one in records:
        head.append(one)
        if one.reason is None:
            return head
    empty = f"{_shown(place)} holds no text; give at least one"
    raise CorpusError(head[0].reason or "" if head else empty)


def rows_or_raise(place: str, format: str | None, columns: Sequence[str]) -> Iterator[Row]:
    """Every row of files with all columns; the first that cannot be read raises a `CorpusError`."""
    for file, each in open_input([place], columns, format=format).files:
        stop = parquet.footer(file.place).num_rows if each == "parquet" else sys.maxsize
        batch = read_unit(Unit(0, file.place, each, 0, stop), columns)
        for row, reason in zip(batch.whole_rows, batch.reasons, strict=True):
            if reason is not None:
                raise CorpusError(reason)
            yield row


# --- pipes -------------------------------------------------------------------------------------


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


def _shown(place: str) -> str:
    return "standard input" if place == "-" else places.shown(place)


def _pipe_records(
    place: str, format: str | None, default: str, columns: Sequence[str]
) -> Iterator[Record]:
    shown = _shown(place)
    format = format or format_by_name(place) or default
    if format == "parquet":
        raise CorpusError(f"{shown} is a pipe, from which Parquet cannot be read; give a file")
    if place == "-" and sys.stdin is None:
        raise CorpusError("there is no standard input to read from; give a file")
    _check_plain(format, columns, shown)
    try:
        # standard input is not ours to close
        with nullcontext(sys.stdin.buffer) if place == "-" else open(place, "rb") as file:
            lines = decoded_lines(file.readline, shown)
            yield from read_records(lines, format, columns, shown, line_of(shown))
    except OSError as error:
        raise _unreadable(place, error) from None


def _unreadable(place: str, error: Exception) -> CorpusError:
    why = getattr(error, "strerror", None) or describe(error)
    return CorpusError(f"cannot read {_shown(place)}: {why}")


def _check_plain(format: str, columns: Sequence[str], shown: str) -> None:
    for name in columns if format == "txt" else ():
        if name != TEXT_COLUMN:
            raise CorpusError(
                f"{shown} is plain text, one text per line, without a column {quoted(name)}; leave "
                "columns out, or give the format: csv, jsonl or tsv"
            )


# --- where units begin -------------------------------------------------------------------------


def format_by_name(name: str) -> str | None:
    """The format that the name of a file shows, if any."""
    ending = places.without_compression(name.lower())[0].rpartition(".")[2]
    return "fasta" if ending in _FASTA else ending if ending in FORMATS else None


def _format_of(file: FoundFile) -> str:
    format = format_by_name(file.name)
    if format is None:
        raise CorpusError(
            f"the name of {places.shown(file.place)} does not show its format; name it: "
            f"{listed(FORMATS)}"
        )
    return format


def _cut(
    chosen: tuple[FoundFile, str], size: int, columns: Sequence[str], limit: int | None
) -> InputFile:
    file, format = chosen
    is_packed = places.without_compression(file.place)[1] is not None
    try:
        if format == "parquet":
            return _cut_parquet(file, size)
        if file.changed is not None and format not in ("csv", "fasta") and not (is_packed or limit):
            return _cut_unread(file, format, size, columns)
        return _cut_by_records(file, format, size, columns)
    except places.READING_ERRORS as error:
        raise _unreadable(file.place, error) from None


def _cut_parquet(entry: FoundFile, size: int) -> InputFile:
    identity = f"written {entry.changed}"
    if entry.changed is None:
        with open(entry.place, "rb") as file:
            identity = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        rows = parquet.footer(entry.place).num_rows
    except CorpusError:
        # one unit, which fails with the reason when it is read
        return InputFile(entry, "parquet", identity, (0,), 1)
    return InputFile(entry, "parquet", identity, range(0, rows, size), rows, rows=rows)


def _cut_unread(entry: FoundFile, format: str, size: int, columns: Sequence[str]) -> InputFile:
    """An object of a store, by bytes: as many as the rows of its beginning have."""
    with places.open_file(entry.place) as file:
        sample = file.read(_SAMPLE_BYTES)
    mean = len(sample) / max(1, sample.count(b"\n"))
    cuts = range(0, entry.size, max(1, round(mean * size)))
    layout = _layout_of(entry.place, format, columns)
    return InputFile(entry, format, f"written {entry.changed}", cuts, entry.size, layout=layout)


# how many records end at a byte, and at which line the next begins
_Ends = Iterator[tuple[int, tuple[int, int]]]


class _CountedLines:
    """The lines of a file with what has been read so far: bytes, lines, and their hash.

    `before` is where the last line begins, in bytes and lines.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.hash = file, hashlib.sha256()
        self.bytes, self.line = 0, 1
        self.before = 0, 1

    def __iter__(self) -> Iterator[bytes]:
        """Every line with its end; a long one in several pieces."""
        for piece in iter(partial(self._file.readline, LONGEST), b""):
            self.hash.update(piece)
            self.before = self.bytes, self.line
            self.bytes += len(piece)
            self.line += piece.endswith(b"\n")
            yield piece


def _cut_by_records(entry: FoundFile, format: str, size: int, columns: Sequence[str]) -> InputFile:
    """A file that is read to its end once: for its hash, and where every so many-th record ends."""
    cuts, lines, records = array("q", [0]), array("q", [1]), 0
    layout = _layout_of(entry.place, format, columns)
    ends: dict[str, Callable[[_CountedLines], _Ends]] = {
        "csv": partial(_csv_ends, layout=layout),
        "fasta": _fasta_ends,
    }
    header = int(layout is not None and layout.has_header)
    with places.open_file(entry.place) as file:
        counted = _CountedLines(file)
        for some, (at, line) in ends.get(format, _line_ends)(counted):
            full = max(0, records - header) // size
            records += some
            if max(0, records - header) // size > full:
                cuts.append(at)
                lines.append(line)
        # what comes after a record that cannot be read belongs to the last unit
        for _ in counted:
            pass
    while cuts and cuts[-1] >= counted.bytes:
        cuts.pop()
    rows, digest = max(0, records - header), counted.hash.hexdigest()
    return InputFile(entry, format, digest, cuts, counted.bytes, lines, rows, layout)


def _line_ends(counted: _CountedLines) -> _Ends:
    """Lines that hold something; several at once where returns end them."""
    some = 0
    for piece in counted:
        if some == 0 or b"\r" in piece:
            some += sum(bool(part.strip()) for part in piece.split(b"\r"))
        if some and piece.endswith(b"\n"):
            yield some, (counted.bytes, counted.line)
            some = 0
    if some:
        yield some, (counted.bytes, counted.line)


def _csv_ends(counted: _CountedLines, layout: Layout | None) -> _Ends:
    lines = (
        (0, text, None)
        for piece in counted
        for text in piece.decode("utf-8", "replace").rstrip("\r\n").split("\r")
    )
    delimiter = (layout and layout.delimiter) or ","
    for _, _, reason in table_cells(lines, delimiter, line_of("")):
        if reason is not None:
            # the unit that it is in says where
            return
        yield 1, (counted.bytes, counted.line)


def _fasta_ends(counted: _CountedLines) -> _Ends:
    """Records; each ends where the next begins."""
    is_begun = False
    for piece in counted:
        if piece.startswith(b">") and is_begun:
            yield 1, counted.before
        is_begun = is_begun or bool(piece.strip())
    if is_begun:
        yield 1, (counted.bytes, counted.line)


# --- what a unit holds -------------------------------------------------------------------------


def read_unit(unit: Unit, columns: Sequence[str], optional: Sequence[str] = ()) -> RowBatch:
    """The rows of a unit; a file that cannot be read raises a `CorpusError`.

    A row without one of the columns has a reason, unless it is optional.
    """
    if unit.records is not None:
        return RowBatch.of(unit.records)
    try:
        if unit.format != "parquet":
            return RowBatch.of(islice(_line_records(unit, columns), unit.most))
        stop = min(unit.stop, unit.start + (unit.most or unit.stop))
        table, reasons = parquet.read_table(unit.place, unit.start, stop, columns)
        present = [name for name in (*columns, *optional) if name in table.column_names]
        rows = table.select(present).to_pylist() if present else [{}] * table.num_rows
        return RowBatch(rows, reasons, table)
    except places.READING_ERRORS as error:
        raise _unreadable(unit.place, error) from None


def _line_records(unit: Unit, columns: Sequence[str]) -> Iterator[Record]:
    shown, format, start = places.shown(unit.place), unit.format, unit.start

    def where(line: int) -> str:
        if unit.line is None:
            return f"line {line} after byte {start:,} of {shown}"
        return f"line {unit.line + line - 1} of {shown}"

    with places.open_file(unit.place) as file:
        lines = decoded_lines(_from_to(file, start, unit.stop), shown, where, first=start == 0)
        layout, first = unit.layout, start == 0
        yield from read_records(lines, format, columns, shown, where, layout=layout, first=first)


def _from_to(file: BinaryIO, start: int, stop: int) -> Callable[[int], bytes]:
    """A `readline` of the lines that begin in a range."""
    at, whole = max(0, start - 1), True
    places.skip_to(file, at)
    # the rest of a line that began before
    while start and (piece := file.readline(LONGEST)):
        at += len(piece)
        if piece.endswith(b"\n"):
            break

    def read(most: int) -> bytes:
        nonlocal at, whole
        if whole and at >= stop:
            return b""
        piece = file.readline(most)
        at, whole = at + len(piece), piece.endswith(b"\n")
        return piece

    return read


def _layout_of(place: str, format: str, columns: Sequence[str]) -> Layout | None:
    """The columns of a table, and why rows of it cannot be used where one is missing."""
    if format not in ("csv", "tsv"):
        return None
    shown = places.shown(place)
    with places.open_file(place) as file:
        lines = decoded_lines(file.readline, shown)
        return open_table(lines, format, by_columns(columns, shown), shown, line_of(shown))[0]


def check_header(place: str, format: str | None, columns: Sequence[str]) -> None:
    """Raise where the first line of a CSV or TSV file of this machine lacks a column."""
    path = os.path.expanduser(place)
    format = format or format_by_name(path)
    if format in ("csv", "tsv") and os.path.isfile(path) and not is_pipe(place):
        layout = _layout_of(path, format, columns)
        if layout is not None and layout.reason is not None:
            raise CorpusError(layout.reason)
