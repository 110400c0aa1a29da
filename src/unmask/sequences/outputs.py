"""Scores as rows: lists of dictionaries, data frames, CSV, TSV, JSON lines and text tables."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask import table_cells
from unmask.errors import UnmaskError
from unmask.printable import columns, printable, quoted
from unmask.sequences.minimal_pairs import Accuracy, correct
from unmask.sequences.scores import LogRatio, TextScore

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, object]

FORMATS = ("csv", "jsonl", "tsv")
_BITS = 1 / math.log(2)
# a longer text takes a line of its own in no table
_WIDEST_TEXT = 60
# how an infinite end of an interval is written
_UNBOUNDED = "unbounded"
_ENDS = ("lower", "upper")


@dataclass(frozen=True)
class Unscored:
    """A text that this model cannot take, and why."""

    text: str
    method: str
    reason: str


def to_dicts(
    scores: Iterable[TextScore | LogRatio], *, words: bool = False, base_two: bool = False
) -> list[Row]:
    """Scores as plain rows: one a text or pair, or with `words` one a word of a text.

    In nats, or with `base_two` in bits. Ends of intervals may be infinite.
    """
    return [row for one in scores for row in _rows(one, words, _BITS if base_two else 1.0)]


def to_pandas(
    scores: Iterable[TextScore | LogRatio], *, words: bool = False, base_two: bool = False
) -> "pd.DataFrame":
    """The rows of `to_dicts` as a data frame."""
    try:
        import pandas as pd
    except ImportError:
        said = "to_pandas needs pandas: pip install 'unmask[pandas]', or use to_dicts"
        raise ImportError(said) from None
    return pd.DataFrame(to_dicts(scores, words=words, base_two=base_two))


def _rows(score: TextScore | LogRatio, words: bool, unit: float) -> list[Row]:
    if isinstance(score, LogRatio):
        return [ratio_row(score, unit)]
    told: Row = {"text": score.text, "method": score.method}
    if not words:
        return [told | text_row(score, unit)]
    return [told | row for row in word_rows(score, unit)]


def text_row(score: TextScore | Unscored, unit: float = 1.0) -> Row:
    """The numbers of one text; `unit` is how many units a nat has."""
    if isinstance(score, Unscored):
        return dict.fromkeys(TEXT_COLUMNS) | {"reason": score.reason}
    numbers = (
        score.score * unit,
        _scaled(score.log_lower, unit),
        _scaled(score.log_upper, unit),
        score.tokens,
        score.unknown_tokens,
        score.forward_passes,
        score.normaliser_passes,
        None,
    )
    return dict(zip(TEXT_COLUMNS, numbers, strict=True))


def word_rows(score: TextScore | Unscored, unit: float = 1.0) -> list[Row]:
    """A row a word, with its surprisal; a text that was not scored has one row."""
    if isinstance(score, Unscored):
        return [dict.fromkeys(WORD_COLUMNS) | {"reason": score.reason}]
    return [
        dict(
            zip(
                WORD_COLUMNS,
                (n, word.text, word.start, word.end, word.pieces, -word.log_prob * unit, None),
                strict=True,
            )
        )
        for n, word in enumerate(score.words, start=1)
    ]


def ratio_row(ratio: LogRatio, unit: float = 1.0) -> Row:
    """The numbers of one pair; `correct` is 1, 0, or 0.5 for a tie."""
    numbers = (
        _scaled(ratio.log_ratio, unit),
        _scaled(ratio.standard_error, unit),
        _scaled(ratio.log_lower, unit),
        _scaled(ratio.log_upper, unit),
        correct(ratio.log_ratio, places=ratio.places),
        ratio.orders,
        ratio.places,
        ratio.forward_passes,
        ratio.normaliser_passes,
        ratio.reason,
    )
    return dict(zip(PAIR_COLUMNS, numbers, strict=True))


TEXT_COLUMNS = (
    *("score", "lower", "upper", "tokens", "unknown_tokens", "forward_passes"),
    *("normaliser_passes", "reason"),
)
WORD_COLUMNS = ("word_number", "word", "start", "end", "pieces", "surprisal", "reason")
PAIR_COLUMNS = (
    *("log_ratio", "standard_error", "lower", "upper", "correct"),
    *("orders", "places", "forward_passes", "normaliser_passes", "reason"),
)


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit


# -- files


def written(
    rows: Sequence[Mapping[str, object]], names: Sequence[str], format: str, *, header: bool = True
) -> str:
    r"""The rows as a file of that format, with a header of all names where it has one.

    Without `header`, as the rest of such a file.

    JSON lines hold every value as it was. In CSV and TSV control characters are shown escaped, as
    `\x1b`, and a text that a spreadsheet would take for a formula stands behind a quotation mark,
    which is taken off where such a file is read here again.
    """
    if format == "jsonl":
        return "".join(f"{json.dumps(in_words(row), allow_nan=False)}\n" for row in rows)
    if format not in FORMATS:
        raise UnmaskError(f"the output is csv, jsonl or tsv, not {quoted(format)}")
    tabs = format == "tsv"
    table = [[table_cells.data_cell(name, tabs=tabs) for name in names]] if header else []
    table += [[cell(row.get(name), tabs=tabs) for name in names] for row in rows]
    if format == "tsv":
        # without quotes, as tables of that kind are read here
        return "".join("\t".join(line) + "\n" for line in table)
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(table)
    return file.getvalue()


def cell(value: object, *, tabs: bool = False) -> str:
    """A value for CSV and TSV: numbers as they are, infinite ones as inf, texts escaped."""
    if value is None:
        return ""
    if isinstance(value, str):
        return table_cells.data_cell(value, tabs=tabs)
    if isinstance(value, float) and not math.isfinite(value):
        # pandas and R read it as a number
        return str(value)
    said = json.dumps(value)
    return said if isinstance(value, bool | int | float) else table_cells.data_cell(said, tabs=tabs)


def in_words(row: Mapping[str, object]) -> Row:
    """The row with infinite numbers as words, for JSON and for people."""
    return {name: _in_words(name, value) for name, value in row.items()}


def _in_words(name: str, value: object) -> object:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return _UNBOUNDED if name.endswith(_ENDS) else str(value)


# -- tables for people


def table(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> str:
    """Rows of some columns aligned; those that are empty throughout are left out."""
    kept = [name for name in names if any(row.get(name) is not None for row in rows)]
    cells = [[_shown(in_words(row).get(name)) for name in kept] for row in rows]
    return columns([list(map(printable, kept)), *cells])


def accuracy_table(found: Mapping[str, Mapping[str, Accuracy]], first: str) -> str:
    """A line a group and method: accuracy with its interval, coverage, ties and passes.

    Where groups are means, of how many paradigms: not every method compares pairs of all.
    """
    head = [first, "method", "accuracy", "95% interval", "compared", "ties", "forward passes"]
    lines = [
        [group, method, *_accuracy_cells(one)]
        for group, methods in found.items()
        for method, one in methods.items()
    ]
    every = [one for methods in found.values() for one in methods.values()]
    if any(one.paradigms > 1 for one in every):
        head.append("mean of")
        lines = [[*line, str(one.paradigms)] for line, one in zip(lines, every, strict=True)]
    return columns([[printable(cell) for cell in line] for line in [head, *lines]])


def _accuracy_cells(one: Accuracy) -> list[str]:
    known = one.compared > 0
    return [
        f"{one.value:.3f}" if known else "-",
        f"{one.low:.3f} to {one.high:.3f}" if known else "-",
        f"{one.compared} of {one.pairs}",
        str(one.ties),
        str(one.forward_passes),
    ]


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    said = printable(value if isinstance(value, str) else str(value))
    return said if len(said) <= _WIDEST_TEXT else said[: _WIDEST_TEXT - 3] + "..."
