"""The strongest edge of every token: a forest, whose sparse factors have no fill-in.

Where pairs of tokens lock together ("Los Angeles") plain iterations crawl; solving exactly along
the strongest edges removes just those directions.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csc_matrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# keeps a tree that nothing leaves from being singular; relative to a unit diagonal
_RIDGE = 1e-12


def unique_edges(
    edge_a: Index, best_a: Vector, edge_b: Index, best_b: Vector
) -> tuple[Index, Index, Vector]:
    """Ends and weights of each token's strongest edge, one that two tokens share once.

    Tokens of the second blank are numbered on after those of the first.
    """
    rows = np.concatenate([np.arange(len(edge_a)), edge_b])
    columns = np.concatenate([edge_a, np.arange(len(edge_b))])
    weights = np.concatenate([best_a, best_b])
    _, first = np.unique(rows * len(edge_b) + columns, return_index=True)
    return rows[first], columns[first] + len(edge_a), weights[first]


def factored(
    size: int, rows: Index, columns: Index, upper: Vector, lower: Vector
) -> Callable[[Vector], Vector]:
    """Solve with a unit diagonal and the given entries above and below it, by sparse LU."""
    diagonal = np.arange(size)
    matrix = coo_matrix(
        (
            np.concatenate([np.full(size, 1 + _RIDGE), upper, lower]),
            (
                np.concatenate([diagonal, rows, columns]),
                np.concatenate([diagonal, columns, rows]),
            ),
        )
    )
    factors = splu(csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    return lambda vector: factors.solve(vector)


def faintest_tie(degree: Vector, rows: Index, columns: Index, weights: Vector) -> float:
    """The least part of a tree's ties that leads out of it; 1 if there is only one tree."""
    size = len(degree)
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    count, tree = connected_components(graph, directed=False)
    if count == 1:
        return 1.0
    total = np.bincount(tree, degree, count)
    inside = 2 * np.bincount(tree[rows], weights, count)
    return float(((total - inside) / total).min())
