"""Normalisers of conditional tables and their probabilities, straight from float32 logits."""

from typing import no_type_check

import numpy as np
from numpy.typing import NDArray

from unmask.tables import kernels
from unmask.tables.kernels.compiler import bits, compiled, from_bits, wide
from unmask.tables.kernels.functions import exp

Vector = NDArray[np.float64]
Table = NDArray[np.float32]

# below this a term of a sum whose largest is one counts for nothing
_LOWEST = -700.0
_LANES = 256


def log_sum_exp(logits: Table, *, over_rows: bool) -> Vector | None:
    """The log-sum-exp of every column (`over_rows`) or row; None if a logit is not finite."""
    rows, columns = logits.shape
    count = len(kernels.bands(rows))
    checks = np.zeros(count)
    by_row = np.zeros(0 if over_rows else rows)
    highest, sums = np.empty((count, columns), np.float32), np.zeros((count, columns))

    def run(band: int, start: int, stop: int) -> None:
        if over_rows:
            checks[band] = _by_column(logits, start, stop, highest[band], sums[band])
        else:
            checks[band] = _by_row(logits, start, stop, by_row)

    kernels.each_band(rows, run)
    if not np.isfinite(checks).all():
        return None
    if not over_rows:
        return by_row
    totals: Vector = np.logaddexp.reduce(highest + np.log(sums), axis=0)
    return totals


def probabilities(logits: Table, log_normalizer: Vector, out: Table, *, by_row: bool) -> float:
    """Write exp(logits - log_normalizer), given by row or by column; returns the lowest logarithm.

    Below float32's range nothing useful is written: the caller looks at what is returned.
    """
    rows = len(logits)
    lowest = np.zeros(len(kernels.bands(rows)))
    of_rows = log_normalizer if by_row else np.zeros(rows)
    of_columns = np.zeros(logits.shape[1]) if by_row else log_normalizer

    def run(band: int, start: int, stop: int) -> None:
        lowest[band] = _exponentials(logits, start, stop, of_rows, of_columns, out)

    kernels.each_band(rows, run)
    return float(lowest.min())


@compiled
@no_type_check
def _by_row(logits, start, stop, sums):
    check, lanes = 0.0, np.empty(_LANES, np.float32)
    for a in range(start, stop):
        highest, bad = _highest(logits[a], lanes)
        check += bad
        sums[a] = highest + np.log(_row_sum(logits[a], highest))
    return check


@compiled
@no_type_check
def _highest(row, lanes):
    """The largest logit, and zero if all are finite.

    Side by side, then across: compilers do not reorder a maximum of floats by themselves.
    """
    lanes[:] = row[0]
    whole = len(row) // _LANES
    bad = 0.0
    for k in range(whole):
        bad += _raise(row[k * _LANES : k * _LANES + _LANES], lanes)
    rest = row[whole * _LANES :]
    bad += _raise(rest, lanes[: len(rest)])
    return np.float64(lanes.max()), bad


@compiled
@no_type_check
def _row_sum(row, highest):
    wide()
    total = 0.0
    for b in range(len(row)):
        total += exp(max(np.float64(row[b]) - highest, _LOWEST))
    return total


@compiled
@no_type_check
def _by_column(logits, start, stop, highest, sums):
    highest[:] = logits[start]
    check = 0.0
    for a in range(start, stop):
        check += _raise(logits[a], highest)
    for a in range(start, stop):
        _add(logits[a], highest, sums)
    return check


@compiled
@no_type_check
def _raise(row, highest):
    wide()
    bad = np.float32(0.0)
    for b in range(len(row)):
        bad += row[b] * np.float32(0.0)
        highest[b] = row[b] if row[b] > highest[b] else highest[b]
    return np.float64(bad)


@compiled
@no_type_check
def _add(row, highest, sums):
    wide()
    for b in range(len(row)):
        sums[b] += exp(max(np.float64(row[b]) - np.float64(highest[b]), _LOWEST))


@compiled
@no_type_check
def _exponentials(logits, start, stop, of_rows, of_columns, out):
    lowest = 0.0
    for a in range(start, stop):
        lowest = min(lowest, _exponential_row(logits[a], of_rows[a], of_columns, out[a]))
    return lowest


@compiled
@no_type_check
def _exponential_row(logits, of_row, of_columns, out):
    wide()
    # the largest of positive numbers is also that of their bits, which can be searched in any order
    lowest = np.int64(0)
    for b in range(len(logits)):
        log_p = (np.float64(logits[b]) - of_row) - of_columns[b]
        lowest = max(lowest, bits(-log_p))
        out[b] = exp(max(log_p, _LOWEST))
    return -from_bits(lowest)
