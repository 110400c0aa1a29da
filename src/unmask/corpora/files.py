"""From the lines of a file to occurrences of sentences: plain text, JSON lines, TSV and CSV.

Ids are `stem:row/column`, rows counted from 0 without a header and without blank lines; in plain
text, where a blank line is an empty sentence, `stem:row`. A pair that SNLI published has an id of
its own and gives `pairID/premise` and `pairID/hypothesis`.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from unmask.corpora.corpus import Occurrence
from unmask.corpora.lines import LONGEST
from unmask.errors import CorpusError
from unmask.printable import quoted, readable_bytes

Lines = Iterable[tuple[int, str]]
# the fields of a row, with the number of the line where it ends
Records = Iterator[tuple[int, list[str]]]

FORMATS = ("csv", "jsonl", "tsv", "txt")
# what separates the fields of CSV: spreadsheets take a semicolon where decimals have a comma
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}

# objects and arrays of JSON in one another: no table of values has as many
_DEEPEST = 100

# what SNLI's own files call the two sentences of a pair
_SNLI_PARTS = {"sentence1": "premise", "sentence2": "hypothesis"}
_SNLI_COLUMNS = {"pairID", *_SNLI_PARTS}
# SNLI as lines of label, premise and hypothesis; "-" is where the annotators did not agree
_SNLI_HEADER = ["label", "premise", "hypothesis"]
_SNLI_LABELS = ("entailment", "neutral", "contradiction", "-")


class Place(NamedTuple):
    """A file by the beginning of its sentences' ids, and by how errors name it."""

    stem: str
    shown: str


class _Layout(NamedTuple):
    """The names of a table's fields, those that are sentences, and whether a line holds them."""

    fields: list[str]
    columns: Sequence[str]
    has_header: bool


def occurrences(
    lines: Lines, format: str, columns: Sequence[str], place: Place
) -> Iterator[Occurrence]:
    """What stands where sentences should be, in the order of the file."""
    if format == "txt":
        return _plain(lines, columns, place)
    if format == "jsonl":
        return _json_lines(lines, columns, place)
    return table_occurrences(table_records(lines, format, columns, place), columns, place)


