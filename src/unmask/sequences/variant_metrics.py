"""How well scores of variants agree with a measurement: ranks, the top, and pairwise epistasis.

A variant is the set of mutations that its name joins by colons, as A24G:K31R. Knows no model.

Intervals are of the percentile bootstrap: variants are resampled, and for epistasis pairs of
mutations. All methods see the same resamples, so differences between methods are paired.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UnmaskError
from unmask.printable import columns, printable, quoted
from unmask.resampling import PERCENTILES
from unmask.resampling import Resampling as Resampling
from unmask.sequences.variant_epistasis import Variant, pairwise_epistasis, variant_of

Numbers = NDArray[np.float64]

SPEARMAN, RECALL = "spearman", "top 10% recall"
EPISTASIS_PEARSON, EPISTASIS_SPEARMAN = "epistasis pearson", "epistasis spearman"
EVERY = "all"
_TOP = 0.1
_FEWEST = 3
# as many mutations or more are one group
_MANY = 5
_DEFAULT = Resampling(resamples=1000)


class MetricRow(NamedTuple):
    """One metric of one method, with the ends of its 95% interval, or the `reason` it is undefined.

    `mutations` is the number of mutations of the variants, or all; `n` how many variants, or pairs
    of mutations, it is over. `difference` is to the baseline, None for that itself.
    """

    mutations: str
    metric: str
    method: str
    n: int
    value: float | None
    low: float | None
    high: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    reason: str | None


def evaluate_variants(
    mutants: Sequence[str],
    measured: Sequence[float | None],
    scores: Mapping[str, Sequence[float | None]],
    *,
    windows: Sequence[object] | None = None,
    baseline: str | None = None,
    resampling: Resampling = _DEFAULT,
) -> list[MetricRow]:
    """Every metric of every method, over all variants and by their number of mutations.

    Only variants that were measured and that every method scored count; a method that scored none
    is left out, and so are rows without a mutant. `windows` are those that the model read, None
    where it read the whole sequence: epistasis is of variants with the same window. Differences are
    to the `baseline`, the first method unless named.
    """
    table = Table.of(mutants, measured, scores, windows)
    if baseline is not None and baseline not in table.scores:
        raise UnmaskError(
            f"no scores by {quoted(baseline)} to compare with; there are {', '.join(table.scores)}"
        )
    first = baseline or next(iter(table.scores))
    rows = []
    for name, chosen in _groups(table):
        of = table.of_rows(chosen)
        for metric, statistic in ((SPEARMAN, spearman), (RECALL, top_recall)):
            rows += _compared(name, metric, statistic, of.measured, of.scores, first, resampling)
    pairs = pairwise_epistasis(table.variants, table.measured, table.scores, windows=table.windows)
    is_cut = any(one is not None for one in table.windows)
    what = "pairs within one window" if is_cut else "pairs"
    for metric, statistic in ((EPISTASIS_PEARSON, pearson), (EPISTASIS_SPEARMAN, spearman)):
        rows += _compared(
            EVERY, metric, statistic, pairs.measured, pairs.scores, first, resampling, what=what
        )
    return rows


def evaluation_table(rows: Sequence[MetricRow]) -> str:
    """The rows as text; a line per group, metric and method."""
    head = ["mutations", "metric", "method", "n", "value", "95% interval", "difference", ""]
    return columns([head, *map(_cells, rows)])


def _cells(row: MetricRow) -> list[str]:
    value = f"{row.value:+.3f}" if row.value is not None else f"- ({printable(row.reason or '')})"
    gap = "" if row.difference is None else f"{row.difference:+.3f}"
    return [
        *(row.mutations, row.metric, printable(row.method), f"{row.n:,}", value),
        *(_interval(row.low, row.high), gap, _interval(row.difference_low, row.difference_high)),
    ]


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:+.3f}, {high:+.3f}]"


# --- what is compared --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """Variants with their measurement and scores, in an order that is always the same."""

    variants: list[Variant]
    measured: Numbers
    scores: dict[str, Numbers]
    windows: list[object]

    @classmethod
    def of(
        cls,
        mutants: Sequence[str],
        measured: Sequence[float | None],
        scores: Mapping[str, Sequence[float | None]],
        windows: Sequence[object] | None = None,
    ) -> "Table":
        """The variants that have every number; raises if there are none, or columns differ."""
        numbers = {"the measurement": _numbers(measured)}
        numbers |= {name: _numbers(values) for name, values in scores.items()}
        wild = np.array([not variant_of(one) for one in mutants], dtype=bool)
        for name, values in numbers.items():
            if len(values) != len(mutants):
                raise UnmaskError(
                    f"{len(mutants)} variants, but {quoted(name)} has {len(values)} numbers"
                )
            if name in scores and len(wild):
                # what is scored is the difference to the wild type
                values[wild & np.isnan(values)] = 0.0
        read = [None] * len(mutants) if windows is None else windows
        if len(read) != len(mutants):
            raise UnmaskError(f"{len(mutants)} variants, but {len(read)} windows")
        scored = {n: v for n, v in numbers.items() if np.isfinite(v[~wild]).any()}
        if "the measurement" not in scored or len(scored) == 1:
            raise UnmaskError("an evaluation needs measured variants, and scores of them")
        kept = np.isfinite(np.stack(list(scored.values()))).all(axis=0)
        kept &= np.array([bool(one.strip()) for one in mutants], dtype=bool)
        if not kept.any():
            raise UnmaskError("no variant was measured and scored by every method")

        # resamples must not depend on the order of the rows
        def key(at: int) -> tuple[str, list[float]]:
            return mutants[at], [float(values[at]) for values in scored.values()]

        order = sorted(np.nonzero(kept)[0].tolist(), key=key)
        at = np.array(order)
        truth = scored.pop("the measurement")[at]
        by_name = {name: values[at] for name, values in scored.items()}
        variants = [variant_of(mutants[place]) for place in order]
        return cls(variants, truth, by_name, [read[place] for place in order])

    def of_rows(self, chosen: NDArray[np.bool_]) -> "Table":
        """Some of them."""
        variants = [one for one, taken in zip(self.variants, chosen, strict=True) if taken]
        scores = {name: values[chosen] for name, values in self.scores.items()}
        windows = [one for one, taken in zip(self.windows, chosen, strict=True) if taken]
        return Table(variants, self.measured[chosen], scores, windows)


def _numbers(values: Sequence[float | None]) -> Numbers:
    return np.array([np.nan if one is None else one for one in values], dtype=np.float64)


def _groups(table: Table) -> list[tuple[str, NDArray[np.bool_]]]:
    """All variants, then those with one, two, three, four, and more mutations."""
    sizes = np.minimum([len(one) for one in table.variants], _MANY)
    groups = [(EVERY, np.ones(len(sizes), dtype=np.bool_))]
    for size in sorted({int(one) for one in sizes if one}):
        groups.append((f"{size}{' or more' * (size == _MANY)}", sizes == size))
    return groups


# --- statistics --------------------------------------------------------------------------------

# of measured values and scores, and how often each counts, a line per resample; NaN if undefined
Statistic = Callable[[Numbers, Numbers, Numbers], Numbers]


def pearson(measured: Numbers, scores: Numbers, times: Numbers) -> Numbers:
    """The correlation of two columns, each row as often as its resample says."""
    return _correlation(measured[None], scores[None], times)


def spearman(measured: Numbers, scores: Numbers, times: Numbers) -> Numbers:
    """The correlation of ranks; equal values share the mean of their ranks."""
    return _correlation(_ranks(measured, times), _ranks(scores, times), times)


def top_recall(measured: Numbers, scores: Numbers, times: Numbers) -> Numbers:
    """Of the variants in the top tenth of the measurement, the share in the top tenth of scores.

    A column's top tenth is what is not below its 90th percentile, interpolated linearly: with ties
    there it holds more than a tenth.
    """
    best, likeliest = (_top(column, times) for column in (measured, scores))
    recalls: Numbers = (times * (best & likeliest)).sum(axis=1) / (times * best).sum(axis=1)
    recalls[_is_constant(measured, times) | _is_constant(scores, times)] = np.nan
    return recalls


def _top(values: Numbers, times: Numbers) -> NDArray[np.bool_]:
    """Which values are not below the 90th percentile of each resample."""
    order = np.argsort(values, kind="stable")
    upto = times[:, order].cumsum(axis=1)
    # between which two of the sorted values it lies, and where
    place = (1 - _TOP) * (upto[:, -1:] - 1)
    low, high = (
        values[order][(upto > end).argmax(axis=1)] for end in (np.floor(place), np.ceil(place))
    )
    least = low + (place[:, 0] - np.floor(place[:, 0])) * (high - low)
    return np.asarray(values >= least[:, None], dtype=np.bool_)


def _is_constant(values: Numbers, times: Numbers) -> NDArray[np.bool_]:
    held = np.where(times > 0, values, np.nan)
    return np.asarray(np.nanmin(held, axis=1) == np.nanmax(held, axis=1), dtype=np.bool_)


def _correlation(one: Numbers, other: Numbers, times: Numbers) -> Numbers:
    total = times.sum(axis=1, keepdims=True)
    rest = [column - (times * column).sum(axis=1, keepdims=True) / total for column in (one, other)]
    across = (times * rest[0] * rest[1]).sum(axis=1)
    spread = [(times * column**2).sum(axis=1) for column in rest]
    # of equal values the rest is rounding
    least = [1e-24 * (times * column**2).sum(axis=1) for column in (one, other)]
    undefined = (spread[0] <= least[0]) | (spread[1] <= least[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations: Numbers = across / np.sqrt(spread[0] * spread[1])
    correlations[undefined] = np.nan
    return np.clip(correlations, -1.0, 1.0)


def _ranks(values: Numbers, times: Numbers) -> Numbers:
    """The mean rank of every value in each resample, from how often the values below it came."""
    _, places = np.unique(values, return_inverse=True)
    places = places.reshape(-1)
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(places.max() + 1))
    counts = np.add.reduceat(times[:, order], starts, axis=1)
    ranks: Numbers = counts.cumsum(axis=1) - counts / 2 + 0.5
    return ranks[:, places]


# --- intervals ---------------------------------------------------------------------------------

# a value and the ends of its interval
Ends = tuple[float | None, float | None, float | None]
_UNKNOWN: Ends = (None, None, None)


def _compared(
    mutations: str,
    metric: str,
    statistic: Statistic,
    measured: Numbers,
    scores: Mapping[str, Numbers],
    baseline: str,
    resampling: Resampling,
    *,
    what: str = "variants",
) -> list[MetricRow]:
    """A row per method, with intervals over the same resamples."""
    n = len(measured)
    reasons = {name: _undefined(measured, values, what) for name, values in scores.items()}
    drawn = {name: _drawn(statistic, measured, scores[name], resampling) for name in scores if n}
    rows = []
    for name, reason in reasons.items():
        value = gap = _UNKNOWN
        if reason is None:
            value = _with_ends(drawn[name])
            if name != baseline and reasons[baseline] is None:
                gap = _with_ends(drawn[name] - drawn[baseline])
        rows.append(MetricRow(mutations, metric, name, n, *value, *gap, reason))
    return rows


def _undefined(measured: Numbers, scores: Numbers, what: str) -> str | None:
    if len(measured) < _FEWEST:
        return f"fewer than {_FEWEST} {what}"
    for column, name in ((measured, "measured values"), (scores, "scores")):
        if np.ptp(column) <= 1e-12 * np.abs(column).max():
            return f"all {name} are equal"
    return None


def _drawn(
    statistic: Statistic, measured: Numbers, scores: Numbers, resampling: Resampling
) -> Numbers:
    """The statistic itself, then that of every resample; the same rows whatever the method."""
    n = len(measured)
    every = chain([np.ones((1, n))], resampling.counts(n))
    return np.concatenate([statistic(measured, scores, times) for times in every])


def _with_ends(drawn: Numbers) -> Ends:
    """The value and its interval; none where most resamples leave it undefined."""
    finite = drawn[1:][np.isfinite(drawn[1:])]
    if len(finite) <= len(drawn[1:]) / 2:
        return float(drawn[0]), None, None
    low, high = np.percentile(finite, PERCENTILES)
    return float(drawn[0]), float(low), float(high)
