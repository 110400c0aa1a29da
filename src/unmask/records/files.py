"""The one reader of rows: files cut into units, slices of some thousands of rows; and pipes.

A unit is a run of rows of a Parquet file, or a range of bytes of a file of lines; a line belongs to
the unit that it begins in. Files of this machine are read once beforehand, for a hash and so that
units begin at lines; an object of a store is known by its size and time, and cut by bytes. CSV and
FASTA, whose records may hold line ends, and compressed files are read beforehand wherever they are.
Rows of a pipe, or those in memory, become units as they come.
"""

import hashlib
import json
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypedDict, Unpack

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
_SAMPLE = 2**20
# before an input is refused because no row of it can be read
_FILES_LOOKED_AT, _ROWS_LOOKED_AT = 8, 1000


class Unit(NamedTuple):
    """A slice of a file: rows of Parquet from `start` to before `stop`, else bytes.

    `line` is the number of its first line, None where it is not known.
    """

    number: int
    place: str
    format: str
    start: int
    stop: int
    line: int | None


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
        kept = list(records)
        return cls([one.row for one in kept], [one.reason for one in kept])

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


class InMemoryUnit(NamedTuple):
    """A unit whose rows are in memory, each with a reason if it could not be read."""

    number: int
    rows: Sequence[Row]
    reasons: Sequence[str | None] = ()

    @property
    def batch(self) -> RowBatch:
        """Its rows."""
        return RowBatch(self.rows, self.reasons or [None] * len(self.rows))


@dataclass(frozen=True)
class InputFile:
    """A file and where its units begin; `texts` is how many rows it has, where that is known.

    `identity` is the hash of its content, or the time at which a store wrote it.
    """

    entry: FoundFile
    format: str
    identity: str
    cuts: Sequence[int] = field(repr=False)
    stop: int
    lines: Sequence[int] | None = field(default=None, repr=False)
    texts: int | None = None

    def units(self, number: int = 0) -> Iterator[Unit]:
        """Its units; the first has this number."""
        stops = chain(self.cuts[1:], [self.stop])
        for index, (start, stop) in enumerate(zip(self.cuts, stops, strict=False)):
            line = None if self.lines is None else self.lines[index]
            yield Unit(number + index, self.entry.place, self.format, start, stop, line)


@dataclass(frozen=True)
class InputFiles:
    """All files of an input, in their order."""

    files: Sequence[InputFile]
    texts_per_unit: int

    @property
    def unit_count(self) -> int:
        """How many units they are."""
        return sum(len(one.cuts) for one in self.files)

    @property
    def texts(self) -> int | None:
        """How many rows, if that is known before they are read."""
        counts = [one.texts for one in self.files if one.texts is not None]
        return sum(counts) if len(counts) == len(self.files) else None

    def units(self, start: int = 0) -> Iterator[Unit]:
        """Every unit from one on, numbered from 0."""
        number = 0
        for one in self.files:
            if number + len(one.cuts) > start:
                yield from islice(one.units(number), max(0, start - number), None)
            number += len(one.cuts)

    def to_dict(self) -> list[list[object]]:
        """What the input is known by, wherever it lies."""
        return [[one.entry.name, one.entry.size, one.identity] for one in self.files]

    def columns(self, wanted: Sequence[str], *, every: bool = False) -> list[str]:
        """The columns of the first rows that can be read: that a name is not there may be a slip.

        Where none of the first files has one, the reason is raised. With `every`, those of all rows
        of JSON lines on this machine, each of which may have others.
        """
        names = dict.fromkeys(_first_columns(self, wanted))
        for one in self.files:
            if every and one.format == "jsonl" and one.entry.changed is None:
                for unit in one.units():
                    names.update(dict.fromkeys(read_unit(unit, wanted).columns))
        return list(names)


