"""One read of both tables a pass, compiled: the sums of the plain passes, several times faster.

Needs numba (the extra `fast`); without it, or off the CPU, callers fall back on torch. Work is cut
into a fixed number of bands, so that results do not depend on the number of threads.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, no_type_check

import numpy as np
import torch
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Table = NDArray[np.float32]

# compiling takes a second or two: below this many cells a plain pass is done sooner
FEWEST_CELLS = 2**20
_BANDS = 16


@cache
def available() -> bool:
    """Whether numba is installed."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def bands(rows: int) -> list[tuple[int, int]]:
    """The row ranges that are summed apart, then together."""
    edges = np.linspace(0, rows, min(_BANDS, rows) + 1).astype(int).tolist()
    return list(pairwise(edges))


def each_band(rows: int, run: Callable[[int, int, int], None]) -> None:
    """Run every band, on as many threads as torch uses; numba lets go of the interpreter."""
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        list(pool.map(lambda band: run(*band), [(i, *ends) for i, ends in enumerate(bands(rows))]))


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    import numba

    # sums may be reassociated to vectorise; nothing is assumed about NaN or infinity
    made: Any = numba.njit(nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
    compiled: Callable[..., None] = made(function)
    return compiled


@cache
def contest_kernel() -> Callable[..., None]:
    """Gradient, degrees and strongest edges of a Bradley-Terry contest over a band of rows."""

    @no_type_check
    def kernel(
        a_given_b, b_given_a, start, stop, r_a, r_b, weight_a, weight_b, pseudo_a, pseudo_b,
        gradient_a, degree_a, best_a, edge_a, gradient_b, degree_b, best_b, edge_b, row,
    ):  # fmt: skip
        columns = a_given_b.shape[1]
        for a in range(start, stop):
            mine, weight, pseudo = r_a[a], weight_a[a], pseudo_a[a]
            gradient, degree = 0.0, 0.0
            for b in range(columns):
                inverse = 1.0 / (mine + r_b[b])
                share_a, share_b = mine * inverse, r_b[b] * inverse
                a_wins = a_given_b[a, b] * weight_b[b] + pseudo
                b_wins = b_given_a[a, b] * weight + pseudo_b[b]
                surplus = b_wins * share_a - a_wins * share_b
                edge = (a_wins + b_wins) * share_a * share_b
                row[b] = edge
                gradient += surplus
                degree += edge
                gradient_b[b] -= surplus
                degree_b[b] += edge
            gradient_a[a], degree_a[a] = gradient, degree
            highest, where = -1.0, 0
            for b in range(columns):
                if row[b] > highest:
                    highest, where = row[b], b
            best_a[a], edge_a[a] = highest, where
            for b in range(columns):
                if row[b] > best_b[b]:
                    best_b[b], edge_b[b] = row[b], a

    return _compiled(kernel)


@cache
def step_kernel() -> Callable[..., None]:
    """The sums of an Arnold-Gokhale step over a band of rows."""

    @no_type_check
    def kernel(a_given_b, b_given_a, start, stop, r_a, r_b, row_sums, column_sums):
        for a in range(start, stop):
            mine, total = r_a[a], 0.0
            for b in range(a_given_b.shape[1]):
                both = np.float64(a_given_b[a, b]) + np.float64(b_given_a[a, b])
                share = both / (mine + r_b[b])
                total += share * r_b[b]
                column_sums[b] += share * mine
            row_sums[a] = total

    return _compiled(kernel)


@cache
def flow_kernel() -> Callable[..., None]:
    """What enters each token, and that less what leaves, when masses move, over a band of rows."""

    @no_type_check
    def kernel(
        a_given_b, b_given_a, start, stop, mass_a, mass_b, into_a, net_a, into_b, net_b
    ):  # fmt: skip
        for a in range(start, stop):
            mine, total, surplus = mass_a[a], 0.0, 0.0
            for b in range(a_given_b.shape[1]):
                forth, back = a_given_b[a, b] * mass_b[b], b_given_a[a, b] * mine
                net = forth - back
                total += forth
                surplus += net
                into_b[b] += back
                net_b[b] -= net
            into_a[a], net_a[a] = total, surplus

    return _compiled(kernel)
