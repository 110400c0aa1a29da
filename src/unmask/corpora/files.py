"""From the lines of a file to occurrences of sentences: plain text, JSON lines, TSV and CSV.

Ids are `stem:row/column`, rows counted from 0 without a header and without blank lines; in plain
text, where a blank line is an empty sentence, `stem:row`. A pair that SNLI published has an id of
its own and gives `pairID/premise` and `pairID/hypothesis`.
"""

import csv
import json
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
    records = tabbed(lines) if format == "tsv" else comma_separated(lines, place)
    return table_occurrences(records, columns, place)


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
    if not isinstance(row, dict):
        raise CorpusError(
            f"{where} is not a JSON object but {quoted(row)} ({type(row).__name__}); "
            'write {"column": "a sentence"} on every line'
        )
    return row


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


def tabbed(lines: Lines) -> Records:
    """Lines split at tabs."""
    # without quotes: in corpora a quotation mark is a part of the sentence
    return ((number, line.split("\t")) for number, line in lines if line.strip())


def comma_separated(lines: Lines, place: Place) -> Records:
    """Records of comma-separated values, with quotes and line ends inside."""
    # with line ends: a quoted field may go on in the next line
    reader = csv.reader((f"{line}\n" for _, line in lines), strict=True)
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
    numbered = all(column.isdecimal() and column.isascii() for column in columns)
    fields = [str(n) for n in range(1, len(first) + 1)] if numbered else first
    for column in columns:
        if column not in fields:
            raise CorpusError(
                f"{place.shown} has no column {quoted(column)}; it has {listed(fields)}, or give "
                + ("names of its first line" if numbered else f"numbers 1 to {len(first)}")
            )
        if fields.count(column) > 1:
            raise CorpusError(
                f"{place.shown} has {fields.count(column)} columns {quoted(column)}; "
                f"give numbers 1 to {len(first)}"
            )
    return _Layout(fields, columns, has_header=not numbered)


def _published_layout(first: list[str], place: Place) -> _Layout:
    if set(first) >= _SNLI_COLUMNS:
        return _Layout(first, tuple(_SNLI_PARTS), has_header=True)
    if len(first) == len(_SNLI_HEADER) and first[0] in _SNLI_LABELS:
        return _Layout(_SNLI_HEADER, _SNLI_HEADER[1:], has_header=False)
    raise CorpusError(
        f"the first line of {place.shown} has {listed(first)}; name the columns to read, "
        f"by these names or by the numbers 1 to {len(first)} if they are not names"
    )
