"""Counters of rows as JSON values, which are added over units.

`texts` is how many rows came in, `unknown` how many of them have words that the vocabulary has no
token for, `special` how many have special tokens written in them, `failed` how many ended in an
unexpected error. `without` has, by method, how many have no number, and an example of why; `pairs`
has who won, by method and group, as the kind wrote it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Counts = dict[str, Any]


def counted(texts: int = 0) -> Counts:
    """Counters of so many rows, all of which have an answer."""
    return {"texts": texts, "unknown": 0, "special": 0, "failed": 0, "without": {}, "pairs": {}}


def add(total: Counts, more: Mapping[str, Any]) -> None:
    """Add counters to others; of texts the first stays."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add(total.setdefault(name, {}), value)
        elif isinstance(value, str):
            total.setdefault(name, value)
        else:
            total[name] = total.get(name, 0) + value


def note(counts: Counts, method: str, reasons: Iterable[str]) -> None:
    """Count rows that have no number by a method."""
    for reason in reasons:
        add(counts["without"], {method: {"count": 1, "example": reason}})


def worst(counts: Counts) -> tuple[int, str]:
    """How many rows the worst method has no number for, and an example of why."""
    each = [(one["count"], one["example"]) for one in counts["without"].values()]
    return max(each, default=(0, ""))


def has_none(counts: Counts, methods: Iterable[str]) -> bool:
    """Whether there is not one number by any of some methods."""
    without = [counts["without"].get(method, {"count": 0})["count"] for method in methods]
    return bool(without) and all(count == counts["texts"] for count in without)
