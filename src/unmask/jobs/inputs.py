"""What a job reads: files cut into units, slices of some thousands of rows that a worker reads.

A unit is a run of rows of a Parquet file, or a range of bytes of a file of lines; a line belongs to
the unit that it begins in. Files of this machine are read once beforehand, for a hash and so that
units begin at lines; an object of a store is known by its size and time, and cut by bytes. CSV,
whose records may hold line ends, is read beforehand wherever it is.

A row that cannot be read has a reason in its place: one bad line among a billion stops nothing.
"""

import hashlib
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from unmask.corpora.files import (
    Lines,
    Place,
    comma_separated,
    layout_of,
    listed,
    tabbed,
    with_delimiter,
)
from unmask.corpora.lines import LONGEST, decoded, raw_lines, without_mark
from unmask.errors import CorpusError
from unmask.jobs import places
from unmask.jobs.places import Found
from unmask.markup import from_data_cell, is_own
from unmask.printable import describe, quoted, readable_bytes
from unmask.sequences.inputs import TEXT_COLUMN, json_row

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("csv", "jsonl", "parquet", "tsv", "txt")
ENDINGS = tuple(f".{format}" for format in FORMATS)
# of an object of a store: what its lines are like is taken from so many bytes
_SAMPLE = 2**20
# before a job is refused because a column is missing
_FILES_LOOKED_AT = 8

