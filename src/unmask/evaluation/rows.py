"""One result row: what one construction did on one masked example.

Knows nothing of files, models or torch, so that a report can be made where no model runs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

from unmask.errors import UnmaskError
from unmask.printable import quoted

METRICS = ("pairwise_nll", "unary_nll", "all_kl", "gold_kl")
# the standard errors of those metrics that have one in a sketch
ERRORS = {"pairwise_nll": "pairwise_error", "unary_nll": "unary_error"}
WHOLE_VOCABULARY = "vocabulary"
SKETCHED_VOCABULARY = "vocabulary (sketch)"

Positions = Sequence[int]
Spans = Sequence[Sequence[int]]


class LabelledMethod(NamedTuple):
    """A method and its options, under the label that result rows carry."""

    method: str
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The method's name, with the options that were given."""
        listed = ", ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.method}({listed})" if listed else self.method


class Group(NamedTuple):
    """The values that must be equal for result rows to be averaged together.

    The support belongs to it: probabilities given different supports are not comparable.
    """

    corpus: str
    mask: str
    model: str
    support: str
    construction: str

    @property
    def setting(self) -> "Group":
        """The group without its construction, so that all constructions share it."""
        return self._replace(construction="")


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """The metrics of one construction on one masked example, or why there are none.

    The four metrics are natural logarithms per token, as in `joints.metrics`. `gold_bytes` counts
    the UTF-8 bytes of the two gold tokens' text together, `length` the tokens of the sequence that
    `positions` count in, and `token_distance` those between the blanks: 0 if they are adjacent, as
    in the paper. `spans` are the characters of the sentence that the gold tokens stand for,
    without white space, None where the tokenizer keeps no offsets. `support` is "vocabulary" where
    the joint is over all of it. `construction` carries its options, so that two settings of one
    method differ in it. `passes` and `converged` are of constructions that iterate; `software` and
    `device` are what computed the row. Rows of a sketch are estimates: they have standard errors
    and the forward passes of the example, and no `all_kl`, which averages over contexts that did
    not run. The order is that of the columns in files.
    """

    corpus: str
    mask: str
    model: str
    support: str
    example_id: str
    sentence_id: str
    construction: str
    pairwise_nll: float | None = None
    unary_nll: float | None = None
    all_kl: float | None = None
    gold_kl: float | None = None
    incompatibility: float | None = None
    pairwise_error: float | None = None
    unary_error: float | None = None
    gold_bytes: int
    length: int
    token_distance: int
    passes: int | None = None
    forward_passes: int | None = None
    converged: bool | None = None
    positions: Positions
    spans: Spans | None = None
    software: str | None = None
    device: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Reject numbers that are not finite: a mean over examples would not be one either."""
        for name in (*METRICS, "incompatibility", *ERRORS.values()):
            value = getattr(self, name)
            may_lack = self.reason or name not in METRICS or (name == "all_kl" and self.sketched)
            if not (may_lack if value is None else math.isfinite(value)):
                raise UnmaskError(f"{name} of a result row is a finite number, not {quoted(value)}")

    @property
    def failed(self) -> bool:
        """True if there is an error in place of metrics."""
        return self.reason is not None

    @property
    def sketched(self) -> bool:
        """True if the metrics are estimates, with standard errors."""
        return self.pairwise_error is not None

    @property
    def group(self) -> Group:
        """The result rows that this one is averaged with."""
        return Group(self.corpus, self.mask, self.model, self.support, self.construction)

    def metric(self, name: str) -> float:
        """One of the four metrics of a result row that has it."""
        value: float | None = getattr(self, name)
        if value is None:
            why = "failed" if self.failed else "is of a sketch"
            raise UnmaskError(
                f"the example {quoted(self.example_id)} has no {name}, because it {why}"
            )
        return value


_ARROW: dict[Any, str] = {str: "string", float: "double", int: "int64", bool: "bool"}
_ARROW |= {Positions: "list<int32>", Spans: "list<list<int32>>"}
# of result rows in files, with the names of their Arrow types
COLUMNS = {
    name: next(arrow for plain, arrow in _ARROW.items() if hint in (plain, plain | None))
    for name, hint in get_type_hints(ResultRow).items()
}


def grouped(rows: Iterable[ResultRow]) -> dict[Group, list[ResultRow]]:
    """Result rows by group, in order of example, each example once; groups as they first appear.

    The order of examples makes every sum the same to the last bit, whichever worker was first.
    """
    groups: dict[Group, dict[str, ResultRow]] = {}
    for row in rows:
        if groups.setdefault(row.group, {}).setdefault(row.example_id, row) is not row:
            raise UnmaskError(
                f"the example {quoted(row.example_id)} has two result rows of"
                f" {quoted(row.construction)} with {quoted(row.model)}: keep one of them"
            )
    return {group: [examples[id] for id in sorted(examples)] for group, examples in groups.items()}


def measured(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """The result rows that have metrics."""
    return [row for row in rows if not row.failed]


def total_error(rows: Iterable[ResultRow], metric: str) -> float:
    """The standard error of the sum of a metric, as far as it is estimated: 0 of exact rows.

    Sketches of different examples are drawn independently, so that their variances add up.
    """
    name = ERRORS.get(metric)
    return 0.0 if name is None else math.hypot(*(getattr(row, name) or 0.0 for row in rows))
