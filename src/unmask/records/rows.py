"""From bytes to lines, and from lines to rows: a function for each format.

A line is UTF-8, holds no NUL and is not absurdly long. A row that cannot be read has a reason in
its place: one bad line among a billion stops nothing.
"""

import codecs
import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain
from typing import Any, NamedTuple

from unmask.markup import from_data_cell
from unmask.printable import quoted, readable_bytes

# no text is as long; a file without line ends must not fill the memory
LONGEST = 1_000_000
# what holds the text of a file with columns, unless something else is named
TEXT_COLUMN = "text"
# what holds the name of a record of FASTA
ID_COLUMN = "id"
# objects and arrays of JSON in one another: what writes them again goes one call deeper for each
_DEEPEST = 100
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
# what separates the fields of CSV: spreadsheets take a semicolon where decimals have a comma
_DELIMITERS = (",", ";", "\t")

Row = Mapping[str, Any]


class Line(NamedTuple):
    """A line without its end, and why it cannot be used; `end` is the byte behind it."""

    number: int
    text: str
    end: int
    file: str
    reason: str | None = None

    @property
    def where(self) -> str:
        """The place of the line, for errors."""
        return f"line {self.number} of {self.file}"


class Record(NamedTuple):
    """A row, or the reason why it cannot be read; and the line where it ends."""

    row: Row
    reason: str | None = None
    line: Line | None = None


class MissingColumn(str):
    """The reason that rows lack a column: an option may name another."""

    __slots__ = ()


# the cells of a record of a table, the line where it ends, and why it cannot be used
_Cells = tuple[list[str], Line, str | None]


def listed(names: Iterable[object], most: int = 20) -> str:
    """Names for an error message, the first of many."""
    quoted_names = [quoted(name) for name in names]
    more = f" and {len(quoted_names) - most} more" if len(quoted_names) > most else ""
    return ", ".join(quoted_names[:most]) + more


def columns_reason(
    columns: Iterable[str], names: Iterable[str], where: str, hint: str = ""
) -> str | None:
    """The reason why rows with columns of these names cannot be used: one is missing, or twice."""
    counts = Counter(list(names))
    for name in columns:
        if name not in counts:
            its = listed(counts) or "none at all"
            return MissingColumn(f"{where} has no column {quoted(name)}; it has {its}{hint}")
    for name, count in counts.items():
        if count > 1:
            return f"{where} has {count} columns {quoted(name)}; give each a name of its own"
    return None


# --- lines ------------------------------------------------------------------------------------


def read_lines(
    blocks: Iterable[bytes], file: str, *, start: int = 0, number: int = 1
) -> Iterator[Line]:
    r"""Lines that end in `\n`, `\r\n` or `\r` alone; `blocks` of bytes may end anywhere.

    The first begins at the byte `start` of what errors call `file`, and has this `number`.
    """
    end, rest = start, b""
    for block in chain(blocks, [b""]):
        pieces = (rest + block).splitlines(keepends=True)
        # a return may be half of a line end
        is_open = block and pieces and not pieces[-1].endswith(b"\n")
        rest = pieces.pop() if is_open else b""
        for piece in pieces:
            # some editors put a mark before UTF-8
            raw = piece.removeprefix(codecs.BOM_UTF8) if end == 0 else piece
            raw, end = raw.rstrip(b"\r\n"), end + len(piece)
            # decoded even if it is invalid: its quotation marks and commas count in CSV
            line = Line(number, raw.decode("utf-8", "replace"), end, file)
            if len(raw) > LONGEST or "\0" in line.text or "\ufffd" in line.text:
                line = line._replace(reason=_fault(raw, line))
            yield line
            number += 1
        if len(rest) > LONGEST + 2:
            # its beginning is enough to reject it
            end += len(rest) - LONGEST - 2
            rest = rest[: LONGEST + 1] + rest[-1:]


def _fault(raw: bytes, line: Line) -> str | None:
    """The reason why a line cannot be used; None where U+FFFD was written as such."""
    if len(raw) > LONGEST:
        size = readable_bytes(LONGEST)
        return f"{line.where} is longer than {size}; write each text on its own line"
    if "\0" in line.text:
        nul = f"a NUL at its byte {raw.index(0) + 1}"
        return f"{line.where} holds {nul}, so it is not text; give a UTF-8 text file"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        byte = f"its byte {error.start + 1} is 0x{raw[error.start]:02x}"
        return f"{line.where} is not UTF-8: {byte}; save the file as UTF-8"
    return None


