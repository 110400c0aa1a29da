"""Whether chains agree, and how many independent draws theirs are worth.

Rank-normalised split R-hat and bulk effective sample size, from the formulas of Vehtari, Gelman,
Simpson, Carpenter & Bürkner (2021, Bayesian Analysis 16:667-718). Knows series of numbers, a row
per chain, and nothing of tokens. No result is ever NaN:

- a series that never varies, in any chain, has R-hat 1 and counts every draw as independent;
- chains that never vary but differ have an infinite R-hat;
- chains of fewer than four draws say nothing: R-hat is infinite, the effective sample size 1.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Series = NDArray[np.float64]

# what a half of a chain needs for a variance
_FEWEST_DRAWS = 4


@dataclass(frozen=True)
class Mixing:
    """How well the chains agree on one number that is computed from their states."""

    of: str
    r_hat: float
    ess: float

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON: infinity, which JSON cannot express, is None."""
        return {"of": self.of, "r_hat": finite_or_none(self.r_hat), "ess": self.ess}


def mixing(of: str, series: Series) -> Mixing:
    """Both numbers for one series, laid out [chain, draw]."""
    return Mixing(of, r_hat(series), bulk_ess(series))


def finite_or_none(value: float) -> float | None:
    """The value, or None where JSON could not hold it."""
    return value if np.isfinite(value) else None


def r_hat(series: Series) -> float:
    """The larger rank-normalised split R-hat of a series and of its distance from its median.

    The first sees chains that are in different places, the second chains of different widths.
    """
    if series.shape[1] < _FEWEST_DRAWS:
        return float("inf")
    folded = np.abs(series - np.median(series))
    return max(_plain_r_hat(rank_normalised(halves(part))) for part in (series, folded))


def bulk_ess(series: Series) -> float:
    """The number of independent draws whose mean would be as accurate, after rank normalisation.

    At most S log10 S for S draws, as the paper bounds it.
    """
    if series.shape[1] < _FEWEST_DRAWS:
        return 1.0
    parts = rank_normalised(halves(series))
    draws = parts.size
    if not np.ptp(parts):
        return float(draws)
    return draws / max(_correlation_time(parts), 1 / max(1.0, math.log10(draws)))


def halves(series: Series) -> Series:
    """Each chain cut in two, so that one that drifts disagrees with itself.

    Of an odd number of draws the middle one is left out.
    """
    half = series.shape[1] // 2
    return np.concatenate([series[:, :half], series[:, -half:]])


def rank_normalised(series: Series) -> Series:
    """Normal quantiles of the ranks over all chains, ties sharing their mean rank."""
    _, which, counts = np.unique(series, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    ranks = mean_ranks[which.reshape(series.shape)]
    # the offsets are Blom's (1958)
    return np.asarray(ndtri((ranks - 3 / 8) / (series.size + 1 / 4)), dtype=np.float64)


def _plain_r_hat(parts: Series) -> float:
    within, total = _variances(parts)
    if within > 0:
        return float(np.sqrt(total / within))
    return 1.0 if total == 0 else float("inf")


def _variances(parts: Series) -> tuple[float, float]:
    """The mean variance within a chain, W, and the estimate of the whole variance, var+."""
    length = parts.shape[1]
    # exact zeros where nothing varies: a mean of equal numbers may be off by rounding
    centred = parts - parts[:, :1]
    within = float(centred.var(axis=1, ddof=1).mean())
    means = centred.mean(axis=1) + parts[:, 0]
    between = float(means.var(ddof=1)) if np.ptp(means) else 0.0
    return within, within * (length - 1) / length + between


def _correlation_time(parts: Series) -> float:
    """tau = -1 + 2 sum P_t over Geyer's (1992) initial monotone sequence.

    P_t is the sum of the autocorrelations at lags 2t and 2t + 1: positive and falling for a
    reversible chain, so that the sum stops before it is all noise.
    """
    correlations = _autocorrelations(parts)
    pairs = correlations[: len(correlations) // 2 * 2].reshape(-1, 2).sum(axis=1)
    gone = np.flatnonzero(pairs <= 0)
    kept = pairs[: gone[0]] if len(gone) else pairs
    return float(-1 + 2 * np.minimum.accumulate(kept).sum())


def _autocorrelations(parts: Series) -> Series:
    """Over all chains: 1 - (W - mean of s_m^2 rho_m) / var+, at every lag."""
    within, total = _variances(parts)
    length = parts.shape[1]
    covariances = _autocovariances(parts) * length / (length - 1)
    correlations = 1 - (within - covariances.mean(axis=0)) / total
    # by definition; a constant part would otherwise leave rounding here
    correlations[0] = 1.0
    return np.asarray(correlations, dtype=np.float64)


def _autocovariances(parts: Series) -> Series:
    """Each chain's, about its own mean, divided by its length at every lag; by Fourier."""
    length = parts.shape[1]
    centred = parts - parts[:, :1]
    centred = centred - centred.mean(axis=1, keepdims=True)
    # padded with zeros, so that the end does not meet the beginning
    spectrum = np.fft.rfft(centred, n=2 * length)
    power = np.fft.irfft(np.abs(spectrum) ** 2, n=2 * length)
    return np.asarray(power[:, :length] / length, dtype=np.float64)
