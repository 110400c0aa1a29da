"""Statistics of how far a model contradicts itself, over texts, with bootstrap intervals.

Knows no model: it reads the rows of `measuring`. Every mean is over texts, which are resampled.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from unmask.lazy import Guessable
from unmask.resampling import DEFAULT, Estimate, Resampling, means, ratios
from unmask.sequences.consistency.measuring import ANY, ORDER, PAIRS
from unmask.sequences.unmasking import LEFT_TO_RIGHT, ORDERS

Row = Mapping[str, Any]
# log-probabilities that differ by less, in nats, are equal: float32 rounds by as much
ROUNDING = 1e-3
# distances of two blanks, in tokens, by their smallest and largest
BINS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 10**9))


@dataclass(frozen=True)
class TextAnswers:
    """All rows of one text: its two pairs of blanks, and its log-probability by order."""

    id: str
    pairs: Mapping[str, Row]
    log_p: Mapping[str, float]
    contrast_log_p: Mapping[str, float]
    tokens: int

    def random_orders(self) -> list[float]:
        """The log-probabilities by orders that were drawn."""
        return [one for order, one in self.log_p.items() if order.startswith(ANY)]

    def verdicts(self) -> list[bool]:
        """Whether the text is likelier than its contrast, by each order that was drawn."""
        names = [order for order in self.contrast_log_p if order.startswith(ANY)]
        return [self.log_p[order] > self.contrast_log_p[order] for order in names]


def by_text(rows: Iterable[Row]) -> list[TextAnswers]:
    """The answers of each text; rows without numbers are left out."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if not row.get("reason"):
            groups.setdefault(row["text_id"], []).append(row)
    return [_answers(name, some) for name, some in groups.items()]


def _answers(name: str, rows: Sequence[Row]) -> TextAnswers:
    orders = [row for row in rows if row["part"] == ORDER]
    return TextAnswers(
        name,
        {row["part"]: row for row in rows if row["part"] in PAIRS},
        {row["order"]: row["text_log_p"] for row in orders},
        {r["order"]: r["contrast_log_p"] for r in orders if r["contrast_log_p"] is not None},
        orders[0]["tokens"] if orders else 0,
    )


# --- what is measured of a text ----------------------------------------------------------------

Value = Callable[[TextAnswers], float | None]


@dataclass(frozen=True)
class ContradictionMeasure:
    """A number of each text, of which a mean is taken: a ratio of means if it has a `weight`."""

    key: str
    title: str
    unit: str
    meaning: str
    value: Value
    weight: Value | None = None
    is_tested: bool = False


def _spread(row: Row) -> float:
    """Per token; four ways to one number, if the conditionals came from one joint."""
    names = ("log_pool", "pseudo_gibbs", "first_then_second", "second_then_first")
    logs = [float(row[name]) for name in names]
    return (max(logs) - min(logs)) / 2


def _one_order(row: Row) -> float:
    return fmean((row["first_then_second"], row["second_then_first"]))


def order_difference(row: Row) -> float:
    """How much more the pair has with the first blank filled first, in nats."""
    return float(row["first_then_second"] - row["second_then_first"])


_OF_PAIRS: tuple[tuple[str, str, str, str, Callable[[Row], float | None], str | None], ...] = (
    (
        "incompatibility",
        "J",
        "bits",
        "how far the two conditionals are from having one joint: 0 if they have one, at most 1",
        lambda row: row["incompatibility"],
        None,
    ),
    (
        "incompatibility_share",
        "J over mutual information",
        "share",
        "the same against how much the two blanks tell about each other",
        lambda row: row["incompatibility"],
        "mutual_information",
    ),
    (
        "construction_spread",
        "spread of constructions",
        "nats per token",
        "largest minus smallest log-probability of the true tokens, over four ways to compute it "
        "that agree where conditionals have one joint",
        _spread,
        None,
    ),
    (
        "order_difference",
        "first blank first, less second blank first",
        "nats",
        "log p(a) + log p(b given a) less log p(b) + log p(a given b) at the true tokens, after "
        "ConTestS; p is that of a Wilcoxon signed-rank test that its median is 0",
        order_difference,
        None,
    ),
    (
        "order_difference_size",
        "size of that difference",
        "nats",
        "the same without its sign",
        lambda row: abs(order_difference(row)),
        None,
    ),
    (
        "marginal_divergence",
        "divergence of conditionals",
        "bits",
        "how far a blank's distribution is from the mean of its conditionals over the other blank, "
        "with which it would be equal; in the manner of Ensemble of Conditionals",
        lambda row: row["marginal_divergence"],
        None,
    ),
    (
        "ensemble_gain",
        "gain of the ensemble",
        "nats per token",
        "log-probability of the true tokens by the mean of all conditionals, less that by one "
        "order; above 0 the ensemble is better",
        lambda row: (row["ensemble"] - _one_order(row)) / 2,
        None,
    ),
    (
        "ensemble_less_log_pool",
        "the ensemble less log-pool",
        "nats per token",
        "the same against the joint that unmask builds by default; above 0 the ensemble is better",
        lambda row: (row["ensemble"] - row["log_pool"]) / 2,
        None,
    ),
)