def listed(names: Iterable[object], most: int = 20) -> str:
    """Names for an error message, the first of many."""
    shown = [quoted(name) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def _plain(lines: Lines, columns: Sequence[str], place: Place) -> Iterator[Occurrence]:
    if columns:
        raise CorpusError(
            f"{place.shown} is plain text, one sentence per line, and has no column "
            f"{quoted(columns[0])}; leave the column out, or name the format: csv, jsonl or tsv"
        )
    for number, text in lines:
        yield Occurrence(f"{place.stem}:{number - 1}", text, f"line {number} of {place.shown}")


def _json_lines(lines: Lines, columns: Sequence[str], place: Place) -> Iterator[Occurrence]:
    filled = ((number, line) for number, line in lines if line.strip())
    for index, (number, line) in enumerate(filled):
        where = f"line {number} of {place.shown}"
        row = json_object(line, where)
        chosen = columns or _published(row, where)
        yield from _sentences(row, chosen, f"{place.stem}:{index}", where)


def json_object(line: str, where: str) -> Mapping[str, object]:
    """The object that a line holds; anything else raises."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(
            f"{where} is not JSON: {error.msg} at its character {error.pos + 1}; "
            "JSON lines have one object per line"
        ) from None
    except (ValueError, RecursionError) as error:
        # numbers of thousands of digits, and brackets without end
        raise CorpusError(f"{where} is JSON that cannot be read: {quoted(str(error))}") from None
    if line.count("[") + line.count("{") > _DEEPEST and _depth(row) > _DEEPEST:
        # what writes it again goes one call deeper for each
        raise CorpusError(f"{where} is JSON nested more than {_DEEPEST} deep; flatten it")
    if not isinstance(row, dict):
        raise CorpusError(
            f"{where} is not a JSON object but {quoted(row)} ({type(row).__name__}); "
            'write {"column": "a sentence"} on every line'
        )
    return row


def _depth(value: object) -> int:
    """How many objects and arrays of JSON stand in one another."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        level = [v for one in level for v in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return depth


def _published(row: Mapping[str, object], where: str) -> Sequence[str]:
    if row.keys() >= _SNLI_COLUMNS:
        return tuple(_SNLI_PARTS)
    raise CorpusError(f"{where} has {listed(row) or 'no key'}; name the columns to read")


def _sentences(
    row: Mapping[str, object], columns: Sequence[str], name: str, where: str
) -> Iterator[Occurrence]:
    pair = row.get("pairID")
    published = isinstance(pair, str) and bool(pair.strip())
    for column in columns:
        if column not in row:
            raise CorpusError(
                f"{where} has no {quoted(column)}; it has {listed(row) or 'no key at all'}"
            )
        part = _SNLI_PARTS.get(column, column) if published else column
        yield Occurrence(f"{pair if published else name}/{part}", row[column], where)


def table_records(lines: Lines, format: str, columns: Sequence[str], place: Place) -> Records:
    """The records of a TSV file, or of a CSV file whose delimiter its first line tells."""
    if format == "tsv":
        return tabbed(lines)
    lines, delimiter = with_delimiter(lines, columns, place)
    return comma_separated(lines, place, delimiter)


def tabbed(lines: Lines) -> Records:
    """Lines split at tabs."""
    # without quotes: in corpora a quotation mark is a part of the sentence
    return ((number, line.split("\t")) for number, line in lines if line.strip())


def with_delimiter(lines: Lines, columns: Sequence[str], place: Place) -> tuple[Lines, str]:
    """The lines of a CSV file, and what separates its fields: a comma, a semicolon or a tab.

    It is the first of these under which the first line has the columns; where it has them under
    none, the one with the most fields.
    """
    rest, head = iter(lines), list[tuple[int, str]]()
    for one in rest:
        head.append(one)
        if one[1]:
            break
    fields = {mark: _fields(head[-1][1] if head else "", mark) for mark in _DELIMITERS}
    fitting = [mark for mark in _DELIMITERS if _has_columns(fields[mark], columns, place)]
    most = max(_DELIMITERS, key=lambda mark: len(fields[mark]))
    if fitting and _are_numbers(columns) and len(fields[fitting[0]]) == 1 < len(fields[most]):
        # one text per line, or a table: numbers fit both
        raise CorpusError(
            f"the first line of {place.shown} has no comma, but {len(fields[most])} fields between "
            f"{_DELIMITERS[most]}; give a column by its name in that line, or the format: "
            "txt for one text per line, tsv for fields between tabs"
        )
    return chain(head, rest), fitting[0] if fitting else most


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return _next_record(csv.reader([line], delimiter=delimiter)) or []
    except csv.Error:
        # whoever reads the line says where
        return []


def _has_columns(fields: list[str], columns: Sequence[str], place: Place) -> bool:
    try:
        layout_of(fields, columns, place)
    except CorpusError:
        return False
    return True


def comma_separated(lines: Lines, place: Place, delimiter: str = ",") -> Records:
    """Records of comma-separated values, with quotes and line ends inside."""
    # with line ends: a quoted field may go on in the next line
    ended = (f"{line}\n" for _, line in lines)
    reader = csv.reader(ended, delimiter=delimiter, strict=True)
    while True:
        try:
            fields = _next_record(reader)
        except csv.Error as error:
            long = "field larger than field limit" in str(error)
            why = f"it has a field longer than {readable_bytes(LONGEST)}" if long else error
            raise CorpusError(
                f"line {reader.line_num} of {place.shown} is not CSV: {why}; "
                "look for a quotation mark that is not closed or not doubled"
            ) from None
        if fields is None:
            return
        if fields:
            yield reader.line_num, fields


def _next_record(reader: Iterator[list[str]]) -> list[str] | None:
    """The next record; a field may be as long as a line, which is more than csv's own limit."""
    limit = csv.field_size_limit(LONGEST)
    try:
        return next(reader, None)
    finally:
        # a setting of the whole process, which may have been made by somebody else
        csv.field_size_limit(limit)


def table_occurrences(
    records: Records, columns: Sequence[str], place: Place
) -> Iterator[Occurrence]:
    """The texts in some columns of a table."""
    first = next(records, None)
    if first is None:
        return
    layout = layout_of(first[1], columns, place)
    rows = records if layout.has_header else chain([first], records)
    for index, (number, fields) in enumerate(rows):
        where = f"line {number} of {place.shown}"
        if len(fields) != len(layout.fields):
            raise CorpusError(
                f"{where} has {len(fields)} fields, but the first has {len(layout.fields)}; "
                "every line must have as many"
            )
        row = dict(zip(layout.fields, fields, strict=True))
        yield from _sentences(row, layout.columns, f"{place.stem}:{index}", where)


def layout_of(first: list[str], columns: Sequence[str], place: Place) -> _Layout:
    """Which fields hold the texts, from the first record."""
    if not columns:
        return _published_layout(first, place)
    numbered = _are_numbers(columns)
    fields = [str(n) for n in range(1, len(first) + 1)] if numbered else first
    counts = Counter(fields)
    without_names = f"; a file without a line of names has columns 1 to {len(first)}"
    for column in columns:
        if column not in counts:
            raise CorpusError(
                f"{place.shown} has no column {quoted(column)}; it has {listed(fields)}"
                + (", or the names in its first line" if numbered else without_names)
            )
        if counts[column] > 1:
            raise CorpusError(
                f"{place.shown} has {counts[column]} columns {quoted(column)}; give each a name of "
                "its own in the first line"
            )
    return _Layout(fields, columns, has_header=not numbered)


def _are_numbers(columns: Sequence[str]) -> bool:
    return bool(columns) and all(column.isdecimal() and column.isascii() for column in columns)


def _published_layout(first: list[str], place: Place) -> _Layout:
    if set(first) >= _SNLI_COLUMNS:
        return _Layout(first, tuple(_SNLI_PARTS), has_header=True)
    if len(first) == len(_SNLI_HEADER) and first[0] in _SNLI_LABELS:
        return _Layout(_SNLI_HEADER, _SNLI_HEADER[1:], has_header=False)
    raise CorpusError(
        f"the first line of {place.shown} has {listed(first)}; name the columns to read, "
        f"by these names or by the numbers 1 to {len(first)} if they are not names"
    )