Row = Mapping[str, Any]


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
class Batch:
    """The rows of a unit, or for each that cannot be read the reason; and of Parquet, all columns.

    Where there is a `table`, `rows` have only the columns that were asked for.
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

    def with_column(self, name: str, value: str) -> "Batch":
        """The same with a constant column; one that is there already stays."""
        if name in self.columns:
            return self
        rows = [{name: value, **row} for row in self.rows]
        if self.table is None:
            return Batch(rows, self.reasons)
        pa, _ = parquet_library()
        values = pa.array([value] * self.table.num_rows, pa.string())
        return Batch(rows, self.reasons, self.table.add_column(0, name, values))


def file_stem(place: str) -> str:
    """The name of a file, without its folder and its ending."""
    return PurePosixPath(place.replace(os.sep, "/")).stem


@dataclass(frozen=True)
class InputFile:
    """A file and where its units begin; `texts` is how many rows it has, where that is known.

    `identity` is the hash of its content, or what a store says of it.
    """

    found: Found
    format: str
    identity: str
    cuts: Sequence[int] = field(repr=False)
    stop: int
    lines: Sequence[int] | None = field(default=None, repr=False)
    texts: int | None = None

    def units(self, number: int) -> Iterator[Unit]:
        """Its units, of which the first has this number."""
        stops = chain(self.cuts[1:], [self.stop])
        for index, (start, stop) in enumerate(zip(self.cuts, stops, strict=False)):
            line = None if self.lines is None else self.lines[index]
            yield Unit(number + index, self.found.place, self.format, start, stop, line)


@dataclass(frozen=True)
class Input:
    """All files of a job, in their order."""

    files: Sequence[InputFile]

    @property
    def unit_count(self) -> int:
        """How many units they are."""
        return sum(len(one.cuts) for one in self.files)

    @property
    def texts(self) -> int | None:
        """How many rows, if that is known before they are read."""
        known = [one.texts for one in self.files if one.texts is not None]
        return sum(known) if len(known) == len(self.files) else None

    def units(self) -> Iterator[Unit]:
        """Every unit, numbered from 0."""
        number = 0
        for one in self.files:
            yield from one.units(number)
            number += len(one.cuts)

    def to_dict(self) -> list[list[object]]:
        """What the input is known by, wherever it lies."""
        return [[one.found.name, one.found.size, one.identity] for one in self.files]


def open_input(
    given: Sequence[str],
    *,
    format: str | None = None,
    texts_per_unit: int,
    columns: Sequence[str] = (TEXT_COLUMN,),
) -> Input:
    """The files that were given, cut into units; empty files have none.

    The delimiter of a CSV file is the one under which it has the columns.
    """
    if format is not None and format not in FORMATS:
        raise CorpusError(f"format is one of {listed(FORMATS)}, not {quoted(format)}")
    found = places.find(given, ENDINGS)
    formats = [format or _format_of(one) for one in found]
    cut = partial(_opened, texts_per_unit=texts_per_unit, columns=columns)
    return Input(list(places.in_parallel(cut, zip(found, formats, strict=True))))


def _format_of(found: Found) -> str:
    format = found.name.lower().rpartition(".")[2]
    if format not in FORMATS:
        raise CorpusError(
            f"the name of {places.shown(found.place)} does not show its format; name it: "
            f"{listed(FORMATS)}"
        )
    return format


# --- where units begin -------------------------------------------------------------------------


def _opened(chosen: tuple[Found, str], texts_per_unit: int, columns: Sequence[str]) -> InputFile:
    found, format = chosen
    try:
        if format == "parquet":
            return _parquet_file(found, texts_per_unit)
        if found.changed is not None and format != "csv":
            return _cut_by_bytes(found, format, texts_per_unit)
        return _cut_by_records(found, format, texts_per_unit, columns)
    except OSError as error:
        raise CorpusError(
            f"cannot read {places.shown(found.place)}: {error.strerror or describe(error)}"
        ) from None


def _identity(found: Found) -> str:
    """By its hash if it is here; a store is believed when it says that an object is the same."""
    if found.changed is not None:
        return f"written {found.changed}"
    with open(found.place, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parquet_file(found: Found, texts_per_unit: int) -> InputFile:
    try:
        count = _footer(found.place).num_rows
    except CorpusError:
        # one unit, which fails when it is read, and says why
        return InputFile(found, "parquet", _identity(found), (0,), 1)
    cuts = range(0, count, texts_per_unit)
    return InputFile(found, "parquet", _identity(found), cuts, count, texts=count)


def _cut_by_bytes(found: Found, format: str, texts_per_unit: int) -> InputFile:
    with places.open_file(found.place) as file:
        sample = file.read(_SAMPLE)
    mean = len(sample) / max(1, sample.count(b"\n"))
    cuts = range(0, found.size, max(1, round(mean * texts_per_unit)))
    return InputFile(found, format, _identity(found), cuts, found.size)


class _Read:
    """The lines of a file with what has been read so far: bytes, lines, and their hash."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._total = file, hashlib.sha256()
        self.bytes, self.line = 0, 1

    def __iter__(self) -> Iterator[bytes]:
        """Every line with its end; a long one in several pieces."""
        for piece in iter(partial(self._file.readline, LONGEST), b""):
            self._total.update(piece)
            self.bytes += len(piece)
            self.line += piece.endswith(b"\n")
            yield piece

    def digest(self) -> str:
        return self._total.hexdigest()


def _cut_by_records(
    found: Found, format: str, texts_per_unit: int, columns: Sequence[str]
) -> InputFile:
    cuts, lines, count = array("q", [0]), array("q", [1]), 0
    with places.open_file(found.place) as file:
        read = _Read(file)
        for _ in _csv_records(read, found, columns) if format == "csv" else _lines(read):
            count += 1
            if count % texts_per_unit == 0:
                cuts.append(read.bytes)
                lines.append(read.line)
        # what comes after a record that cannot be read belongs to the last unit
        for _ in read:
            pass
    while cuts and cuts[-1] >= read.bytes:
        cuts.pop()
    return InputFile(found, format, read.digest(), cuts, read.bytes, lines, count)


def _lines(read: _Read) -> Iterator[None]:
    """One for every line that holds something, when it has been read."""
    holds = False
    for piece in read:
        holds = holds or bool(piece.strip())
        if holds and piece.endswith(b"\n"):
            yield None
            holds = False
    if holds:
        yield None


