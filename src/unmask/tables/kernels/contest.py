"""A Bradley-Terry contest: gradient, degrees and strongest edges in one read of the tables."""

from typing import no_type_check

import numpy as np

from unmask.tables import kernels
from unmask.tables.kernels import Index, Table, Vector
from unmask.tables.kernels.compiler import (
    CHUNK,
    bits,
    by_fours,
    compiled,
    four_entries,
    four_inverses,
    four_rows,
    from_bits,
    key_bits,
    largest,
    number,
    wide,
)


def contest_sums(
    tables: tuple[Table, Table],
    point: tuple[Vector, Vector],
    weights: tuple[Vector, Vector],
    pseudo: tuple[Vector, Vector],
) -> tuple[Vector, Vector, Vector, Vector, Index, Vector, Index, Vector]:
    """Gradient, degree and strongest edge with its weight, of a and of b.

    At x = `point[0]`, y = `point[1]`, which must be `kernels.in_range`.
    """
    rows, columns = tables[0].shape
    # only differences of coordinates matter: the largest becomes 1
    highest = max(point[0].max(), point[1].max())
    r_a, r_b = (np.exp(part - highest) for part in point)
    count = len(kernels.bands(rows))
    gradient_a, degree_a, key_a = np.zeros((3, rows))
    gradient_b, degree_b, key_b = np.zeros((3, count, columns))
    wins_a, wins_b = weights[0] * r_a, weights[1] * r_b
    added = pseudo if any(part.any() for part in pseudo) else (np.zeros(rows), None)
    low = key_bits(max(rows, columns))
    nothing = np.zeros(CHUNK, tables[0].dtype)

    def run(band: int, start: int, stop: int) -> None:
        _sweep_band(
            *tables, start, stop, r_a, r_b, wins_a, wins_b, *added, low, nothing,
            gradient_a, degree_a, key_a, gradient_b[band], degree_b[band], key_b[band],
        )  # fmt: skip

    kernels.each_band(rows, run)
    keys_a, keys_b = key_a.view(np.int64), key_b.max(axis=0).view(np.int64)
    return (
        gradient_a, gradient_b.sum(axis=0), degree_a, degree_b.sum(axis=0),
        keys_a & low, (keys_a & ~low).view(np.float64),
        keys_b & low, (keys_b & ~low).view(np.float64),
    )  # fmt: skip


@compiled
@no_type_check
def keyed(weight, place, low):
    """A positive weight with a place in its low bits: the largest weight then gives its place."""
    return from_bits((bits(weight) & ~low) | place)


@compiled
@no_type_check
def _four_rows(
    a_given_b, b_given_a, a, stop, left, right, r_a, r_b, wins_a, wins_b, pseudo_a, pseudo_b, low,
    nothing, gradient_a, degree_a, key_a, gradient_b, degree_b, key_b,
):  # fmt: skip
    """Four rows against a chunk of columns; `wins` are weights times r.

    With s = r_a + r_b, P = q(a | b) w_b r_b and Q = q(b | a) w_a r_a, what b gains on a is
    (Q - P) / s and the weight of their edge (P r_a + Q r_b) / s^2.
    """
    wide()
    r_b, wins_b = r_b[left:right], wins_b[left:right]
    pseudo_b = None if pseudo_b is None else pseudo_b[left:right]
    gradient_b, degree_b, key_b = gradient_b[left:right], degree_b[left:right], key_b[left:right]
    a0, a1, a2, a3 = four_rows(a_given_b, a, stop, left, right, nothing)
    b0, b1, b2, b3 = four_rows(b_given_a, a, stop, left, right, nothing)
    x0, x1, x2, x3 = four_entries(r_a, a, stop, 1.0)
    u0, u1, u2, u3 = four_entries(wins_a, a, stop, 0.0)
    p0, p1, p2, p3 = four_entries(pseudo_a, a, stop, 0.0)
    # pseudo-wins of rows beyond the band must count for nothing too
    z1 = 1.0 if a + 1 < stop else 0.0
    z2 = 1.0 if a + 2 < stop else 0.0
    z3 = 1.0 if a + 3 < stop else 0.0
    g0 = g1 = g2 = g3 = 0.0
    d0 = d1 = d2 = d3 = 0.0
    k0 = k1 = k2 = k3 = 0.0
    for b in range(len(a0)):
        y, wy = r_b[b], wins_b[b]
        i0, i1, i2, i3 = four_inverses(x0 + y, x1 + y, x2 + y, x3 + y)
        w0, w1 = number(a0[b]) * wy, number(a1[b]) * wy
        w2, w3 = number(a2[b]) * wy, number(a3[b]) * wy
        v0, v1 = number(b0[b]) * u0, number(b1[b]) * u1
        v2, v3 = number(b2[b]) * u2, number(b3[b]) * u3
        if pseudo_b is not None:
            w0, w1, w2, w3 = w0 + p0 * y, w1 + p1 * y, w2 + p2 * y, w3 + p3 * y
            extra = pseudo_b[b]
            v0, v1 = v0 + extra * x0, v1 + extra * z1 * x1
            v2, v3 = v2 + extra * z2 * x2, v3 + extra * z3 * x3
        t0, t1, t2, t3 = (v0 - w0) * i0, (v1 - w1) * i1, (v2 - w2) * i2, (v3 - w3) * i3
        e0, e1 = (w0 * x0 + v0 * y) * i0 * i0, (w1 * x1 + v1 * y) * i1 * i1
        e2, e3 = (w2 * x2 + v2 * y) * i2 * i2, (w3 * x3 + v3 * y) * i3 * i3
        g0, g1, g2, g3 = g0 + t0, g1 + t1, g2 + t2, g3 + t3
        d0, d1, d2, d3 = d0 + e0, d1 + e1, d2 + e2, d3 + e3
        gradient_b[b] -= (t0 + t1) + (t2 + t3)
        degree_b[b] += (e0 + e1) + (e2 + e3)
        at = b + left
        k0, k1 = largest(k0, keyed(e0, at, low)), largest(k1, keyed(e1, at, low))
        k2, k3 = largest(k2, keyed(e2, at, low)), largest(k3, keyed(e3, at, low))
        low_half = largest(keyed(e0, a, low), keyed(e1, a + 1, low))
        high_half = largest(keyed(e2, a + 2, low), keyed(e3, a + 3, low))
        key_b[b] = largest(key_b[b], largest(low_half, high_half))
    sums = ((g0, d0, k0), (g1, d1, k1), (g2, d2, k2), (g3, d3, k3))
    for i in range(min(4, stop - a)):
        gradient_a[a + i] += sums[i][0]
        degree_a[a + i] += sums[i][1]
        key_a[a + i] = largest(key_a[a + i], sums[i][2])


_sweep_band = by_fours(_four_rows)
