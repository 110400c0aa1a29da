"""From lines to rows: plain text, JSON lines, CSV, TSV and FASTA.

A row that cannot be read has a reason in its place: one bad line among a billion stops nothing.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from unmask.errors import CorpusError
from unmask.markup import from_data_cell
from unmask.printable import quoted
from unmask.records.lines import Line, Where
from unmask.records.tables import (
    Cells,
    Choose,
    Layout,
    by_columns,
    missing_reason,
    open_table,
    table_cells,
)

# what holds the text of a file with columns, unless something else is named
TEXT_COLUMN = "text"
# what holds the name of a record of FASTA
ID_COLUMN = "id"
# objects and arrays of JSON in one another: no table of values has as many
_DEEPEST = 100

Row = Mapping[str, Any]


class Record(NamedTuple):
    """A row, or the reason why it cannot be read; and the number of the line where it ends."""

    row: Row
    reason: str | None = None
    line: int = 0


def read_records(
    lines: Iterable[Line],
    format: str,
    columns: Sequence[str],
    shown: str,
    where: Where,
    *,
    layout: Layout | None = None,
    first: bool = True,
    choose: Choose | None = None,
    finite: bool = True,
) -> Iterator[Record]:
    """The rows of lines in a format; a row without one of the columns has a reason.

    `layout` is that of a table, if it is known; by default its `first` line tells it by `choose`,
    which finds the named columns. Unless `finite`, numbers of JSON may be NaN or infinite.
    """
    if format not in ("csv", "tsv"):
        yield from _READERS[format](lines, columns, where, finite)
        return
    if layout is not None:
        cells = table_cells(lines, layout.delimiter, where)
        yield from _table_records(cells, layout, where, skip=first and layout.has_header)
        return
    choose = choose or by_columns(columns, shown)
    layout, cells = open_table(lines, format, choose, shown, where)
    is_empty = True
    for record in _table_records(cells, layout, where, skip=layout.has_header):
        is_empty = False
        yield record
    if is_empty and layout.fields and layout.reason:
        # of a header alone, no row has the reason
        yield Record({}, layout.reason)


def _plain(
    lines: Iterable[Line], columns: Sequence[str], where: Where, _: bool
) -> Iterator[Record]:
    for number, line, reason in lines:
        if line.strip() or reason:
            yield Record({TEXT_COLUMN: None if reason else line}, reason, number)


def _json_lines(
    lines: Iterable[Line], columns: Sequence[str], where: Where, finite: bool
) -> Iterator[Record]:
    for number, line, reason in lines:
        if reason:
            yield Record({}, reason, number)
        elif line.strip():
            try:
                row = json_object(line, where(number), finite=finite)
                yield Record(row, missing_reason(columns, row, where(number)), number)
            except CorpusError as error:
                yield Record({}, str(error), number)


def json_object(line: str, where: str, *, finite: bool = True) -> Mapping[str, Any]:
    """The object that a line holds; anything else raises, and numbers that JSON does not have."""
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
    try:
        json.dumps(row, allow_nan=not finite)
    except ValueError:
        raise CorpusError(
            f"{where} holds NaN or an infinite number, which JSON does not have; write null"
        ) from None
    return row


def _depth(value: object) -> int:
    """How deep objects and arrays of JSON are nested."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        level = [v for one in level for v in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return depth


def _table_records(
    cells: Iterator[Cells], layout: Layout, where: Where, *, skip: bool
) -> Iterator[Record]:
    """The rows of a table after its header, which is skipped if it is there."""
    width = len(layout.fields)
    for number, texts, reason in cells:
        if skip:
            skip = False
            continue
        if reason is None and not width:
            reason = layout.reason
        if reason is None and len(texts) != width:
            reason = (
                f"{where(number)} has {len(texts)} fields, but the first has {width}; every line "
                "must have as many"
            )
        if reason is not None:
            yield Record({}, reason, number)
        else:
            row = dict(zip(layout.fields, map(from_data_cell, texts), strict=True))
            yield Record(row, layout.reason, number)


def _fasta(
    lines: Iterable[Line], columns: Sequence[str], where: Where, _: bool
) -> Iterator[Record]:
    """Every record: the first word behind its mark, and its letters, which are not checked.

    Translations end with a star where the stop codon was, which is removed.
    """
    name: str | None = None
    why: str | None = None
    letters: list[str] = []
    last = 0
    for number, line, reason in lines:
        if line.startswith(">"):
            if name is not None or why is not None:
                yield _sequence(name, letters, why, last)
            name, letters, why = (line[1:].split() or [""])[0], [], reason
        elif name is None and why is None and line.strip():
            why = reason or (
                f"{where(number)} is not FASTA: it is text before the first record, which starts "
                "with >"
            )
        else:
            letters.append("".join(line.split()))
            why = why or reason
        last = number
    if name is not None or why is not None:
        yield _sequence(name, letters, why, last)


def _sequence(name: str | None, letters: list[str], reason: str | None, line: int) -> Record:
    text = None if reason else "".join(letters).removesuffix("*")
    return Record({ID_COLUMN: name, TEXT_COLUMN: text}, reason, line)


_Reader = Callable[[Iterable[Line], Sequence[str], Where, bool], Iterator[Record]]
_READERS: dict[str, _Reader] = {"txt": _plain, "jsonl": _json_lines, "fasta": _fasta}
