"""What metrics and marginals need of many joints over the same tables, in one read of them.

A joint's weight is a product of powers of both conditionals or a sum of them (`joints.forms`); no
cell needs an exponential, and of a product not even a logarithm of its own.
"""

from dataclasses import dataclass
from typing import no_type_check

import numpy as np

from unmask.tables import kernels
from unmask.tables.kernels import Table, Vector
from unmask.tables.kernels.compiler import compiled, number, wide
from unmask.tables.kernels.functions import log

# columns that are worked on at once: small enough for the buffers of all joints to stay in cache
_CHUNK = 1024


@dataclass(frozen=True, eq=False)
class Weights:
    """Numbers by joint and row, and by joint and column."""

    by_row: Vector
    by_column: Vector


@dataclass(frozen=True, eq=False)
class Measures:
    """Sums over the tables for several joints, one row each: of w, of q log w, and of w log w.

    `cross_b` sums q(b | a) log w over b, `cross_a` sums q(a | b) log w over a.
    """

    over_b: Vector
    over_a: Vector
    cross_b: Vector
    cross_a: Vector
    w_log_w: Vector


def sums_of_sums(tables: tuple[Table, Table], times: Weights, over: Weights | None) -> Measures:
    """The measures of joints w = (q(a | b) u_b + q(b | a) v_a) / (p_a + p_b)."""
    rows, columns = tables[0].shape
    joints = len(times.by_row)
    over_b, cross_b, w_log_w = np.zeros((3, joints, rows))
    over_a, cross_a = np.zeros((2, len(kernels.bands(rows)), joints, columns))
    divided = (None, None) if over is None else (over.by_row, over.by_column)

    def run(band: int, start: int, stop: int) -> None:
        _sums(
            *tables, start, stop, times.by_row, times.by_column, *divided,
            over_b, over_a[band], cross_b, cross_a[band], w_log_w,
        )  # fmt: skip

    kernels.each_band(rows, run)
    return Measures(over_b, over_a.sum(axis=0), cross_b, cross_a.sum(axis=0), w_log_w)


