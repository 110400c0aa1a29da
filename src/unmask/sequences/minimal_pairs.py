"""The share of minimal pairs whose better text wins, with intervals, by paradigm and overall.

A tie counts half. Of one paradigm the interval is Wilson's (1927); with half a success for a tie
it is a little too wide. Over several paradigms the accuracy is the mean of theirs, each counting
the same however many pairs it has, and its interval is combined from Wilson's of each
(MOVER: Zou & Donner 2008), the paradigms held fixed: it says what other pairs of the same
paradigms would change. Knows nothing of models and files.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from unmask.errors import UnmaskError
from unmask.printable import quoted


@dataclass(frozen=True)
class Verdict:
    """The result for one pair, or `pairs` alike: 1 if the better text won, 0.5 for a tie, 0 if not.

    `correct` is None if the pair could not be compared. `groups` are the other groups that it
    counts towards, by the kind of group: field, phenomenon.
    """

    paradigm: str
    correct: float | None
    forward_passes: int = 0
    groups: Mapping[str, str] | None = None
    pairs: int = 1


@dataclass(frozen=True)
class Accuracy:
    """The mean of the accuracies of paradigms, with its interval and what it rests on.

    `pairs` counts all, `compared` those that have a verdict. Without any the accuracy is NaN and
    the interval from 0 to 1.
    """

    value: float
    low: float
    high: float
    pairs: int
    compared: int
    ties: int
    paradigms: int
    forward_passes: int

    @property
    def coverage(self) -> float:
        """The share of the pairs that could be compared."""
        return self.compared / self.pairs


def correct(log_ratio: float | None, *, places: int | None = None) -> float | None:
    """The verdict on log p(better)/p(worse); None where there is no ratio.

    `places` are the tokens where the texts differ. Without any they tie, whatever rounding says:
    so it is where what makes the difference is unknown to the tokenizer.
    """
    if log_ratio is None:
        return None
    return 0.5 if log_ratio == 0 or places == 0 else float(log_ratio > 0)


def wilson(successes: float, trials: int) -> tuple[float, float]:
    """Wilson's (1927) 95% score interval of a proportion."""
    if not 0 <= successes <= trials or trials < 1:
        raise UnmaskError(f"{quoted(successes)} of {quoted(trials)} is not a proportion")
    z = NormalDist().inv_cdf(0.975)
    share = successes / trials
    middle = share + z**2 / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    scale = 1 + z**2 / trials
    # rounding must not lift the lower end of no success above it
    low, high = max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
    return min(low, share), max(high, share)


def accuracy(verdicts: Iterable[Verdict]) -> Accuracy:
    """The accuracy over paradigms, with equal weights; there must be a pair."""
    every = list(verdicts)
    if not every:
        raise UnmaskError("an accuracy needs at least one pair")
    successes, trials = defaultdict[str, float](float), Counter[str]()
    for verdict in every:
        if verdict.correct is not None:
            successes[verdict.paradigm] += verdict.correct * verdict.pairs
            trials[verdict.paradigm] += verdict.pairs
    value, low, high = _mean_of_paradigms([(successes[name], trials[name]) for name in trials])
    return Accuracy(
        value=value,
        low=low,
        high=high,
        pairs=sum(verdict.pairs for verdict in every),
        compared=trials.total(),
        ties=sum(verdict.pairs for verdict in every if verdict.correct == 0.5),
        paradigms=len(trials),
        forward_passes=sum(verdict.forward_passes for verdict in every),
    )


def accuracies(verdicts: Sequence[Verdict], by: str | None = None) -> dict[str, Accuracy]:
    """Accuracies by paradigm, or by a key of `Verdict.groups`, in the order they first appear."""
    parts: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        name = verdict.paradigm if by is None else (verdict.groups or {}).get(by, "")
        parts[name].append(verdict)
    return {name: accuracy(part) for name, part in parts.items()}


def _mean_of_paradigms(paradigms: Sequence[tuple[float, int]]) -> tuple[float, float, float]:
    """MOVER: the distances to Wilson's limits of each paradigm add up in squares.

    A paradigm is its successes and its trials.
    """
    if not paradigms:
        return math.nan, 0.0, 1.0
    value = below = above = 0.0
    for successes, trials in paradigms:
        share = successes / trials
        low, high = wilson(successes, trials)
        value += share / len(paradigms)
        below += ((share - low) / len(paradigms)) ** 2
        above += ((high - share) / len(paradigms)) ** 2
    return value, max(0.0, value - math.sqrt(below)), min(1.0, value + math.sqrt(above))
