"""Means with standard errors and bootstrap intervals, where examples come in sentences.

Two blanks of one sentence are not two independent examples, so whole sentences are resampled
(a cluster bootstrap; Efron & Tibshirani 1993, chapters 8 and 13) and standard errors are robust
to clusters. A perplexity is the exponential of the mean NLL: means come first, everywhere, and
`Estimate.exp` after. Knows nothing of rows.

Draws are counts and not values, as `scipy.stats.bootstrap` draws: how often each example is drawn,
whatever is made of them. Sums over sentences and weighted ranks are products with counts, and
several methods see the same draws.
"""

import functools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UnmaskError
from unmask.printable import quoted

Numbers = NDArray[np.float64]

# the ends of an interval: it covers 95% of the resamples
PERCENTILES = (2.5, 97.5)
# counts of so many cells are held at once: 32 MB
_CELLS = 2**22
# how many standard errors such an interval reaches to each side of a normal mean
_NORMAL = 1.96
# of fewer examples an interval is too narrow to mark what it excludes: of 5 normal ones it misses
# the mean in 15% of cases, of 10 in 10%, of 20 in 7%, where 5% were promised
FEWEST = 20


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """The number of resamples of the examples, and their seed."""

    resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < 1:
            raise UnmaskError(f"resamples is a number from 1, not {quoted(self.resamples)}")
        if self.seed < 0:
            raise UnmaskError(f"seed is a number from 0, not {quoted(self.seed)}")

    def counts(self, count: int) -> Iterator[NDArray[np.float64]]:
        """Draws with replacement: the count of each of `count` examples, a line per resample."""
        if self.resamples * count <= _CELLS:
            yield _all_counts(self, count)
            return
        generator = np.random.default_rng(self.seed)
        step = max(1, _CELLS // count)
        for start in range(0, self.resamples, step):
            yield _drawn(generator, min(step, self.resamples - start), count)


# a report has hundreds of intervals over the same number of examples: drawing takes half their time
@functools.lru_cache(maxsize=1)
def _all_counts(resampling: Resampling, count: int) -> Numbers:
    counts = _drawn(np.random.default_rng(resampling.seed), resampling.resamples, count)
    counts.setflags(write=False)
    return counts


def _drawn(generator: np.random.Generator, lines: int, count: int) -> Numbers:
    picks = generator.integers(count, size=(lines, count))
    picks += np.arange(lines)[:, None] * count
    times = np.bincount(picks.ravel(), minlength=lines * count)
    return times.reshape(lines, count).astype(np.float64)


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and the ends of its percentile interval.

    With fewer than two sentences nothing is known of the spread: the last three are NaN.
    """

    value: float
    stderr: float
    low: float
    high: float

    def exp(self) -> "Estimate":
        """The exponential, of a mean NLL its perplexity.

        Percentile intervals go through a rising function end by end; the standard error is
        that of the delta method.
        """
        value = _exp(self.value)
        return Estimate(value, value * self.stderr, _exp(self.low), _exp(self.high))

    def widened(self, error: float) -> "Estimate":
        """With a further independent standard error, of numbers that are estimates themselves.

        Variances add up; each end moves out as if its distance were that of a normal error.
        """
        if not error:
            return self
        below, above = self.value - self.low, self.high - self.value
        reach = _NORMAL * error
        return Estimate(
            self.value,
            math.hypot(self.stderr, error),
            self.value - math.hypot(below, reach),
            self.value + math.hypot(above, reach),
        )

    def leaves_out_zero(self) -> bool:
        """True if the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


DEFAULT = Resampling()


def means(
    columns: Sequence[Sequence[float]] | Numbers,
    sentences: Sequence[Hashable],
    resampling: Resampling = DEFAULT,
) -> list[Estimate]:
    """The mean of every column over examples, with intervals over the same resampled sentences."""
    values = np.asarray(columns, dtype=np.float64)
    return ratios(values, np.ones(len(sentences)), sentences, resampling)


def ratios(
    columns: Sequence[Sequence[float]] | Numbers,
    weights: Sequence[float] | Numbers,
    sentences: Sequence[Hashable],
    resampling: Resampling = DEFAULT,
) -> list[Estimate]:
    """The sum of every column over the sum of the weights: nats per byte out of nats and bytes.

    Sentences with more examples weigh more, as they do in the mean over examples.
    """
    values, sizes = np.asarray(columns, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if not len(sentences):
        raise UnmaskError("a mean needs at least one example")
    if not (np.isfinite(values).all() and np.isfinite(sizes).all()):
        raise UnmaskError("a mean is of finite numbers: leave out the examples that failed")
    totals, sizes = _by_sentence(values.T, sentences), _by_sentence(sizes, sentences)
    if not sizes.sum() > 0:
        raise UnmaskError("weights add up to 0, but a mean needs a sum above 0: leave them out")
    value = totals.sum(axis=0) / sizes.sum()
    spread = np.full((3, len(value)), np.nan)
    if len(sizes) > 1:
        # of a ratio of sums, linearised; s / sqrt(n) for one example each
        rest, count = totals - sizes[:, None] * value, len(sizes)
        spread[0] = np.sqrt((rest**2).sum(axis=0) * count / (count - 1)) / sizes.sum()
        spread[1:] = _ends(np.concatenate([totals, sizes[:, None]], axis=1), resampling)
    return [Estimate(*map(float, numbers)) for numbers in zip(value, *spread, strict=True)]


def paired_differences(
    columns: Sequence[Sequence[float]] | Numbers,
    others: Sequence[Sequence[float]] | Numbers,
    sentences: Sequence[Hashable],
    resampling: Resampling = DEFAULT,
) -> list[Estimate]:
    """The mean of column less other, example by example, where both are of the same examples.

    What makes an example hard for both cancels, so the interval is that of the difference, and
    mostly far shorter than what two separate intervals suggest.
    """
    gap = np.asarray(columns, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    return means(gap, sentences, resampling)


def _by_sentence(values: Numbers, sentences: Sequence[Hashable]) -> Numbers:
    """The sum of each sentence's examples, sentences sorted."""
    # by a dict, because numpy takes "a" and "a\0" for the same text; sorted, so that resamples
    # do not depend on the order of the examples
    ids: Any = set(sentences)
    places = {name: place for place, name in enumerate(sorted(ids))}
    sums = np.zeros((len(places), *values.shape[1:]))
    np.add.at(sums, [places[name] for name in sentences], values)
    return sums


def _ends(sums: Numbers, resampling: Resampling) -> Numbers:
    """Low and high ends per column but the last, which all others are divided by."""
    drawn: Numbers = np.concatenate([times @ sums for times in resampling.counts(len(sums))])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = drawn[:, :-1] / drawn[:, -1:]
    ends: Numbers = np.percentile(means, PERCENTILES, axis=0)
    return ends


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