def _csv_records(read: _Read, found: Found, columns: Sequence[str]) -> Iterator[None]:
    layout = _layout(found.place, places.stamp(found.place), "csv", tuple(columns))
    lines = ((0, piece.decode("utf-8", "replace").rstrip("\r\n")) for piece in read)
    try:
        for _ in comma_separated(lines, Place("", places.shown(found.place)), layout.delimiter):
            yield None
    except CorpusError:
        # the unit that it is in says where
        return


# --- what a unit holds -------------------------------------------------------------------------


def read_unit(unit: Unit, columns: Sequence[str], optional: Sequence[str] = ()) -> Batch:
    """The rows of a unit; a file that cannot be read raises a `CorpusError`.

    A row without one of the columns has a reason, unless it is optional.
    """
    try:
        if unit.format == "parquet":
            return _parquet_rows(unit, columns, optional)
        return _text_rows(unit, columns)
    except OSError as error:
        raise CorpusError(
            f"cannot read {places.shown(unit.place)}: {error.strerror or describe(error)}"
        ) from None


def check_header(place: str, format: str | None, columns: Sequence[str]) -> None:
    """Raise where the first line of a CSV or TSV file of this machine lacks a column."""
    format = format or place.lower().rpartition(".")[2]
    if format in ("csv", "tsv"):
        reason = _layout(place, places.stamp(place), format, tuple(columns)).reason
        if reason is not None:
            raise CorpusError(reason)


def first_columns(source: Input, columns: Sequence[str]) -> list[str]:
    """The columns of the first rows that can be read: that a name is not there may be a slip.

    Where none of the first files has one, the reason is raised.
    """
    why = "the input holds no text; give at least one"
    for file in islice((one for one in source.files if one.cuts), _FILES_LOOKED_AT):
        other = [name for name in columns if name != TEXT_COLUMN]
        if file.format == "txt" and other:
            raise CorpusError(
                f"{places.shown(file.found.place)} is plain text, one text per line, without a "
                f"column {quoted(other[0])}; leave columns out, or give the format: csv, jsonl or "
                "tsv"
            )
        try:
            batch = _first_rows(file, columns)
        except CorpusError as error:
            why = str(error)
            continue
        if None in batch.reasons:
            return batch.columns
        why = next((str(reason) for reason in batch.reasons), why)
    raise CorpusError(why)


def _first_rows(file: InputFile, columns: Sequence[str]) -> Batch:
    """Those of its first unit, or of the next where that is a header alone."""
    batch = Batch([], [])
    for unit in file.units(0):
        batch = read_unit(unit, columns)
        if batch.rows:
            break
    return batch


def _text_rows(unit: Unit, columns: Sequence[str]) -> Batch:
    where = partial(_where, unit)
    rows: list[Row] = []
    reasons: list[str | None] = []
    for row, reason in _READERS[unit.format](unit, columns, where):
        rows.append(row)
        reasons.append(reason)
    return Batch(rows, reasons)


Read = Iterator[tuple[Row, str | None]]


def _where(unit: Unit, number: int) -> str:
    if unit.line is None:
        return f"line {number} after byte {unit.start:,} of {places.shown(unit.place)}"
    return f"line {unit.line + number - 1} of {places.shown(unit.place)}"


def _decoded_lines(unit: Unit, where: Any) -> Iterator[tuple[int, str, str | None]]:
    """The lines that begin in a unit, with their numbers, and why they cannot be read."""
    with places.open_file(unit.place) as file:
        for number, raw in enumerate(raw_lines(_from_to(file, unit.start, unit.stop), LONGEST), 1):
            try:
                if number == 1 and unit.start == 0:
                    raw = without_mark(raw, places.shown(unit.place))
                if len(raw) > LONGEST:
                    raise CorpusError(f"{where(number)} is longer than {readable_bytes(LONGEST)}")
                yield number, decoded(raw, where(number)), None
            except CorpusError as error:
                # its quotation marks and commas count in CSV
                yield number, raw.decode("utf-8", "replace"), str(error)