@compiled
@no_type_check
def _sums(
    a_given_b, b_given_a, start, stop, times_a, times_b, divide_a, divide_b,
    over_b, over_a, cross_b, cross_a, w_log_w,
):  # fmt: skip
    columns = a_given_b.shape[1]
    for chunk in range((columns + _CHUNK - 1) // _CHUNK):
        left, right = chunk * _CHUNK, min(columns, chunk * _CHUNK + _CHUNK)
        for a in range(start, stop):
            for k in range(len(times_a)):
                total, cross, entropy = _sum_row(
                    a_given_b[a, left:right], b_given_a[a, left:right],
                    times_a[k, a], times_b[k, left:right],
                    None if divide_a is None else divide_a[k, a],
                    None if divide_b is None else divide_b[k, left:right],
                    over_a[k, left:right], cross_a[k, left:right],
                )  # fmt: skip
                over_b[k, a] += total
                cross_b[k, a] += cross
                w_log_w[k, a] += entropy


@compiled
@no_type_check
def _sum_row(a_given_b, b_given_a, times, times_b, divide, divide_b, over_a, cross_a):
    wide()
    total, cross, entropy = 0.0, 0.0, 0.0
    for b in range(len(a_given_b)):
        forth, back = number(a_given_b[b]), number(b_given_a[b])
        weight = forth * times_b[b] + back * times
        if divide_b is not None:
            weight = weight / (divide + divide_b[b])
        log_weight = log(weight)
        total += weight
        cross += back * log_weight
        entropy += weight * log_weight
        over_a[b] += weight
        cross_a[b] += forth * log_weight
    return total, cross, entropy


@dataclass(frozen=True, eq=False)
class Own:
    """What the tables say of themselves: sums of q(a | b) log q and q(b | a) log q, both tables.

    `a_log_a` and `a_log_b` are by column (a summed out), `b_log_b` and `b_log_a` by row, as are
    `a_total` and `b_total`, the sums of q: not 1 where the cells are of half precision.
    """

    a_log_a: Vector
    a_log_b: Vector
    a_total: Vector
    b_log_b: Vector
    b_log_a: Vector
    b_total: Vector


def own_sums(tables: tuple[Table, Table]) -> Own:
    """Entropies of the conditionals, and how they see each other."""
    rows, columns = tables[0].shape
    by_row = np.zeros((3, rows))
    by_column = np.zeros((len(kernels.bands(rows)), 3, columns))

    def run(band: int, start: int, stop: int) -> None:
        _own(*tables, start, stop, by_column[band], by_row)

    kernels.each_band(rows, run)
    return Own(*by_column.sum(axis=0), *by_row)


@compiled
@no_type_check
def _own(a_given_b, b_given_a, start, stop, by_column, by_row):
    for a in range(start, stop):
        sums = _own_row(a_given_b[a], b_given_a[a], by_column[0], by_column[1], by_column[2])
        by_row[0, a], by_row[1, a], by_row[2, a] = sums


@compiled
@no_type_check
def _own_row(a_given_b, b_given_a, a_log_a, a_log_b, a_total):
    wide()
    mine, others, total = 0.0, 0.0, 0.0
    for b in range(len(a_given_b)):
        forth, back = number(a_given_b[b]), number(b_given_a[b])
        log_forth, log_back = log(forth), log(back)
        a_log_a[b] += forth * log_forth
        a_log_b[b] += forth * log_back
        a_total[b] += forth
        mine += back * log_back
        others += back * log_forth
        total += back
    return mine, others, total


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Sums for products c f_a g_b with c a product of powers of the tables, one row per joint.

    `over_b` is the sum of c g_b, `over_a` that of c f_a; `b_log_g` and `a_log_f` sum the tables
    times the logarithms of the other blank's factors; `w_log_w` sums c g_b log(c g_b), or is None.
    """

    over_b: Vector
    over_a: Vector
    b_log_g: Vector
    a_log_f: Vector
    w_log_w: Vector | None


def sums_of_products(
    tables: tuple[Table, Table], powers: Vector, factors: Weights, logs: Weights, *, entropies: bool
) -> ProductSums:
    """One read for all: `powers` has those of q(a | b) and q(b | a), each 0, a half or 1.

    With `entropies` every cell takes a logarithm, the slowest thing here.
    """
    rows, columns = tables[0].shape
    count, joints = len(kernels.bands(rows)), len(powers)
    over_b, b_log_g = np.zeros((2, joints, rows))
    w_log_w = np.zeros((joints, rows)) if entropies else None
    over_a, a_log_f = np.zeros((2, count, joints, columns))

    def run(band: int, start: int, stop: int) -> None:
        _products(
            *tables, start, stop, powers, factors.by_row, factors.by_column, logs.by_row,
            logs.by_column, np.empty(_CHUNK),
            over_b, over_a[band], b_log_g, a_log_f[band], w_log_w,
        )  # fmt: skip

    kernels.each_band(rows, run)
    return ProductSums(over_b, over_a.sum(axis=0), b_log_g, a_log_f.sum(axis=0), w_log_w)


@compiled
@no_type_check
def _products(
    a_given_b, b_given_a, start, stop, powers, f, g, log_f, log_g, cells,
    over_b, over_a, b_log_g, a_log_f, w_log_w,
):  # fmt: skip
    columns = a_given_b.shape[1]
    for chunk in range((columns + _CHUNK - 1) // _CHUNK):
        left, right = chunk * _CHUNK, min(columns, chunk * _CHUNK + _CHUNK)
        for a in range(start, stop):
            forth, back = a_given_b[a, left:right], b_given_a[a, left:right]
            for k in range(len(powers)):
                _cells(forth, back, powers[k, 0], powers[k, 1], cells)
                total, crossed = _product_row(
                    forth, back, cells, f[k, a], g[k, left:right], log_f[k, a],
                    log_g[k, left:right], over_a[k, left:right], a_log_f[k, left:right],
                )  # fmt: skip
                over_b[k, a] += total
                b_log_g[k, a] += crossed
                if w_log_w is not None:
                    w_log_w[k, a] += _w_log_w(cells, g[k, left:right], log_g[k, left:right])


@compiled
@no_type_check
def _cells(a_given_b, b_given_a, power_a, power_b, cells):
    """q(a | b)^s q(b | a)^t."""
    wide()
    if power_a == 0.0 and power_b == 0.0:
        cells[:] = 1.0
    elif power_a == 0.5 and power_b == 0.5:
        for b in range(len(a_given_b)):
            cells[b] = np.sqrt(number(a_given_b[b]) * number(b_given_a[b]))
    elif power_a == 1.0 and power_b == 1.0:
        for b in range(len(a_given_b)):
            cells[b] = number(a_given_b[b]) * number(b_given_a[b])
    elif power_a == 1.0:
        for b in range(len(a_given_b)):
            cells[b] = number(a_given_b[b])
    else:
        for b in range(len(a_given_b)):
            cells[b] = number(b_given_a[b])


@compiled
@no_type_check
def _product_row(a_given_b, b_given_a, cells, f, g, log_f, log_g, over_a, a_log_f):
    wide()
    total, crossed = 0.0, 0.0
    for b in range(len(a_given_b)):
        total += cells[b] * g[b]
        crossed += number(b_given_a[b]) * log_g[b]
        over_a[b] += cells[b] * f
        a_log_f[b] += number(a_given_b[b]) * log_f
    return total, crossed


@compiled
@no_type_check
def _w_log_w(cells, g, log_g):
    wide()
    total = 0.0
    for b in range(len(g)):
        total += cells[b] * g[b] * (log(cells[b]) + log_g[b])
    return total
