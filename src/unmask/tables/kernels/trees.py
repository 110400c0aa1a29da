"""Solving along a forest in linear time: leaves first, then back."""

from collections.abc import Callable
from typing import no_type_check

import numpy as np

from unmask.tables.kernels import Index, Vector
from unmask.tables.kernels.compiler import compiled


def factored_forest(
    size: int, rows: Index, columns: Index, off: Vector, diagonal: float
) -> Callable[[Vector], Vector] | None:
    """Solve with a constant diagonal and symmetric entries along the edges of a forest.

    None where the edges hold a cycle, as equal weights may.
    """
    child, parent, edge = (np.empty(size, np.int64) for _ in range(3))
    count = _leaves_first(size, rows, columns, child, parent, edge)
    if count != len(rows):
        return None
    child, parent, weights = child[:count], parent[:count], off[edge[:count]]
    pivots, factors = np.full(size, diagonal), np.empty(count)
    _factor(child, parent, weights, pivots, factors)

    def solve(vector: Vector) -> Vector:
        solution = vector.copy()
        _solve(child, parent, factors, pivots, solution)
        return solution

    return solve


@compiled
@no_type_check
def _leaves_first(size, rows, columns, child, parent, edge):
    """The order in which leaves fall off; returns how many did."""
    degree, incident = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for e in range(len(rows)):
        for token in (rows[e], columns[e]):
            degree[token] += 1
            # of a leaf, the exclusive or of its edges is its only edge
            incident[token] ^= e
    stack = np.empty(size, np.int64)
    waiting, count = 0, 0
    for token in range(size):
        if degree[token] == 1:
            stack[waiting] = token
            waiting += 1
    while waiting:
        waiting -= 1
        leaf = stack[waiting]
        if degree[leaf] != 1:
            continue
        e = incident[leaf]
        other = rows[e] + columns[e] - leaf
        child[count], parent[count], edge[count] = leaf, other, e
        count += 1
        degree[leaf] = 0
        degree[other] -= 1
        incident[other] ^= e
        if degree[other] == 1:
            stack[waiting] = other
            waiting += 1
    return count


@compiled
@no_type_check
def _factor(child, parent, weights, pivots, factors):
    for k in range(len(child)):
        factors[k] = weights[k] / pivots[child[k]]
        pivots[parent[k]] -= factors[k] * weights[k]


@compiled
@no_type_check
def _solve(child, parent, factors, pivots, vector):
    for k in range(len(child)):
        vector[parent[k]] -= factors[k] * vector[child[k]]
    for token in range(len(vector)):
        vector[token] /= pivots[token]
    for k in range(len(child) - 1, -1, -1):
        vector[child[k]] -= factors[k] * vector[parent[k]]