def _of_pair(part: str, of: Callable[[Row], float | None]) -> Value:
    return lambda one: of(one.pairs[part]) if part in one.pairs else None


def _column(part: str, name: str) -> Value:
    return _of_pair(part, lambda row: row[name])


def _deviation(one: TextAnswers) -> float | None:
    logs = one.random_orders()
    return stdev(logs) / one.tokens if len(logs) > 1 else None


def _range(one: TextAnswers) -> float | None:
    logs = one.log_p.values()
    return (max(logs) - min(logs)) / one.tokens if logs else None


def _less_left_to_right(order: str) -> Value:
    def value(one: TextAnswers) -> float | None:
        if order not in one.log_p:
            return None
        return (one.log_p[order] - one.log_p[LEFT_TO_RIGHT]) / one.tokens

    return value


def _less_by_chance(one: TextAnswers) -> float | None:
    logs = one.random_orders()
    return (fmean(logs) - one.log_p[LEFT_TO_RIGHT]) / one.tokens if logs else None


def _flips(one: TextAnswers) -> float | None:
    """How often two orders that are drawn disagree."""
    verdicts = one.verdicts()
    count, yes = len(verdicts), sum(verdicts)
    return 2 * yes * (count - yes) / (count * (count - 1)) if count > 1 else None


def _overturned(one: TextAnswers) -> float | None:
    verdicts = one.verdicts()
    return float(len(set(verdicts)) > 1) if len(verdicts) > 1 else None


_OF_TEXTS = (
    ContradictionMeasure(
        "order_deviation",
        "standard deviation over random orders",
        "nats per token",
        "how much the log-probability of a text depends on the order of unmasking: 0 by a chain "
        "rule that holds",
        _deviation,
    ),
    ContradictionMeasure(
        "order_range",
        "range over all orders",
        "nats per token",
        "largest minus smallest; it grows with the number of orders",
        _range,
    ),
    *(
        ContradictionMeasure(
            f"{order}_less_left_to_right",
            f"{order} first, less left to right",
            "nats per token",
            "what revealing tokens in that order adds to the log-probability of a text",
            _less_left_to_right(order),
        )
        for order in ORDERS
        if order != LEFT_TO_RIGHT
    ),
    ContradictionMeasure(
        "random_less_left_to_right",
        "random orders, less left to right",
        "nats per token",
        "the same for the mean over random orders",
        _less_by_chance,
    ),
    ContradictionMeasure(
        "verdict_flips",
        "verdicts that flip",
        "share",
        "how often two random orders disagree on which text of a minimal pair is likelier",
        _flips,
    ),
    ContradictionMeasure(
        "verdicts_overturned",
        "minimal pairs with both verdicts",
        "share",
        "how many minimal pairs some random orders decide one way and some the other; it grows "
        "with the number of orders",
        _overturned,
    ),
)

MEASURED = (
    *(
        ContradictionMeasure(
            f"{key}_{part}",
            f"{title}, {part} blanks",
            unit,
            meaning,
            _of_pair(part, of),
            None if weight is None else _column(part, weight),
            key == "order_difference",
        )
        for part in PAIRS
        for key, title, unit, meaning, of, weight in _OF_PAIRS
    ),
    *_OF_TEXTS,
)


# --- what it amounts to ------------------------------------------------------------------------