def _from_to(file: BinaryIO, start: int, stop: int) -> Any:
    """A `readline` of the lines that begin in a range."""
    file.seek(max(0, start - 1))
    if start:
        # the rest of a line that began before
        while (piece := file.readline(LONGEST)) and not piece.endswith(b"\n"):
            pass
    at, whole = file.tell(), True

    def read(most: int) -> bytes:
        nonlocal at, whole
        if whole and at >= stop:
            return b""
        piece = file.readline(most)
        at, whole = at + len(piece), piece.endswith(b"\n")
        return piece

    return read


def _plain(unit: Unit, columns: Sequence[str], where: Any) -> Read:
    for _, line, reason in _decoded_lines(unit, where):
        if line.strip() or reason:
            yield {TEXT_COLUMN: None if reason else line}, reason


def _json_lines(unit: Unit, columns: Sequence[str], where: Any) -> Read:
    for number, line, reason in _decoded_lines(unit, where):
        if reason:
            yield {}, reason
        elif line.strip():
            try:
                row = json_row(line, where(number))
                yield row, _missing(row, columns, where(number))
            except CorpusError as error:
                yield {}, str(error)


def _tabbed(unit: Unit, columns: Sequence[str], where: Any) -> Read:
    layout = _layout(unit.place, places.stamp(unit.place), "tsv", tuple(columns))
    is_header = unit.start == 0 and layout.has_header
    for number, line, reason in _decoded_lines(unit, where):
        if not (reason or line.strip()):
            continue
        if not is_header:
            yield _record(line.split("\t"), layout, where(number), reason)
        is_header = False


def _comma_separated(unit: Unit, columns: Sequence[str], where: Any) -> Read:
    layout = _layout(unit.place, places.stamp(unit.place), "csv", tuple(columns))
    # of the lines of the record that is read
    bad: list[str] = []

    def lines() -> Iterator[tuple[int, str]]:
        for number, line, reason in _decoded_lines(unit, where):
            bad.extend([reason] if reason else [])
            yield number, line

    records = comma_separated(lines(), Place("", places.shown(unit.place)), layout.delimiter)
    is_header = unit.start == 0 and layout.has_header
    try:
        for number, cells in records:
            if not is_header:
                yield _record(cells, layout, where(number), bad[0] if bad else None)
            is_header = False
            bad.clear()
    except CorpusError as error:
        yield {}, str(error)


class _Layout(NamedTuple):
    fields: Sequence[str]
    has_header: bool
    reason: str | None
    is_own: bool = False
    delimiter: str = ","


@lru_cache(64)
def _layout(place: str, stamp: object, format: str, columns: tuple[str, ...]) -> _Layout:
    """The names of a table's columns, and why rows of it cannot be used where one is missing."""
    named = Place("", places.shown(place))
    with places.open_file(place) as file:
        lines: Lines = (
            (number, raw.decode("utf-8", "replace").removeprefix("\ufeff"))
            for number, raw in enumerate(raw_lines(file.readline, LONGEST), 1)
        )
        delimiter = ","
        try:
            if format == "csv":
                lines, delimiter = with_delimiter(lines, columns, named)
            records = tabbed(lines) if format == "tsv" else comma_separated(lines, named, delimiter)
            first = next(records, (0, []))[1]
        except CorpusError as error:
            return _Layout([], False, str(error), delimiter=delimiter)
    if not first:
        return _Layout([], False, f"{named.shown} holds no text; give at least one")
    if own := is_own(first):
        first = list(map(from_data_cell, first))
    try:
        found = layout_of(first, columns, named)
        # of two columns with one name, one would be lost
        layout_of(first, found.fields, named)
        return _Layout(found.fields, found.has_header, None, own, delimiter)
    except CorpusError as error:
        return _Layout(first, True, str(error), own, delimiter)


