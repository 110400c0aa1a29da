"""Statistics of how far a model contradicts itself, over texts, with bootstrap intervals.

Knows no model: it reads the rows of `measuring`. Every mean is over texts, which are resampled.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from scipy.stats import wilcoxon

from unmask.lazy import Guessable
from unmask.resampling import Estimate, Resampling, means, ratios
from unmask.sequences.consistency.measuring import ORDER, PAIRS

Row = Mapping[str, Any]
# by text, what is measured of it, by key
Numbers = Mapping[str, Mapping[str, float]]
# log-probabilities that differ by less, in nats, are equal: float32 rounds by as much
ROUNDING = 1e-3
# four ways to one number, if the conditionals came from one joint
_WAYS = ("log_pool", "pseudo_gibbs", "first_then_second", "second_then_first")

# of every statistic its title, unit and meaning
_OF_PAIRS = {
    "incompatibility": (
        "J",
        "bits",
        "how far the two conditionals are from having one joint: 0 if they have one, at most 1",
    ),
    "incompatibility_share": (
        "J over mutual information",
        "share",
        "how much of what the two blanks say about each other is contradiction",
    ),
    "construction_spread": (
        "spread of constructions",
        "nats per token",
        "largest minus smallest log-probability of the true words, over four ways to compute it "
        "that agree where conditionals have one joint",
    ),
    "order_difference": (
        "first word first minus second word first",
        "nats",
        "how much likelier both true words are if the first is filled in first (ConTestS): near 0 "
        "also where large differences cancel; p tests that neither order is favoured",
    ),
    "order_difference_size": (
        "size of the difference of both orders",
        "nats",
        "the same without its sign: how much the answer depends on which word is filled in first",
    ),
    "marginal_divergence": (
        "divergence of conditionals",
        "bits",
        "how far what the model says of a blank is from the mean of what it says once the other is "
        "filled (Ensemble of Conditionals)",
    ),
    "ensemble_gain": (
        "gain of the ensemble",
        "nats per token",
        "what the true words gain if all conditionals are averaged: above 0 the mean is better "
        "than one order",
    ),
    "ensemble_minus_log_pool": (
        "the ensemble minus log-pool",
        "nats per token",
        "the same against the joint that unmask builds by default: above 0 the mean is better",
    ),
}
_OF_TEXTS = {
    "order_deviation": (
        "spread of random orders",
        "nats per token",
        "standard deviation of a text's log-probability over the orders in which its words are "
        "filled in: by the chain rule it is the same in every order",
    ),
    "verdict_flips": (
        "verdicts that flip",
        "share",
        "how often two random orders disagree on which text of a minimal pair is likelier",
    ),
}
STATISTICS = {
    f"{key}_{part}": (f"{title}, {part} blanks", unit, meaning)
    for part in PAIRS
    for key, (title, unit, meaning) in _OF_PAIRS.items()
} | _OF_TEXTS
# a ratio of means, and what it is over
_WEIGHTS = {f"incompatibility_share_{part}": f"mutual_information_{part}" for part in PAIRS}


def numbers_of(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """The numbers of each text, by its id and by key; rows without numbers are left out."""
    texts: dict[str, list[Row]] = {}
    for row in rows:
        if not row.get("reason"):
            texts.setdefault(row["text_id"], []).append(row)
    return {
        name: {key: x for key, x in _of_text(of_name) if x is not None}
        for name, of_name in texts.items()
    }


def _of_text(rows: Sequence[Row]) -> Iterator[tuple[str, float | None]]:
    for row in (row for row in rows if row["part"] in PAIRS):
        yield from ((f"{key}_{row['part']}", x) for key, x in _of_pair(row).items())
    orders = [row for row in rows if row["part"] == ORDER]
    if len(orders) > 1:
        yield "order_deviation", stdev(row["text_log_p"] / row["tokens"] for row in orders)
    pairs = [(row["text_log_p"], row["contrast_log_p"]) for row in orders]
    verdicts = [text > other for text, other in pairs if other is not None]
    if (count := len(verdicts)) > 1:
        yield "verdict_flips", 2 * sum(verdicts) * verdicts.count(False) / (count * (count - 1))


def _of_pair(row: Row) -> dict[str, float | None]:
    logs = [row[name] for name in _WAYS]
    first, second = row["first_then_second"], row["second_then_first"]
    copied = ("incompatibility", "mutual_information", "marginal_divergence")
    return {
        **{key: row[key] for key in copied},
        "incompatibility_share": row["incompatibility"],
        "construction_spread": (max(logs) - min(logs)) / 2,
        "order_difference": first - second,
        "order_difference_size": abs(first - second),
        "ensemble_gain": (row["ensemble"] - fmean((first, second))) / 2,
        "ensemble_minus_log_pool": (row["ensemble"] - row["log_pool"]) / 2,
    }


@dataclass(frozen=True)
class Statistic(Guessable):
    """A mean over texts with its interval; `p_value` only where its median is tested against 0.

    Examples:
        >>> answers = lm.consistency(["Two dogs are running."], orders=2, max_passes=101)
        >>> one = answers.statistics[0]
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
        values = asdict(self)
        numbers = {k: None if math.isnan(x) else x for k, x in values.pop("estimate").items()}
        return {**values, **numbers}


def statistics(numbers: Numbers, resampling: Resampling) -> list[Statistic]:
    """Every statistic that some text has a number for."""
    made = []
    for key, about in STATISTICS.items():
        names = [name for name, of_text in numbers.items() if key in of_text]
        values = [numbers[name][key] for name in names]
        over = _WEIGHTS.get(key)
        weights = [1.0 if over is None else numbers[name][over] for name in names]
        if sum(weights) > 0:
            (estimate,) = ratios([values], weights, names, resampling)
            is_tested = key.startswith("order_difference") and "size" not in key
            p_value = median_test(values) if is_tested else None
            made.append(Statistic(key, *about, estimate, len(names), p_value))
    return made


def median_test(differences: Sequence[float]) -> float:
    """The p-value of a Wilcoxon signed-rank test that differences are symmetric about 0.

    Those that rounding explains say nothing; where none is left, 1.
    """
    apart = [difference for difference in differences if abs(difference) > ROUNDING]
    return float(wilcoxon(apart).pvalue) if apart else 1.0


def differences(ours: Numbers, theirs: Numbers, resampling: Resampling) -> dict[str, Estimate]:
    """The mean of ours minus theirs by key, over the texts that both have; of ratios none."""
    made = {}
    for key in STATISTICS.keys() - _WEIGHTS.keys():
        both = [name for name in ours if key in ours[name] and key in theirs.get(name, {})]
        if both:
            gaps = [ours[name][key] - theirs[name][key] for name in both]
            (made[key],) = means([gaps], both, resampling)
    return made
