"""A Bradley-Terry contest between groups of tokens: strength of ties and net flow, in one read."""

from typing import no_type_check

import numpy as np

from unmask.tables import kernels
from unmask.tables.kernels import Index, Table, Vector
from unmask.tables.kernels.compiler import compiled, number


def sums_between(
    tables: tuple[Table, Table],
    point: tuple[Vector, Vector],
    weights: tuple[Vector, Vector],
    pseudo: tuple[Vector, Vector],
    rows: tuple[Index, int],
    columns: tuple[Index, int],
) -> tuple[Vector, Vector]:
    """Edges and what b gains on a, by the group of a and that of b; see `contest_sums`."""
    (label_a, count_a), (label_b, count_b) = rows, columns
    highest = max(point[0].max(), point[1].max())
    r_a, r_b = (np.exp(part - highest) for part in point)
    # rows by their groups: a band then has a few groups of its own
    order = np.argsort(label_a, kind="stable")
    bands = kernels.bands(len(order))
    firsts = [int(label_a[order[start]]) for start, _ in bands]
    sums = [
        np.zeros((2, int(label_a[order[stop - 1]]) - first + 1, count_b))
        for first, (_, stop) in zip(firsts, bands, strict=True)
    ]

    def run(band: int, start: int, stop: int) -> None:
        _band(
            *tables, order[start:stop], label_a - firsts[band], label_b, r_a, r_b,
            weights[0] * r_a, weights[1] * r_b, *pseudo, np.empty((2, len(r_b))), *sums[band],
        )  # fmt: skip

    kernels.each_band(len(order), run)
    whole = np.zeros((2, count_a, count_b))
    for first, part in zip(firsts, sums, strict=True):
        whole[:, first : first + part.shape[1]] += part
    return whole[0], whole[1]


@compiled
@no_type_check
def _band(
    a_given_b, b_given_a, rows, label_a, label_b, r_a, r_b, wins_a, wins_b, pseudo_a, pseudo_b,
    cells, edges, surplus,
):  # fmt: skip
    for a in rows:
        x, u, p = r_a[a], wins_a[a], pseudo_a[a]
        row, back = a_given_b[a], b_given_a[a]
        # apart from the sums by group, so that the divisions are done many at once
        for b in range(len(r_b)):
            y = r_b[b]
            inverse = 1.0 / (x + y)
            won = number(row[b]) * wins_b[b] + p * y
            lost = number(back[b]) * u + pseudo_b[b] * x
            cells[0, b] = (won * x + lost * y) * inverse * inverse
            cells[1, b] = (lost - won) * inverse
        edge, gain = edges[label_a[a]], surplus[label_a[a]]
        for b in range(len(r_b)):
            edge[label_b[b]] += cells[0, b]
            gain[label_b[b]] += cells[1, b]
