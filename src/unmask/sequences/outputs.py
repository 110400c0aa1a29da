"""Scores as rows of files, and tables to read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unmask.printable import columns, printable, quoted
from unmask.sequences.minimal_pairs import Accuracy, correct
from unmask.sequences.scores import LogRatio, TextScore

Row = dict[str, object]

# the columns of a score and their types; the reason stands last in a row
TEXT_COLUMNS = {
    **dict.fromkeys(("score", "standard_error"), "double"),
    **dict.fromkeys(("tokens", "unknown_tokens", "special_tokens", "forward_passes"), "int64"),
    "reason": "string",
}
WORD_COLUMNS = {
    "word_number": "int64",
    "word": "string",
    **dict.fromkeys(("start", "end", "pieces"), "int64"),
    "surprisal": "double",
    "reason": "string",
}
PAIR_COLUMNS = {
    **dict.fromkeys(("log_ratio", "standard_error", "correct"), "double"),
    **dict.fromkeys(("orders", "places", "forward_passes"), "int64"),
    "reason": "string",
}
_IN_NATS = ("score", "log_ratio", "standard_error", "surprisal")
# how many bits a nat has
BITS = 1 / math.log(2)
# a longer text is cut in a table
_WIDEST_TEXT = 60


def result_rows(
    score: TextScore | LogRatio, *, words: bool = False, unit: float = 1.0
) -> list[Row]:
    """The numbers of one text or pair, or with `words` of each word; `unit` is how many a nat has.

    A word with a part that the vocabulary has no token for has a reason instead. Of a pair
    `correct` is 1, 0, or 0.5 for a tie.
    """
    rows: list[dict[str, Any]]
    if isinstance(score, LogRatio):
        rows = [{name: getattr(score, name) for name in PAIR_COLUMNS if name != "correct"}]
        rows[0]["correct"] = correct(score.log_ratio, places=score.places)
    elif words:
        rows = [
            {
                "word_number": number,
                "word": word.text,
                **{name: getattr(word, name) for name in ("start", "end", "pieces")},
                "surprisal": None if word.is_unknown else -word.log_prob,
                "reason": f"this vocabulary has no pieces for {quoted(word.text)}"
                if word.is_unknown
                else None,
            }
            for number, word in enumerate(score.words, start=1)
        ]
    else:
        rows = [{name: getattr(score, name) for name in TEXT_COLUMNS if name != "reason"}]
    for row in rows:
        row |= {name: row[name] * unit for name in _IN_NATS if row.get(name) is not None}
        row.setdefault("reason", None)
    return rows


# -- tables to read


def table(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> str:
    """Some columns of the rows, aligned; those that are empty throughout are left out."""
    used = [name for name in names if any(row.get(name) is not None for row in rows)]
    cells = [[_shown(row.get(name)) for name in used] for row in rows]
    return columns([list(map(printable, used)), *cells])


def accuracy_table(accuracies: Mapping[str, Mapping[str, Accuracy]], first: str) -> str:
    """One line per group and method: accuracy, its interval, coverage, ties and forward passes.

    Where groups are means, also of how many paradigms: not every method compares pairs of all.
    """
    every = [accuracy for methods in accuracies.values() for accuracy in methods.values()]
    are_means = any(accuracy.paradigms > 1 for accuracy in every)
    rows = [[first, "method", "accuracy", "95% interval", "compared", "ties", "forward passes"]]
    rows[0] += ["mean of"] * are_means
    for group, methods in accuracies.items():
        for method, accuracy in methods.items():
            value, interval = "-", "-"
            if accuracy.compared:
                value = f"{accuracy.value:.3f}"
                interval = f"{accuracy.low:.3f} to {accuracy.high:.3f}"
            compared = f"{accuracy.compared} of {accuracy.pairs}"
            counts = [accuracy.ties, accuracy.forward_passes, *[accuracy.paradigms] * are_means]
            rows.append([group, method, value, interval, compared, *map(str, counts)])
    return columns([[printable(cell) for cell in row] for row in rows])


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:z.3f}"
    text = printable(value if isinstance(value, str) else str(value))
    return text if len(text) <= _WIDEST_TEXT else text[: _WIDEST_TEXT - 3] + "..."
