"""One result row: what one construction did on one masked example.

Knows nothing of files, models or torch, so that a report can be made where no model runs.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from unmask.errors import UnmaskError
from unmask.printable import quoted

METRICS = ("pairwise_nll", "unary_nll", "all_kl", "gold_kl")
WHOLE_VOCABULARY = "vocabulary"
_TEXTS = ("corpus", "mask", "model", "support", "example_id", "sentence_id", "construction")
_DERIVED = "token_distance"


Spans = tuple[tuple[int, int], tuple[int, int]]


class Group(NamedTuple):
    """What must be equal for rows to be averaged together.

    The support belongs to it: probabilities given different supports are not comparable.
    """

    corpus: str
    mask: str
    model: str
    support: str
    construction: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """The metrics of one construction on one masked example, or why there are none.

    The four metrics are natural logarithms per token, as in `joints.metrics`. `gold_bytes` counts
    the UTF-8 bytes of the two gold tokens' text together, `length` the tokens of the sequence that
    `positions` count in. `spans` are the characters of the sentence that the gold tokens stand for,
    without white space, None where the tokenizer keeps no offsets. `support` is "vocabulary" where
    the joint is over all of it. `construction` carries its options, so that two settings of one
    method are told apart. `seconds` are those of the whole example, which all of its rows share.
    `passes` and `converged` are of constructions with a solver; `software` and `device` are what
    computed the row.
    """

    corpus: str
    mask: str
    model: str
    support: str
    example_id: str
    sentence_id: str
    construction: str
    gold_bytes: int
    length: int
    positions: tuple[int, int]
    seconds: float
    pairwise_nll: float | None = None
    unary_nll: float | None = None
    all_kl: float | None = None
    gold_kl: float | None = None
    incompatibility: float | None = None
    passes: int | None = None
    converged: bool | None = None
    spans: Spans | None = None
    software: str | None = None
    device: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            _check_text(name, getattr(self, name))
        _check_count("gold_bytes", self.gold_bytes, least=0)
        _check_count("length", self.length, least=2)
        _check_positions(self.positions, self.length)
        _check_number("seconds", self.seconds, least=0)
        if self.incompatibility is not None:
            _check_number("incompatibility", self.incompatibility)
        if self.passes is not None:
            _check_count("passes", self.passes, least=0)
        if self.converged not in (None, True, False):
            raise UnmaskError(f"converged of a row is a truth value, not {quoted(self.converged)}")
        if self.spans is not None:
            _check_spans(self.spans)
        self._check_metrics()

    @property
    def failed(self) -> bool:
        """Whether there is an error in place of metrics."""
        return self.error is not None

    @property
    def token_distance(self) -> int:
        """How many tokens stand between the blanks: 0 if they are adjacent, as in the paper."""
        return abs(self.positions[0] - self.positions[1]) - 1

    @property
    def group(self) -> Group:
        """The rows that this one is averaged with."""
        return Group(self.corpus, self.mask, self.model, self.support, self.construction)

    def metric(self, name: str) -> float:
        """One of the four metrics of a row that has them."""
        value: float | None = getattr(self, name)
        if value is None:
            raise UnmaskError(
                f"the example {quoted(self.example_id)} has no {name}, because it failed: leave out"
                " rows with `failed`"
            )
        return value

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON values, with the token distance beside the positions."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        spans = self.spans and [list(span) for span in self.spans]
        lists = {"positions": list(self.positions), "spans": spans}
        return {**values, **lists, _DERIVED: self.token_distance}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Row":
        """Read back what `to_dict` made; anything missing, unknown or of a wrong type raises."""
        given = dict(values)
        distance = given.pop(_DERIVED, None)
        _check_names(given)
        if isinstance(given["positions"], list):
            given["positions"] = tuple(given["positions"])
        if isinstance(given["spans"], list):
            given["spans"] = tuple(
                tuple(span) if isinstance(span, list) else span for span in given["spans"]
            )
        row = cls(**given)
        if distance is not None and distance != row.token_distance:
            raise UnmaskError(
                f"{_DERIVED} is {row.token_distance} for positions {list(row.positions)},"
                f" not {quoted(distance)}"
            )
        return row

    def _check_metrics(self) -> None:
        if self.error is None:
            for name in METRICS:
                _check_number(name, getattr(self, name))
            return
        _check_text("error", self.error)
        present = [name for name in METRICS if getattr(self, name) is not None]
        if present:
            raise UnmaskError(
                f"a row with an error has no metrics, not {', '.join(present)}: give one or the"
                " other"
            )


def grouped(rows: Iterable[Row]) -> dict[Group, list[Row]]:
    """Rows by group, in order of example, each example once; groups as they first appear.

    The order of examples makes every sum the same to the last bit, whichever worker was first.
    """
    groups: dict[Group, dict[str, Row]] = {}
    for row in rows:
        examples = groups.setdefault(row.group, {})
        if row.example_id in examples:
            raise UnmaskError(
                f"the example {quoted(row.example_id)} has two rows of"
                f" {quoted(row.construction)} with {quoted(row.model)}: keep one of them"
            )
        examples[row.example_id] = row
    return {
        group: [examples[name] for name in sorted(examples)] for group, examples in groups.items()
    }


def measured(rows: Iterable[Row]) -> list[Row]:
    """The rows that have metrics."""
    return [row for row in rows if not row.failed]


def _check_names(given: Mapping[str, Any]) -> None:
    allowed = {field.name for field in fields(Row)}
    unknown, missing = sorted(given.keys() - allowed, key=str), sorted(allowed - given.keys())
    if unknown:
        raise UnmaskError(
            f"a row has no field {quoted(unknown[0])}; its fields are {', '.join(sorted(allowed))}"
        )
    if missing:
        raise UnmaskError(f"a row needs every field; {', '.join(missing)} are missing")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise UnmaskError(f"{name} of a row is a text that is not empty, not {quoted(value)}")


def _check_count(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UnmaskError(f"{name} of a row is a whole number from {least}, not {quoted(value)}")


def _check_positions(positions: object, length: int) -> None:
    inside = [
        at
        for at in (positions if isinstance(positions, tuple) else ())
        if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < length
    ]
    if positions != tuple(inside) or len(inside) != 2 or inside[0] == inside[1]:
        raise UnmaskError(
            f"positions of a row are two different whole numbers from 0 to {length - 1}, not"
            f" {quoted(positions)}"
        )


def _check_spans(spans: object) -> None:
    pairs = spans if isinstance(spans, tuple) else ()
    good = [
        span
        for span in pairs
        if isinstance(span, tuple) and len(span) == 2 and all(type(end) is int for end in span)
    ]
    if len(good) != 2 or len(pairs) != 2 or not all(0 <= low <= high for low, high in good):
        raise UnmaskError(
            f"spans of a row are two pairs of characters (start, end), not {quoted(spans)}"
        )


def _check_number(name: str, value: object, *, least: float = -math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrong = True
    else:
        wrong = not math.isfinite(value) or value < least
    if wrong:
        wanted = "a finite number" + (f" from {least:g}" if least > -math.inf else "")
        fix = "; a row without metrics says why in `error`" if name in METRICS else ""
        raise UnmaskError(f"{name} of a row is {wanted}, not {quoted(value)}{fix}")
