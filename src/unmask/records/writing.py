"""The one writer of rows as text: CSV, TSV and JSON lines."""

import csv
import io
import json
import math
from collections.abc import Sequence

from unmask.errors import CorpusError
from unmask.markup import data_cell
from unmask.printable import quoted
from unmask.records.rows import Row


def written(rows: Sequence[Row], names: Sequence[str], format: str, *, header: bool = True) -> str:
    r"""The rows as a file of that format, with a header of all names where it has one.

    Without `header`, as the rest of such a file.

    JSON lines hold every value as it was; dates and others that JSON does not have are text, and a
    number that is not finite is null. In CSV and TSV control characters are shown escaped, as
    `\x1b`, and a text that a spreadsheet would take for a formula stands behind a mark, which is
    removed where such a cell is read here again. A column that is not among the names is an error.
    """
    if format == "jsonl":
        return "".join(f"{json.dumps(_plain(row), allow_nan=False)}\n" for row in rows)
    for name in (name for row in rows for name in row.keys() - set(names)):
        raise CorpusError(
            f"a row has {quoted(name)}, which the first does not have; write JSON lines, or give a "
            "file instead of a pipe"
        )
    tabs = format == "tsv"
    table = [[data_cell(name, tabs=tabs) for name in names]] if header else []
    table += [[cell(row.get(name), tabs=tabs) for name in names] for row in rows]
    if tabs:
        # without quotes, as tables of that kind are read here
        return "".join("\t".join(line) + "\n" for line in table)
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(table)
    return file.getvalue()


def cell(value: object, *, tabs: bool = False) -> str:
    """A value for CSV and TSV: numbers as they are, texts escaped."""
    value = _plain(value)
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value, allow_nan=False)
    return data_cell(value if isinstance(value, str) else json.dumps(value), tabs=tabs)


def _plain(value: object) -> object:
    """A value of JSON: dates, decimals and bytes as text, a number that is not finite as none."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
