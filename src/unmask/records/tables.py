"""The cells of CSV and TSV files, and what their first line tells: delimiter and columns."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from unmask.markup import from_data_cell
from unmask.printable import quoted, readable_bytes
from unmask.records.lines import LONGEST, Line

# what separates the fields of CSV: spreadsheets take a semicolon where decimals have a comma
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
# SNLI as it was published: with a header, or as lines of label, premise and hypothesis; "-" is a
# label too, where the annotators did not agree
SNLI_COLUMNS = {"pairID", "sentence1", "sentence2"}
SNLI_HEADER = ["label", "premise", "hypothesis"]
_SNLI_LABELS = ("entailment", "neutral", "contradiction", "-")

# the fields of a record, the line where it ends, and why it cannot be used
Cells = tuple[list[str], Line, str | None]


class Layout(NamedTuple):
    """The fields of a table, whether its first record names them, and why rows cannot be used.

    `end` is the byte behind that record.
    """

    fields: Sequence[str]
    has_header: bool = True
    reason: str | None = None
    end: int = 0


def listed(names: Iterable[object], most: int = 20) -> str:
    """Names for an error message, the first of many."""
    quoted_names = [quoted(name) for name in names]
    more = f" and {len(quoted_names) - most} more" if len(quoted_names) > most else ""
    return ", ".join(quoted_names[:most]) + more


def missing_reason(columns: Sequence[str], fields: Iterable[str], where: str) -> str | None:
    """The reason why a row that lacks one of the columns cannot be used."""
    for column in columns:
        if column not in fields:
            return f"{where} has no {quoted(column)}; it has {listed(fields) or 'no key at all'}"
    return None


def layout_of(first: list[str], columns: Sequence[str], shown: str) -> Layout:
    """The layout of a table that has the columns, by names in its first record or by numbers.

    Numbers count from 1, and the table then has no names. Without columns it is SNLI.
    """
    if not columns and len(first) == len(SNLI_HEADER) and first[0] in _SNLI_LABELS:
        return Layout(SNLI_HEADER, has_header=False)
    if not columns and not set(first) >= SNLI_COLUMNS:
        reason = (
            f"the first line of {shown} has {listed(first)}; name the columns to read, "
            f"by these names or by the numbers 1 to {len(first)} if they are not names"
        )
        return Layout(first, reason=reason)
    numbered = bool(columns) and all(name.isdecimal() and name.isascii() for name in columns)
    names = map(str, range(1, len(first) + 1)) if numbered else map(from_data_cell, first)
    fields = list(names)
    counts, reason = Counter(fields), ""
    lacking = [name for name in columns if name not in counts]
    doubled = [name for name, count in counts.items() if count > 1]
    if lacking:
        other = f"; a file without a line of names has columns 1 to {len(first)}"
        other = ", or the names in its first line" if numbered else other
        reason = f"{shown} has no column {quoted(lacking[0])}; it has {listed(fields)}{other}"
    elif doubled:
        reason = (
            f"{shown} has {counts[doubled[0]]} columns {quoted(doubled[0])}; give each a name of "
            "its own in the first line"
        )
    return Layout(fields, not numbered, reason or None)


def open_table(
    lines: Iterable[Line], format: str, columns: Sequence[str]
) -> tuple[Layout, Iterator[Cells]]:
    """The layout of a table, and its records: without the first if it names the fields.

    If the others cannot be used, and there are none, it is there to say so.
    """
    if format == "csv":
        lines, delimiter, unclear = _with_delimiter(lines, columns)
        records = _csv_cells(lines, delimiter)
    else:
        # without quotes: in corpora a quotation mark is a part of the sentence
        records = (
            (line.text.split("\t"), line, line.reason)
            for line in lines
            if line.text.strip() or line.reason
        )
        unclear = None
    first = next(records, None)
    if first is None:
        return Layout([]), records
    fields, line, reason = first
    reason = unclear or reason
    layout = Layout([], False, reason) if reason else layout_of(fields, columns, line.file)
    layout = layout._replace(end=line.end)
    if layout.has_header:
        second = next(records, first if layout.reason else None)
        return layout, records if second is None else chain([second], records)
    return layout, chain([first], records)


def _csv_cells(lines: Iterable[Line], delimiter: str) -> Iterator[Cells]:
    """Records with quotes and line ends inside; nothing more after one that cannot be read."""
    # of the record that is read
    read: list[Line] = []

    def texts() -> Iterator[str]:
        for line in lines:
            read.append(line)
            # a quoted field may go on in the next line
            yield f"{line.text}\n"

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        try:
            fields = _next_record(reader)
        except csv.Error as error:
            long = "field larger than field limit" in str(error)
            why = f"it has a field longer than {readable_bytes(LONGEST)}" if long else error
            hint = "look for a quotation mark that is not closed or not doubled"
            yield [], read[-1], f"{read[-1].where} is not CSV: {why}; {hint}"
            return
        if fields is None:
            return
        if fields:
            yield fields, read[-1], next((line.reason for line in read if line.reason), None)
        read.clear()


def _with_delimiter(
    lines: Iterable[Line], columns: Sequence[str]
) -> tuple[Iterable[Line], str, str | None]:
    """The lines of a CSV file, and what separates its fields: a comma, a semicolon or a tab.

    It is the first of these under which the first line has the columns; where it has them under
    none, the one with the most fields. Where that is not clear, also the reason.
    """
    rest, head = iter(lines), list[Line]()
    for line in rest:
        head.append(line)
        if line.text:
            break
    else:
        return head, ",", None
    fields = {mark: _fields(line.text, mark) for mark in _DELIMITERS}
    layouts = {mark: layout_of(fields[mark], columns, line.file) for mark in _DELIMITERS}
    most = max(_DELIMITERS, key=lambda mark: len(fields[mark]))
    delimiter = next((mark for mark in _DELIMITERS if layouts[mark].reason is None), most)
    unclear, layout = None, layouts[delimiter]
    is_numbered = layout.reason is None and not layout.has_header
    if is_numbered and len(fields[delimiter]) == 1 < len(fields[most]):
        # one text per line, or a table: numbers fit both
        unclear = (
            f"the first line of {line.file} has no comma, but {len(fields[most])} fields between "
            f"{_DELIMITERS[most]}; give a column by its name in that line, or the format: "
            "txt for one text per line, tsv for fields between tabs"
        )
    return chain(head, rest), delimiter, unclear


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
