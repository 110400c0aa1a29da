"""From lines to rows: a function for each format of lines.

A row that cannot be read has a reason in its place: one bad line among a billion stops nothing.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from unmask.markup import from_data_cell
from unmask.printable import quoted
from unmask.records.lines import Line
from unmask.records.tables import open_table

# what holds the text of a file with columns, unless something else is named
TEXT_COLUMN = "text"
# what holds the name of a record of FASTA
ID_COLUMN = "id"
# objects and arrays of JSON in one another: no table of values has as many
_DEEPEST = 100

Row = Mapping[str, Any]


class Record(NamedTuple):
    """A row, or the reason why it cannot be read; and the line where it ends."""

    row: Row
    reason: str | None = None
    line: Line | None = None


def _plain(lines: Iterable[Line], columns: Sequence[str]) -> Iterator[Record]:
    other = [name for name in columns if name != TEXT_COLUMN]
    for line in lines:
        reason = line.reason
        if reason is None and not line.text.strip():
            continue
        if reason is None and other:
            reason = (
                f"{line.file} is plain text, one text per line, without a column "
                f"{quoted(other[0])}; leave columns out, or give the format: csv, jsonl or tsv"
            )
        yield Record({TEXT_COLUMN: None if reason else line.text}, reason, line)


def _json_lines(lines: Iterable[Line], columns: Sequence[str]) -> Iterator[Record]:
    for line in lines:
        if line.reason:
            yield Record({}, line.reason, line)
        elif line.text.strip():
            row, why = _json_object(line.text)
            yield Record(row, f"{line.where} {why}" if why else None, line)


def _json_object(text: str) -> tuple[Mapping[str, Any], str | None]:
    """The object that a line holds, or what is wrong with it."""
    try:
        row = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        where = f"{error.msg} at its character {error.pos + 1}"
        return {}, f"is not JSON: {where}; JSON lines have one object per line"
    except OverflowError:
        return {}, "holds NaN or an infinite number, which JSON does not have; write null"
    except (ValueError, RecursionError) as error:
        # numbers of thousands of digits, and brackets without end
        return {}, f"is JSON that cannot be read: {quoted(str(error))}"
    if text.count("[") + text.count("{") > _DEEPEST and _depth(row) > _DEEPEST:
        # what writes it again goes one call deeper for each
        return {}, f"is JSON nested more than {_DEEPEST} deep; flatten it"
    if not isinstance(row, dict):
        kind = f"{quoted(row)} ({type(row).__name__})"
        return (
            {},
            f'is not a JSON object but {kind}; write {{"column": "a sentence"}} on every line',
        )
    return row, None


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise OverflowError
    return value


def _depth(value: object) -> int:
    """The depth to which objects and arrays of JSON are nested."""
    depth, level = 0, [value]
    while level := [value for value in level if isinstance(value, dict | list)]:
        level = [
            v for value in level for v in (value.values() if isinstance(value, dict) else value)
        ]
        depth += 1
    return depth


def _table(lines: Iterable[Line], columns: Sequence[str], *, format: str) -> Iterator[Record]:
    """The rows of a table after its header, if it has one."""
    layout, records = open_table(lines, format, columns)
    width = len(layout.fields)
    for fields, line, why in records:
        reason = why
        if reason is None and width and len(fields) != width:
            reason = (
                f"{line.where} has {len(fields)} fields, but the first has {width}; every line "
                "must have as many"
            )
        cells = [] if reason else map(from_data_cell, fields)
        yield Record(dict(zip(layout.fields, cells, strict=False)), reason or layout.reason, line)


def _fasta(lines: Iterable[Line], columns: Sequence[str]) -> Iterator[Record]:
    """Every record: the first word behind its mark, and its letters, which are not checked.

    Translations end with a star where the stop codon was, which is removed.
    """
    name: str | None = None
    reason: str | None = None
    letters, last = list[str](), None

    def record() -> Iterator[Record]:
        if name is not None or reason is not None:
            text = None if reason else "".join(letters).removesuffix("*")
            yield Record({ID_COLUMN: name, TEXT_COLUMN: text}, reason, last)

    for line in lines:
        if line.text.startswith(">"):
            yield from record()
            name, letters, reason = (line.text[1:].split() or [""])[0], [], line.reason
        elif name is None and reason is None and line.text.strip():
            reason = line.reason or (
                f"{line.where} is not FASTA: it is text before the first record, which starts "
                "with >"
            )
        else:
            letters.append("".join(line.text.split()))
            reason = reason or line.reason
        last = line
    yield from record()


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
