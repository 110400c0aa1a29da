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

from unmask.tables import kernels

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# keeps a tree that nothing leaves from being singular; relative to a unit diagonal
_RIDGE = 1e-12
# tokens from which on it pays to compile the elimination
_MANY = 2048


def unique_edges(
    edge_a: Index, best_a: Vector, edge_b: Index, best_b: Vector
) -> tuple[Index, Index, Vector]:
    """Ends and weights of each token's strongest edge, one that two tokens share once.

    Tokens of the second blank are numbered on after those of the first.
    """
    tokens_a, tokens_b = np.arange(len(edge_a)), np.arange(len(edge_b))
    alone = edge_a[edge_b] != tokens_b
    rows = np.concatenate([tokens_a, edge_b[alone]])
    columns = np.concatenate([edge_a, tokens_b[alone]])
    return rows, columns + len(edge_a), np.concatenate([best_a, best_b[alone]])


def factored(size: int, rows: Index, columns: Index, off: Vector) -> Callable[[Vector], Vector]:
    """Solve with a unit diagonal and the given symmetric entries off it."""
    if size >= _MANY and kernels.available():
        from unmask.tables.kernels.trees import factored_forest

        solve = factored_forest(size, rows, columns, off, 1 + _RIDGE)
        if solve is not None:
            return solve
    return _sparse(size, rows, columns, off)


def _sparse(size: int, rows: Index, columns: Index, off: Vector) -> Callable[[Vector], Vector]:
    diagonal = np.arange(size)
    ends = np.concatenate([diagonal, rows, columns]), np.concatenate([diagonal, columns, rows])
    matrix = coo_matrix((np.concatenate([np.full(size, 1 + _RIDGE), off, off]), ends))
    factors = splu(csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    return lambda vector: factors.solve(vector)


def trees(size: int, rows: Index, columns: Index) -> tuple[int, Index]:
    """How many trees the edges make of so many nodes, and in which each node is."""
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    count, tree = connected_components(graph, directed=False)
    return int(count), tree.astype(np.int64)