def _filled(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines that are not blank, or cannot be read."""
    return (line for line in lines if line.reason or line.text.strip())


def _plain(lines: Iterable[Line], columns: Sequence[str]) -> Iterator[Record]:
    other = [name for name in columns if name != TEXT_COLUMN]
    for line in _filled(lines):
        reason = line.reason
        if reason is None and other:
            reason = (
                f"{line.file} is plain text, one text per line, without a column "
                f"{quoted(other[0])}; leave columns out, or give the format: csv, jsonl or tsv"
            )
        yield Record({TEXT_COLUMN: None if reason else line.text}, reason, line)


def _json_lines(lines: Iterable[Line], columns: Sequence[str]) -> Iterator[Record]:
    for line in _filled(lines):
        row, why = ({}, None) if line.reason else _json_object(line.text)
        yield Record(row, f"{line.where} {why}" if why else line.reason, line)


def _json_object(text: str) -> tuple[Row, str | None]:
    """The object that a line holds, or what is wrong with it."""
    try:
        row = json.loads(text, parse_float=_finite, parse_constant=_finite)
        if not isinstance(row, dict):
            kind = f"{quoted(row)} ({type(row).__name__})"
            hint = 'write {"column": "a sentence"} on every line'
            return {}, f"is not a JSON object but {kind}; {hint}"
        "".join(row).encode()
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at its character {error.pos + 1}"
        return {}, f"is not JSON: {problem}; JSON lines have one object per line"
    except UnicodeEncodeError as error:
        half = quoted(error.object[error.start])
        return {}, f"has half of a surrogate pair, {half}, in the name of a column; rename it"
    except OverflowError:
        return {}, "holds NaN or an infinite number, which JSON does not have; write null"
    except (ValueError, RecursionError) as error:
        # numbers of thousands of digits, and brackets without end
        return {}, f"is JSON that cannot be read: {quoted(str(error))}"
    if text.count("[") + text.count("{") > _DEEPEST:
        marks = _JSON_TEXT.sub("", text)
        if max(accumulate((mark in "[{") - (mark in "]}") for mark in marks)) > _DEEPEST:
            return {}, f"is JSON nested more than {_DEEPEST} deep; flatten it"
    return row, None


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise OverflowError
    return value


# --- tables ------------------------------------------------------------------------------------


def _table(lines: Iterable[Line], columns: Sequence[str], *, format: str) -> Iterator[Record]:
    """The rows of a table behind the names in its first record.

    Columns that are numbers, from 1, say that it has no names.
    """
    is_named = not columns or not all(name.isdecimal() and name.isascii() for name in columns)
    # without quotes: in corpora a quotation mark is a part of the sentence
    split = (
        ((line.text.split("\t"), line, line.reason) for line in _filled(lines))
        if format == "tsv"
        else _csv_cells(lines, columns, is_named)
    )
    names: list[str] | None = None
    wrong: str | None = None
    for cells, line, reason in split:
        why = reason
        if names is None:
            names = _names(cells, is_named)
            hint = f"; a file without a line of names has columns 1 to {len(names)}"
            hint = hint if is_named else ", or the names in its first line"
            wrong = reason if is_named else None
            wrong = wrong or columns_reason(columns, names, line.file, hint)
            if is_named and reason is None:
                continue
        elif reason is None and len(cells) != len(names):
            why = (
                f"{line.where} has {len(cells)} fields, but the first has {len(names)}; every "
                "line must have as many"
            )
        row = {} if why else dict(zip(names, map(from_data_cell, cells), strict=True))
        yield Record(row, why or wrong, line)


def _names(first: Sequence[str], is_named: bool) -> list[str]:
    numbers = map(str, range(1, len(first) + 1))
    return list(map(from_data_cell, first) if is_named else numbers)


def _csv_cells(lines: Iterable[Line], columns: Sequence[str], is_named: bool) -> Iterator[_Cells]:
    """Records between the first line's delimiter, under which it has the columns and most fields.

    There is nothing more after a record that cannot be read.
    """
    rest = iter(lines)
    head = next((line for line in rest if line.text), None)
    if head is None:
        return
    ranks = dict.fromkeys(_DELIMITERS, (False, 0))
    for mark in ranks:
        # whoever reads the line says what is wrong
        with suppress(csv.Error):
            names = _names(next(csv.reader([head.text], delimiter=mark), []), is_named)
            ranks[mark] = ({*columns} <= {*names}, len(names))
    delimiter = max(ranks, key=lambda mark: ranks[mark])
    # the lines of the current record
    read: list[Line] = []

    def texts() -> Iterator[str]:
        for line in chain([head], rest):
            read.append(line)
            # a quoted field may go on in the next line
            yield f"{line.text}\n"

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        # a field may be as long as a line; the setting is the whole process's, and not ours
        limit = csv.field_size_limit(LONGEST)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            long = "field larger than field limit" in str(error)
            why = f"it has a field longer than {readable_bytes(LONGEST)}" if long else error
            hint = "look for a quotation mark that is not closed or not doubled"
            yield [], read[-1], f"{read[-1].where} is not CSV: {why}; {hint}"
            return
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        if cells:
            yield cells, read[-1], next((line.reason for line in read if line.reason), None)
        read.clear()


# --- FASTA -------------------------------------------------------------------------------------


def _fasta(lines: Iterable[Line], columns: Sequence[str]) -> Iterator[Record]:
    """Every record: the first word behind its mark, and its letters, which are not checked.

    Translations end with a star where the stop codon was, which is removed.
    """
    name: str | None = None
    reason: str | None = None
    letters, last = list[str](), None
    for line in chain(lines, [None]):
        if line is None or line.text.startswith(">"):
            if name is not None or reason is not None:
                text = None if reason else "".join(letters).removesuffix("*")
                yield Record({ID_COLUMN: name, TEXT_COLUMN: text}, reason, last)
            if line is None:
                return
            name, letters, reason = (line.text[1:].split() or [""])[0], [], None
        elif name is None and line.text.strip():
            why = "is not FASTA: it is text before the first record, which starts with >"
            reason = reason or line.reason or f"{line.where} {why}"
        else:
            letters.append("".join(line.text.split()))
        reason, last = reason or line.reason, line


# formats of lines: a format is a function here, and the endings of its files
READERS: dict[str, Callable[[Iterable[Line], Sequence[str]], Iterator[Record]]] = {
    "csv": partial(_table, format="csv"),
    "fasta": _fasta,
    "jsonl": _json_lines,
    "tsv": partial(_table, format="tsv"),
    "txt": _plain,
}
ENDINGS = {name: name for name in (*READERS, "parquet")}
ENDINGS |= dict.fromkeys(("fa", "faa", "fna"), "fasta")
FORMATS = tuple(sorted(set(ENDINGS.values())))
# formats in which the first row tells the columns of the others, and in which a line is a row
TABLES, OF_LINES = ("csv", "tsv"), ("jsonl", "tsv", "txt")