def _record(
    cells: Sequence[str], layout: _Layout, where: str, reason: str | None
) -> tuple[Row, str | None]:
    if reason is None and not layout.fields:
        reason = layout.reason
    if reason is None and len(cells) != len(layout.fields):
        reason = f"{where} has {len(cells)} fields, but the first has {len(layout.fields)}"
    if reason is not None:
        return {}, reason
    texts = map(from_data_cell, cells) if layout.is_own else cells
    return dict(zip(layout.fields, texts, strict=True)), layout.reason


def _missing(row: Iterable[str], columns: Sequence[str], where: str) -> str | None:
    for column in columns:
        if column not in row:
            return f"{where} has no {quoted(column)}; it has {listed(row) or 'no key at all'}"
    return None


_READERS = {"txt": _plain, "jsonl": _json_lines, "tsv": _tabbed, "csv": _comma_separated}


# --- Parquet -----------------------------------------------------------------------------------


def parquet_library(what: str = "Parquet files need pyarrow") -> tuple[Any, Any]:
    """pyarrow and its Parquet, or one line that says how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CorpusError(f"{what}: pip install 'unmask[evaluate]'") from None
    return pyarrow, pyarrow.parquet


def _footer(place: str) -> Any:
    pa, pq = parquet_library()
    try:
        with places.open_file(place) as file:
            return pq.read_metadata(file)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"cannot read {places.shown(place)}: {describe(error)}") from None


def _parquet_rows(unit: Unit, columns: Sequence[str], optional: Sequence[str]) -> Batch:
    table, reasons = _readable(_row_groups(unit), columns)
    for name, count in Counter(table.column_names).items():
        if count > 1:
            raise CorpusError(
                f"{places.shown(unit.place)} has {count} columns {quoted(name)}; give each a name "
                "of its own"
            )
    missing = _missing(table.column_names, columns, places.shown(unit.place))
    have = [name for name in (*columns, *optional) if name in table.column_names]
    rows = table.select(have).to_pylist() if have else [{}] * table.num_rows
    return Batch(rows, [missing or why for why in reasons], table)


def _readable(table: Any, columns: Sequence[str]) -> tuple[Any, list[str | None]]:
    """The table with texts that are UTF-8: a writer may have put other bytes there.

    In a column of texts to read that is a reason; elsewhere they are escaped.
    """
    pa, _ = parquet_library()
    reasons: list[str | None] = [None] * table.num_rows
    for index, name in enumerate(table.column_names):
        try:
            table.column(index).validate(full=True)
        except pa.ArrowInvalid:
            values = table.column(index).cast(pa.large_binary()).to_pylist()
            for row, value in enumerate(values):
                said = value and value.decode("utf-8", "backslashreplace")
                if name in columns and value and said.encode() != value:
                    reasons[row] = f"{quoted(name)} is not UTF-8: {quoted(said)}"
                values[row] = said
            table = table.set_column(index, name, pa.array(values, pa.string()))
    return table, reasons


def _row_groups(unit: Unit) -> Any:
    """The rows of a unit, of all row groups that hold some."""
    pa, _ = parquet_library()
    found, before, stamp = [], 0, places.stamp(unit.place)
    for group, count in enumerate(_group_sizes(unit.place, stamp)):
        start, stop = max(unit.start - before, 0), min(unit.stop - before, count)
        if start < stop:
            found.append(_row_group(unit.place, stamp, group).slice(start, stop - start))
        before += count
    if sum(map(len, found)) != unit.stop - unit.start:
        raise CorpusError(
            f"{places.shown(unit.place)} has fewer rows than when the job was planned"
        )
    return pa.concat_tables(found)


@lru_cache(8)
def _group_sizes(place: str, stamp: object) -> list[int]:
    footer = _footer(place)
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


# the last of them: units that follow each other are often of one
@lru_cache(2)
def _row_group(place: str, stamp: object, group: int) -> Any:
    pa, pq = parquet_library()
    try:
        with places.open_file(place) as file:
            return pq.ParquetFile(file).read_row_group(group)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"cannot read {places.shown(place)}: {describe(error)}") from None
