"""The cells of CSV and TSV files, and the layout in their first line: delimiter and columns."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from unmask.markup import from_data_cell
from unmask.printable import quoted, readable_bytes
from unmask.records.lines import LONGEST, Line, Where

# the number of the line where a record ends, its fields, and why it cannot be used
Cells = tuple[int, list[str], str | None]
# what separates the fields of CSV: spreadsheets take a semicolon where decimals have a comma
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


class Layout(NamedTuple):
    """The fields of a table, whether its first line names them, and why its rows cannot be used.

    `delimiter` is that of CSV, None for TSV.
    """

    fields: Sequence[str]
    has_header: bool = True
    reason: str | None = None
    delimiter: str | None = None


# the layout of a table, from its first record
Choose = Callable[[list[str]], Layout]


def listed(names: Iterable[object], most: int = 20) -> str:
    """Names for an error message, the first of many."""
    shown = [quoted(name) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def missing_reason(columns: Sequence[str], fields: Iterable[str], where: str) -> str | None:
    """Why a row cannot be used that lacks one of the columns."""
    for column in columns:
        if column not in fields:
            return f"{where} has no {quoted(column)}; it has {listed(fields) or 'no key at all'}"
    return None


def by_columns(columns: Sequence[str], shown: str, *, unique: bool = True) -> Choose:
    """The layout of a table that has the columns, by their names or by numbers from 1.

    If `unique`, no two of all its columns have one name.
    """

    def choose(first: list[str]) -> Layout:
        numbered = bool(columns) and all(one.isdecimal() and one.isascii() for one in columns)
        names = map(str, range(1, len(first) + 1)) if numbered else map(from_data_cell, first)
        fields = list(names)
        counts = Counter(fields)
        for column in (*columns, *(fields if unique else ())):
            if column not in counts:
                other = f"; a file without a line of names has columns 1 to {len(first)}"
                other = ", or the names in its first line" if numbered else other
                reason = f"{shown} has no column {quoted(column)}; it has {listed(fields)}{other}"
                return Layout(fields, not numbered, reason)
            if counts[column] > 1:
                reason = (
                    f"{shown} has {counts[column]} columns {quoted(column)}; give each a name of "
                    "its own in the first line"
                )
                return Layout(fields, not numbered, reason)
        return Layout(fields, not numbered)

    return choose


def open_table(
    lines: Iterable[Line], format: str, choose: Choose, shown: str, where: Where
) -> tuple[Layout, Iterator[Cells]]:
    """The layout of a table, and all its records, those of a header too."""
    delimiter, unclear = None, None
    if format == "csv":
        lines, delimiter, unclear = _with_delimiter(lines, choose, shown)
    records = table_cells(lines, delimiter, where)
    first = next(records, None)
    if first is None:
        empty = f"{shown} holds no text; give at least one"
        return Layout([], False, empty, delimiter), records
    reason = unclear or first[2]
    layout = Layout([], False, reason) if reason else choose(first[1])
    return layout._replace(delimiter=delimiter), chain([first], records)


def table_cells(lines: Iterable[Line], delimiter: str | None, where: Where) -> Iterator[Cells]:
    """The records of CSV with quotes and line ends inside, or of TSV, which has neither."""
    if delimiter is None:
        # in corpora a quotation mark is a part of the sentence
        for number, line, reason in lines:
            if reason or line.strip():
                yield number, line.split("\t"), reason
        return
    # of the lines of the record that is read
    bad: list[str] = []

    def ended() -> Iterator[str]:
        for _, line, reason in lines:
            bad.extend([reason] if reason else [])
            # a quoted field may go on in the next line
            yield f"{line}\n"

    reader = csv.reader(ended(), delimiter=delimiter, strict=True)
    while True:
        try:
            fields = _next_record(reader)
        except csv.Error as error:
            long = "field larger than field limit" in str(error)
            why = f"it has a field longer than {readable_bytes(LONGEST)}" if long else error
            yield (
                reader.line_num,
                [],
                f"{where(reader.line_num)} is not CSV: {why}; "
                "look for a quotation mark that is not closed or not doubled",
            )
            return
        if fields is None:
            return
        if fields:
            yield reader.line_num, fields, bad[0] if bad else None
            bad.clear()


def _with_delimiter(
    lines: Iterable[Line], choose: Choose, shown: str
) -> tuple[Iterable[Line], str, str | None]:
    """The lines of a CSV file, and what separates its fields: a comma, a semicolon or a tab.

    It is the first of these under which the first line has the columns; where it has them under
    none, the one with the most fields. Where that is not clear, also the reason.
    """
    rest, head = iter(lines), list[Line]()
    for one in rest:
        head.append(one)
        if one[1]:
            break
    fields = {mark: _fields(head[-1][1] if head else "", mark) for mark in _DELIMITERS}
    layouts = {mark: choose(fields[mark]) for mark in _DELIMITERS}
    fitting = [mark for mark in _DELIMITERS if layouts[mark].reason is None]
    most = max(_DELIMITERS, key=lambda mark: len(fields[mark]))
    numbered = bool(fitting) and not layouts[fitting[0]].has_header
    unclear = None
    if numbered and len(fields[fitting[0]]) == 1 < len(fields[most]):
        # one text per line, or a table: numbers fit both
        unclear = (
            f"the first line of {shown} has no comma, but {len(fields[most])} fields between "
            f"{_DELIMITERS[most]}; give a column by its name in that line, or the format: "
            "txt for one text per line, tsv for fields between tabs"
        )
    return chain(head, rest), fitting[0] if fitting else most, unclear


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return _next_record(csv.reader([line], delimiter=delimiter)) or []
    except csv.Error:
        # whoever reads the line adds its number
        return []


def _next_record(reader: Iterator[list[str]]) -> list[str] | None:
    """The next record; a field may be as long as a line, which is more than csv's own limit."""
    limit = csv.field_size_limit(LONGEST)
    try:
        return next(reader, None)
    finally:
        # a setting of the whole process, which may have been made by somebody else
        csv.field_size_limit(limit)