@dataclass(frozen=True)
class InputRows:
    """Rows that are read one after the other: in memory, of a pipe, or the first of some files.

    `texts` and `identity` are None if they can be read once only.
    """

    records: Iterable[Record]
    texts_per_unit: int
    names: Sequence[str]
    texts: int | None = None
    identity: list[list[object]] | None = None

    @classmethod
    def held(cls, records: Iterable[Record], texts_per_unit: int) -> "InputRows":
        """Rows that can be read again, after a look at all of them."""
        names, texts, total = dict[str, None](), 0, hashlib.sha256()
        for one in records:
            names.update(dict.fromkeys(one.row))
            texts += 1
            values = json.dumps([list(one.row.items()), one.reason], default=str)
            total.update(values.encode() + b"\n")
        identity: list[list[object]] = [["rows", texts, total.hexdigest()]]
        return cls(records, texts_per_unit, list(names), texts, identity)

    @property
    def unit_count(self) -> int | None:
        """How many units they are, if that is known before they are read."""
        return None if self.texts is None else -(-self.texts // self.texts_per_unit)

    def units(self, start: int = 0) -> Iterator[InMemoryUnit]:
        """Every unit from one on, numbered from 0."""
        records = islice(self.records, start * self.texts_per_unit, None)
        for number in count(start):
            if not (some := list(islice(records, self.texts_per_unit))):
                return
            yield InMemoryUnit(number, [one.row for one in some], [one.reason for one in some])

    def to_dict(self) -> list[list[object]] | None:
        """What they are known by."""
        return self.identity

    def columns(self, wanted: Sequence[str], *, every: bool = False) -> list[str]:
        """The names of all columns; of a pipe those of its first row."""
        return list(self.names)


Source = InputFiles | InputRows


class ReadOptions(TypedDict, total=False):
    """How rows are read: their format if names do not show it, and at most `limit` of them.

    A pipe has the format `piped_format` by default; with `hold` it is kept in memory.
    """

    format: str | None
    limit: int | None
    piped_format: str
    hold: bool


def open_rows(
    inputs: Sequence[str],
    *,
    texts_per_unit: int,
    columns: Sequence[str] = (TEXT_COLUMN,),
    **reading: Unpack[ReadOptions],
) -> Source:
    """The rows of files, patterns, folders and URLs, or of one pipe (`-` is stdin)."""
    format, limit = reading.get("format"), reading.get("limit")
    if format is not None and format not in FORMATS:
        raise CorpusError(f"format is one of {listed(FORMATS)}, not {quoted(format)}")
    pipe = next(filter(is_pipe, inputs), None)
    if pipe is None:
        files = open_input(inputs, format=format, texts_per_unit=texts_per_unit, columns=columns)
        if limit is None:
            return files
        # raises where there is nothing to read
        files.columns(columns)
        return InputRows.held(_FirstRows(files, columns, limit), texts_per_unit)
    if len(inputs) > 1:
        raise CorpusError(f"{_shown(pipe)} is read alone; leave out the other files")
    default = reading.get("piped_format", "txt")
    records = islice(_pipe_records(pipe, format, default, columns), limit)
    if reading.get("hold"):
        kept = list(records)
        _head(kept, pipe)
        return InputRows.held(kept, texts_per_unit)
    head = _head(records, pipe)
    return InputRows(chain(head, records), texts_per_unit, list(head[-1].row))


@dataclass(frozen=True)
class _FirstRows:
    """The first rows of some files, read again each time."""

    files: InputFiles
    columns: Sequence[str]
    limit: int

    def __iter__(self) -> Iterator[Record]:
        batches = (read_unit(unit, self.columns) for unit in self.files.units())
        pairs = (zip(one.whole_rows, one.reasons, strict=True) for one in batches)
        return islice((Record(*pair) for pair in chain.from_iterable(pairs)), self.limit)


def _head(records: Iterable[Record], place: str) -> list[Record]:
    """The rows up to the first that can be read; the reason is raised where there is none."""
    head: list[Record] = []
    for one in records:
        head.append(one)
        if one.reason is None:
            return head
    empty = f"{_shown(place)} holds no text; give at least one"
    raise CorpusError(head[0].reason or "" if head else empty)


def rows_or_raise(source: Source, columns: Sequence[str]) -> Iterator[Row]:
    """Every row with all its columns; the first that cannot be read raises a `CorpusError`."""
    for unit in source.units():
        batch = unit.batch if isinstance(unit, InMemoryUnit) else read_unit(unit, columns)
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


def _unreadable(place: str, error: OSError) -> CorpusError:
    return CorpusError(f"cannot read {_shown(place)}: {error.strerror or describe(error)}")


def _check_plain(format: str, columns: Sequence[str], shown: str) -> None:
    for name in columns if format == "txt" else ():
        if name != TEXT_COLUMN:
            raise CorpusError(
                f"{shown} is plain text, one text per line, without a column {quoted(name)}; leave "
                "columns out, or give the format: csv, jsonl or tsv"
            )


# --- where units begin -------------------------------------------------------------------------


def open_input(
    inputs: Sequence[str],
    *,
    format: str | None = None,
    texts_per_unit: int,
    columns: Sequence[str] = (TEXT_COLUMN,),
) -> InputFiles:
    """The files that were given, cut into units; empty files have none.

    The delimiter of a CSV file is the one under which it has the columns.
    """
    entries = places.find(inputs, ENDINGS)
    formats = [format or _format_of(one) for one in entries]
    cut = partial(_opened, texts_per_unit=texts_per_unit, columns=columns)
    files = list(places.in_parallel(cut, zip(entries, formats, strict=True)))
    return InputFiles(files, texts_per_unit)


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


def _opened(
    chosen: tuple[FoundFile, str], texts_per_unit: int, columns: Sequence[str]
) -> InputFile:
    file, format = chosen
    is_packed = places.without_compression(file.place)[1] is not None
    try:
        if format == "parquet":
            return _parquet_file(file, texts_per_unit)
        if file.changed is not None and format not in ("csv", "fasta") and not is_packed:
            return _cut_by_bytes(file, format, texts_per_unit)
        return _cut_by_records(file, format, texts_per_unit, columns)
    except OSError as error:
        raise _unreadable(file.place, error) from None


def _identity(entry: FoundFile) -> str:
    """The hash of a file of this machine; of an object in a store, the time of its change."""
    if entry.changed is not None:
        return f"written {entry.changed}"
    with open(entry.place, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parquet_file(entry: FoundFile, texts_per_unit: int) -> InputFile:
    try:
        rows = parquet.footer(entry.place).num_rows
    except CorpusError:
        # one unit, which fails with the reason when it is read
        return InputFile(entry, "parquet", _identity(entry), (0,), 1)
    cuts = range(0, rows, texts_per_unit)
    return InputFile(entry, "parquet", _identity(entry), cuts, rows, texts=rows)


def _cut_by_bytes(entry: FoundFile, format: str, texts_per_unit: int) -> InputFile:
    with places.open_file(entry.place) as file:
        sample = file.read(_SAMPLE)
    mean = len(sample) / max(1, sample.count(b"\n"))
    cuts = range(0, entry.size, max(1, round(mean * texts_per_unit)))
    return InputFile(entry, format, _identity(entry), cuts, entry.size)


# how many records end at a byte, and at which line the next begins
_Ends = Iterator[tuple[int, tuple[int, int]]]


class _CountedLines:
    """The lines of a file with what has been read so far: bytes, lines, and their hash.

    `before` is where the last line begins, in bytes and lines.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._total = file, hashlib.sha256()
        self.bytes, self.line = 0, 1
        self.before = 0, 1

    def __iter__(self) -> Iterator[bytes]:
        """Every line with its end; a long one in several pieces."""
        for piece in iter(partial(self._file.readline, LONGEST), b""):
            self._total.update(piece)
            self.before = self.bytes, self.line
            self.bytes += len(piece)
            self.line += piece.endswith(b"\n")
            yield piece

    def digest(self) -> str:
        return self._total.hexdigest()


def _cut_by_records(
    entry: FoundFile, format: str, texts_per_unit: int, columns: Sequence[str]
) -> InputFile:
    cuts, lines, records = array("q", [0]), array("q", [1]), 0
    ends: dict[str, Callable[[_CountedLines], _Ends]] = {
        "csv": partial(_csv_ends, entry=entry, columns=columns),
        "fasta": _fasta_ends,
    }
    with places.open_file(entry.place) as file:
        counted = _CountedLines(file)
        for some, (at, line) in ends.get(format, _line_ends)(counted):
            full = records // texts_per_unit
            records += some
            if records // texts_per_unit > full:
                cuts.append(at)
                lines.append(line)
        # what comes after a record that cannot be read belongs to the last unit
        for _ in counted:
            pass
    while cuts and cuts[-1] >= counted.bytes:
        cuts.pop()
    if records and format in ("csv", "tsv"):
        records -= _layout_of(entry.place, format, columns).has_header
    return InputFile(entry, format, counted.digest(), cuts, counted.bytes, lines, records)


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


def _csv_ends(counted: _CountedLines, entry: FoundFile, columns: Sequence[str]) -> _Ends:
    layout = _layout_of(entry.place, "csv", columns)
    lines = (
        (0, text, None)
        for piece in counted
        for text in piece.decode("utf-8", "replace").rstrip("\r\n").split("\r")
    )
    for _, _, reason in table_cells(lines, layout.delimiter or ",", line_of("")):
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
    try:
        if unit.format == "parquet":
            table, reasons = parquet.read_table(unit.place, unit.start, unit.stop, columns)
            present = [name for name in (*columns, *optional) if name in table.column_names]
            rows = table.select(present).to_pylist() if present else [{}] * table.num_rows
            return RowBatch(rows, reasons, table)
        return RowBatch.of(_unit_records(unit, columns))
    except OSError as error:
        raise _unreadable(unit.place, error) from None


def _unit_records(unit: Unit, columns: Sequence[str]) -> Iterator[Record]:
    shown, format, start = places.shown(unit.place), unit.format, unit.start

    def where(line: int) -> str:
        if unit.line is None:
            return f"line {line} after byte {start:,} of {shown}"
        return f"line {unit.line + line - 1} of {shown}"

    is_table, first = format in ("csv", "tsv"), start == 0
    layout = _layout_of(unit.place, format, columns) if is_table else None
    with places.open_file(unit.place) as file:
        lines = decoded_lines(_from_to(file, start, unit.stop), shown, where, first=first)
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


def _layout_of(place: str, format: str, columns: Sequence[str]) -> Layout:
    return _layout(place, places.stamp(place), format, tuple(columns))


@lru_cache(64)
def _layout(place: str, stamp: object, format: str, columns: tuple[str, ...]) -> Layout:
    """The columns of a table, and why rows of it cannot be used where one is missing."""
    shown = places.shown(place)
    with places.open_file(place) as file:
        lines = decoded_lines(file.readline, shown)
        return open_table(lines, format, by_columns(columns, shown), shown, line_of(shown))[0]


def check_header(place: str, format: str | None, columns: Sequence[str]) -> None:
    """Raise where the first line of a CSV or TSV file of this machine lacks a column."""
    path = os.path.expanduser(place)
    format = format or format_by_name(path)
    if format in ("csv", "tsv") and os.path.isfile(path) and not is_pipe(place):
        reason = _layout_of(path, format, columns).reason
        if reason is not None:
            raise CorpusError(reason)


def _first_columns(source: InputFiles, columns: Sequence[str]) -> list[str]:
    one_file = len(source.files) == 1
    what = places.shown(source.files[0].entry.place) if one_file else "the input"
    why = f"{what} holds no text; give at least one"
    for file in islice((one for one in source.files if one.cuts), _FILES_LOOKED_AT):
        _check_plain(file.format, columns, places.shown(file.entry.place))
        seen: list[str | None] = []
        try:
            for unit in file.units():
                batch = read_unit(unit, columns)
                seen += batch.reasons
                if None in seen:
                    return batch.columns
                if len(seen) >= _ROWS_LOOKED_AT:
                    break
        except CorpusError as error:
            seen.append(str(error))
        why = next(filter(None, seen), why)
    raise CorpusError(why)
