"""Where pseudo-Gibbs sampling settles between wild type and mutant, for many blocks at once.

The chain picks a mutation at random and draws it anew given all others: 2^k states. States are
eliminated one after the other without a subtraction (Grassmann, Taksar & Heyman 1985), so that
every probability is right to rounding, however unlikely.
"""

import numpy as np
from numpy.typing import NDArray

from unmask.sequences.variants.cubes import sets_without

Vector = NDArray[np.float64]
# of matrices that exist at once, in float64
_CELLS = 2**22
# states whose elimination reaches the others in one product of matrices
_PANEL = 32


def stationary_laws(log_odds: Vector) -> Vector:
    """log-probabilities of all sets of mutations, a line per block of equal size.

    `log_odds[block, t, set]` are those of the t-th mutation given a set of the others.
    """
    blocks, k, sets = log_odds.shape
    size = max(1, _CELLS // sets**2)
    parts = [_laws(log_odds[start : start + size]) for start in range(0, blocks, size)]
    assert sets == 2**k
    return np.concatenate(parts)


def _laws(log_odds: Vector) -> Vector:
    """Rates between sets that differ by one mutation, eliminated from the last set to the first."""
    blocks, k, sets = log_odds.shape
    rates = np.zeros((blocks, sets, sets))
    for t in range(k):
        lacks = sets_without(t, k)
        holds = lacks | 1 << t
        odds = log_odds[:, t, lacks]
        rates[:, lacks, holds] = np.exp(-np.logaddexp(0.0, -odds))
        rates[:, holds, lacks] = np.exp(-np.logaddexp(0.0, odds))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for stop in range(sets, 0, -_PANEL):
            _eliminate(rates, max(0, stop - _PANEL), stop)
        mass = np.ones((blocks, sets))
        for last in range(1, sets):
            mass[:, last] = (mass[:, :last] * rates[:, :last, last]).sum(axis=1)
        laws: Vector = np.log(mass) - np.log(mass.sum(axis=1, keepdims=True))
    return laws


def _eliminate(rates: Vector, start: int, stop: int) -> None:
    """Leave out the states from `start` to `stop`, the last first: others pass through them."""
    for last in range(stop - 1, max(start, 1) - 1, -1):
        out = rates[:, last, :last].sum(axis=1)
        rates[:, :last, last] /= out[:, None]
        into, from_last = rates[:, :last, last, None], rates[:, last, None, :last]
        rates[:, :last, start:last] += into * from_last[:, :, start:]
        rates[:, start:last, :start] += into[:, start:] * from_last[:, :, :start]
    rates[:, :start, :start] += rates[:, :start, start:stop] @ rates[:, start:stop, :start]
