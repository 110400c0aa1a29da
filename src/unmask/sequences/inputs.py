"""What is scored: texts or pairs of texts, from a file or standard input.

Every column of the input stays with its text.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from unmask.corpora.files import (
    FORMATS,
    Lines,
    Place,
    json_object,
    layout_of,
    listed,
    table_occurrences,
    table_records,
)
from unmask.corpora.lines import checked_lines
from unmask.errors import CorpusError
from unmask.markup import from_data_cell, is_own
from unmask.printable import quoted

# what holds the text of a file with columns, unless something else is named
TEXT_COLUMN = "text"


@dataclass(frozen=True)
class Item:
    """An input row: the text to score, or two to compare, and all columns it came with."""

    texts: tuple[str, ...]
    columns: Mapping[str, object]

    @property
    def pair(self) -> tuple[str, str]:
        """The two texts to compare, the one that should win first."""
        good, bad = self.texts
        return good, bad


def given_texts(texts: Iterable[str]) -> list[Item]:
    """Texts as they are, under the column `text`."""
    return [Item((text,), {TEXT_COLUMN: text}) for text in texts]


def read_items(
    place: str, columns: Sequence[str] = (), *, format: str | None = None, limit: int | None = None
) -> list[Item]:
    """The rows of a file, or of standard input for `-`, with the texts of the columns named.

    Plain text has one text per line; blank lines are left out. What cannot be read raises a
    `CorpusError` of one sentence.
    """
    return list(ItemFile(place, columns, format, limit))


@dataclass(frozen=True)
class ItemFile:
    """The rows of a file, read again each time: none of them is kept."""

    place: str
    columns: Sequence[str] = ()
    format: str | None = None
    limit: int | None = None

    def __iter__(self) -> Iterator[Item]:
        """Each row in turn; the first that cannot be read raises a `CorpusError`."""
        texts = self.columns or (TEXT_COLUMN,)
        return (item_of(row, texts, where) for row, where in self.rows())

    def rows(self) -> "Rows":
        """All columns of each row, whatever they hold, and where it stands."""
        if self.format is not None and self.format not in FORMATS:
            raise CorpusError(f"format is one of {listed(FORMATS)}, not {quoted(self.format)}")
        if self.place == "-":
            if sys.stdin is None:
                raise CorpusError("there is no standard input to read from; give a file")
            place = Place("stdin", "standard input")
            yield from _read(
                sys.stdin.buffer, self.format or "txt", self.columns, place, self.limit
            )
            return
        path = Path(os.path.expanduser(self.place))
        place = Place(path.stem, quoted(self.place, limit=150))
        kind = self.format or _format_of(path, place)
        try:
            with path.open("rb") as file:
                yield from _read(file, kind, self.columns, place, self.limit)
        except OSError as error:
            raise CorpusError(f"cannot read {place.shown}: {error.strerror}") from None


def can_be_read_again(place: str) -> bool:
    """Whether a place is a file, and not a pipe or a terminal, which give their lines once."""
    # /dev/stdin and /dev/fd/3 may stand for a file, which on some systems has been read then
    is_device = os.path.abspath(place).startswith("/dev/")
    return os.path.isfile(os.path.expanduser(place)) and not is_device


def _format_of(path: Path, place: Place) -> str:
    # not Path.exists, which raises on names that no file system takes
    if os.path.isdir(path) or not os.path.exists(path):
        kind = "a folder" if os.path.isdir(path) else "not a file"
        raise CorpusError(f"{place.shown} is {kind}; give a file, or the text itself with --text")
    kind = path.suffix.lower().removeprefix(".")
    if kind in FORMATS:
        return kind
    if not can_be_read_again(str(path)):
        # a pipe is what standard input is
        return "txt"
    raise CorpusError(
        f"the name of {place.shown} does not show its format; name it: {listed(FORMATS)}"
    )


def _read(
    file: BinaryIO, format: str, columns: Sequence[str], place: Place, limit: int | None
) -> "Rows":
    lines, texts = checked_lines(file, place.shown), columns or (TEXT_COLUMN,)
    if format == "txt":
        rows = _plain(lines, columns, place)
    elif format == "jsonl":
        rows = _json_rows(lines, place)
    else:
        rows = _table_rows(table_records(lines, format, texts, place), texts, place)
    first = next(rows, None)
    if first is None:
        raise CorpusError(f"{place.shown} holds no text; give at least one")
    yield from islice(chain([first], rows), limit)


Rows = Iterator[tuple[Mapping[str, object], str]]


def _plain(lines: Lines, columns: Sequence[str], place: Place) -> Rows:
    if columns:
        raise CorpusError(
            f"{place.shown} is plain text, one text per line, without a column "
            f"{quoted(columns[0])}; leave columns out, or give the format: csv, jsonl or tsv"
        )
    for number, line in lines:
        if line.strip():
            yield {TEXT_COLUMN: line}, f"line {number} of {place.shown}"


def _json_rows(lines: Lines, place: Place) -> Rows:
    for number, line in lines:
        if line.strip():
            where = f"line {number} of {place.shown}"
            yield json_row(line, where), where


def json_row(line: str, where: str) -> Mapping[str, object]:
    """The object that a line holds, whose numbers can be written again."""
    row = json_object(line, where)
    try:
        json.dumps(row, allow_nan=False)
    except ValueError:
        raise CorpusError(
            f"{where} holds NaN or an infinite number, which JSON does not have; write null"
        ) from None
    return row


def _table_rows(
    records: Iterator[tuple[int, list[str]]], columns: Sequence[str], place: Place
) -> Rows:
    first = next(records, None)
    if first is None:
        return
    read: Callable[[str], str] = from_data_cell if is_own(first[1]) else str
    header = list(map(read, first[1]))
    fields = layout_of(header, columns, place).fields
    cells = table_occurrences(chain([(first[0], header)], records), fields, place)
    while row := list(islice(cells, len(fields))):
        texts = (read(str(cell.text)) for cell in row)
        yield dict(zip(fields, texts, strict=True)), row[0].where


def item_of(row: Mapping[str, object], columns: Sequence[str], where: str) -> Item:
    """A row whose named columns are its texts, or an error that says where it stands."""
    for column in columns:
        if column not in row:
            raise CorpusError(
                f"{where} has no {quoted(column)}; it has {listed(row) or 'no key at all'}"
            )
    return Item(tuple(_text(row[name], where, name) for name in columns), row)


def _text(value: object, where: str, column: str) -> str:
    if value is None:
        # an empty cell: the row is kept, and its text has no score
        return ""
    if not isinstance(value, str):
        raise CorpusError(
            f"{where} has {quoted(value)} ({type(value).__name__}) under {quoted(column)}, "
            "where a text should be; name a column that holds strings"
        )
    return value