@dataclass(frozen=True)
class Statistic(Guessable):
    """A mean over texts with its interval; `p_value` only where its median is tested against 0.

    Examples:
        >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
        >>> one = answers.statistics()[0]
        >>> one.key, one.unit, one.texts
        ('incompatibility_adjacent', 'bits', 1)
    """

    key: str
    title: str
    unit: str
    meaning: str
    estimate: Estimate
    texts: int
    p_value: float | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready: without an interval where there is one text."""
        numbers = {
            name: None if math.isnan(number) else number
            for name, number in asdict(self.estimate).items()
        }
        about = {name: getattr(self, name) for name in ("title", "unit", "meaning")}
        return {"key": self.key, **numbers, "texts": self.texts, "p_value": self.p_value, **about}


def statistics(answers: Sequence[TextAnswers], resampling: Resampling = DEFAULT) -> list[Statistic]:
    """Every statistic that some text has a number for."""
    made = (_statistic(measure, answers, resampling) for measure in MEASURED)
    return [one for one in made if one is not None]


def _statistic(
    measure: ContradictionMeasure, answers: Sequence[TextAnswers], resampling: Resampling
) -> Statistic | None:
    texts = [one for one in answers if measure.value(one) is not None]
    values = [measure.value(one) or 0.0 for one in texts]
    weights = [1.0 if measure.weight is None else measure.weight(one) or 0.0 for one in texts]
    if not texts or not sum(weights) > 0:
        return None
    (estimate,) = ratios([values], weights, [one.id for one in texts], resampling)
    p_value = median_test(values) if measure.is_tested else None
    return Statistic(
        measure.key, measure.title, measure.unit, measure.meaning, estimate, len(texts), p_value
    )


def median_test(differences: Sequence[float]) -> float:
    """The p-value of a Wilcoxon signed-rank test that differences are symmetric about 0.

    Those that rounding explains say nothing; where none is left, 1.
    """
    apart = [one for one in differences if abs(one) > ROUNDING]
    return float(wilcoxon(apart).pvalue) if apart else 1.0


def differences(
    answers: Sequence[TextAnswers],
    others: Sequence[TextAnswers],
    resampling: Resampling = DEFAULT,
) -> dict[str, Estimate]:
    """The mean of ours less theirs by key, over the texts that both have; of ratios none."""
    theirs = {one.id: one for one in others}
    both = [(one, theirs[one.id]) for one in answers if one.id in theirs]
    made: dict[str, Estimate] = {}
    for measure in MEASURED if both else ():
        pairs = [(one.id, measure.value(one), measure.value(other)) for one, other in both]
        gaps = [(name, x - y) for name, x, y in pairs if x is not None and y is not None]
        if gaps and measure.weight is None:
            names, values = zip(*gaps, strict=True)
            (made[measure.key],) = means([values], names, resampling)
    return made


def by_distance(
    answers: Sequence[TextAnswers], resampling: Resampling = DEFAULT
) -> list[tuple[str, Estimate, int]]:
    """J of all pairs of blanks by how far apart they are: a name, a mean and a count per bin."""
    rows = [(one.id, row) for one in answers for row in one.pairs.values()]
    bins = []
    for low, high in BINS:
        chosen = [
            (name, row["incompatibility"])
            for name, row in rows
            if low <= row["distance"] <= high and row["incompatibility"] is not None
        ]
        if chosen:
            names, values = zip(*chosen, strict=True)
            (estimate,) = means([values], names, resampling)
            last = f"{low}+" if high > 1000 else f"{low}-{high}"
            bins.append((str(low) if low == high else last, estimate, len(chosen)))
    return bins


def deviations(answers: Sequence[TextAnswers]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of every text and random order, how far its log-probability is from their mean, per token."""
    each = [
        (np.array(logs) - fmean(logs)) / one.tokens
        for one in answers
        if len(logs := one.random_orders()) > 1
    ]
    return np.concatenate(each) if each else np.zeros(0)


def worst(answers: Sequence[TextAnswers], count: int) -> list[Row]:
    """The pairs of blanks with the largest J."""
    rows = [row for one in answers for row in one.pairs.values()]
    measured_rows = [row for row in rows if row["incompatibility"] is not None]
    return sorted(measured_rows, key=lambda row: (-row["incompatibility"], row["text_id"]))[:count]
