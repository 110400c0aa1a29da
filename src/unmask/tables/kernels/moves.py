"""Sums that are linear in the tables or nearly so: mass that moves, and Arnold-Gokhale's step."""

from collections.abc import Callable
from typing import no_type_check

import numpy as np

from unmask.tables import kernels
from unmask.tables.kernels import Table, Vector
from unmask.tables.kernels.compiler import (
    CHUNK,
    by_fours,
    compiled,
    four_entries,
    four_inverses,
    four_rows,
    number,
    wide,
)


def net_inflow(
    tables: tuple[Table, Table], mass_a: Vector, mass_b: Vector
) -> tuple[Vector, Vector]:
    """What enters each token minus what leaves it when masses move.

    Summed pair by pair, so that what one token loses is what another gains.
    """
    return _swept(_move_band, tables, mass_a, mass_b)


def step_sums(tables: tuple[Table, Table], r_a: Vector, r_b: Vector) -> tuple[Vector, Vector]:
    """The sums of N r_b / (r_a + r_b) over b and of N r_a / (r_a + r_b) over a, N = both tables."""
    return _swept(_step_band, tables, r_a, r_b)


def _swept(
    sweep: Callable[..., None], tables: tuple[Table, Table], of_a: Vector, of_b: Vector
) -> tuple[Vector, Vector]:
    rows, columns = tables[0].shape
    by_row, by_column = np.zeros(rows), np.zeros((len(kernels.bands(rows)), columns))
    nothing = np.zeros(CHUNK, tables[0].dtype)

    def run(band: int, start: int, stop: int) -> None:
        sweep(*tables, start, stop, of_a, of_b, nothing, by_row, by_column[band])

    kernels.each_band(rows, run)
    return by_row, by_column.sum(axis=0)


@compiled
@no_type_check
def _move(a_given_b, b_given_a, a, stop, left, right, mass_a, mass_b, nothing, net_a, net_b):
    wide()
    mass_b, net_b = mass_b[left:right], net_b[left:right]
    a0, a1, a2, a3 = four_rows(a_given_b, a, stop, left, right, nothing)
    b0, b1, b2, b3 = four_rows(b_given_a, a, stop, left, right, nothing)
    m0, m1, m2, m3 = four_entries(mass_a, a, stop, 0.0)
    s0 = s1 = s2 = s3 = 0.0
    for b in range(len(a0)):
        mass = mass_b[b]
        t0 = number(a0[b]) * mass - number(b0[b]) * m0
        t1 = number(a1[b]) * mass - number(b1[b]) * m1
        t2 = number(a2[b]) * mass - number(b2[b]) * m2
        t3 = number(a3[b]) * mass - number(b3[b]) * m3
        s0, s1, s2, s3 = s0 + t0, s1 + t1, s2 + t2, s3 + t3
        net_b[b] -= (t0 + t1) + (t2 + t3)
    sums = (s0, s1, s2, s3)
    for i in range(min(4, stop - a)):
        net_a[a + i] += sums[i]


@compiled
@no_type_check
def _step(a_given_b, b_given_a, a, stop, left, right, r_a, r_b, nothing, over_b, over_a):
    wide()
    r_b, over_a = r_b[left:right], over_a[left:right]
    a0, a1, a2, a3 = four_rows(a_given_b, a, stop, left, right, nothing)
    b0, b1, b2, b3 = four_rows(b_given_a, a, stop, left, right, nothing)
    x0, x1, x2, x3 = four_entries(r_a, a, stop, 1.0)
    s0 = s1 = s2 = s3 = 0.0
    for b in range(len(a0)):
        y = r_b[b]
        i0, i1, i2, i3 = four_inverses(x0 + y, x1 + y, x2 + y, x3 + y)
        t0 = (number(a0[b]) + number(b0[b])) * i0
        t1 = (number(a1[b]) + number(b1[b])) * i1
        t2 = (number(a2[b]) + number(b2[b])) * i2
        t3 = (number(a3[b]) + number(b3[b])) * i3
        s0, s1, s2, s3 = s0 + t0 * y, s1 + t1 * y, s2 + t2 * y, s3 + t3 * y
        over_a[b] += (t0 * x0 + t1 * x1) + (t2 * x2 + t3 * x3)
    sums = (s0, s1, s2, s3)
    for i in range(min(4, stop - a)):
        over_b[a + i] += sums[i]


_move_band, _step_band = by_fours(_move), by_fours(_step)
