"""Groups of tokens that hardly meet: how far their masses against each other may be off.

A residual says little of such groups. What passes between two of them is a small part of what
passes within, so that the residual is small whatever their masses are. So the graph is looked at
once more, a node per group: what passes between groups, summed from the cells between them alone,
is as precise as these cells however small they are, and a small dense system says by how much each
group's mass must change. Knows nothing of tables: what read the graph also sums it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from unmask.constructions.solvers.forest import Index, Vector, trees

Matrix = NDArray[np.float64]
Labels = tuple[Index, int]
# Strength of ties and net flow between the groups of one labelling and those of another.
Between = Callable[[Labels, Labels], tuple[Matrix, Matrix]]

# A group that has this part of its ties to a heavier one is one with it. Inside such groups an
# error is at most about the residual over this, so that a residual of 1e-10 leaves 1e-7.
TIED = 1e-3
# how far a joint may be off in total variation, by the estimate below, and count as converged
ERROR = 1e-4
# groups that should move by less than this need not be moved
SETTLED = 1e-8
# a token with so small a part of the mass does not count, whatever its own error
NEGLIGIBLE = 1e-30
# groups are moved no more often than this, and not again by less than that without getting closer
_MOVES, _COARSE = 40, 1e-2
# passes after which a solver that is not done looks at groups all the same
_PATIENCE = 40
# trees that are told apart in one look: two matrices of this size squared are 64 MB
_MANY = 2048
# where there are more, light ones join heavy ones, to which they have at least this part of ties
_JOINED = 1e-4
# of a sum of what passes between two groups: some operations per cell, and many cells
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Groups:
    """By what part each node's mass should change, group by group, and what is left uncertain.

    `error` bounds the relative error of the mass of any group that the flows between groups leave,
    their rounding included; infinite where nothing ties a group to the rest.
    """

    change: Vector
    error: float
    looks: int

    def bound(self, residual: float) -> float:
        """A bound of the total variation between the joint and the right one, at most 1."""
        return min(1.0, self.error + residual / TIED)


class Moves:
    """Moves of whole groups so far: when to look at groups, and whether to move them again."""

    def __init__(self) -> None:
        self._last = float("inf")
        self._left = _MOVES
        self._looked_at = 0

    def due(self, passes: int) -> bool:
        """Whether a solver has gone on for so long that groups may be what holds it up."""
        return passes - self._looked_at >= _PATIENCE

    def worth(self, groups: Groups, residual: float, passes: int) -> bool:
        """Whether groups should move, and moving them has not come down to rounding yet."""
        largest = float(np.abs(groups.change).max())
        better = largest > _COARSE or largest < self._last / 2
        self._last, self._left, self._looked_at = largest, self._left - 1, passes
        return largest > max(SETTLED, 10 * residual) and better and self._left > 0


def grouped(
    between: Between,
    degree: Vector,
    edges: tuple[Index, Index, Vector],
    counts: NDArray[np.bool_],
    *,
    directed: bool,
) -> Groups:
    """Look at the groups of a graph whose strongest edges are given; only some nodes count.

    `directed` where masses flow, and not where the graph is the curvature of an objective.
    """
    (label, count), looks = _trees(between, degree, edges, counts)
    if count == 1:
        return Groups(np.zeros(len(degree)), 0.0, looks)
    if count > _MANY:
        return Groups(np.zeros(len(degree)), float("inf"), looks)
    # one look at a labelling, not two, if both are the same object
    trees_now = (label, count)
    strength, net = between(trees_now, trees_now)
    joined = _joined(strength)
    size = int(joined.max()) + 1
    strength, net = (_summed(matrix, joined, size) for matrix in (strength, net))
    change, error = _weighed(strength, net, directed)
    return Groups(change[joined][label], error, looks + 1)


def _trees(
    between: Between, degree: Vector, edges: tuple[Index, Index, Vector], counts: NDArray[np.bool_]
) -> tuple[Labels, int]:
    """Nodes that hang together by some node's strongest edge, and how often the graph was read.

    A tree has no loose part: what hangs on a node's strongest edge has only weaker ones.
    """
    count, label = trees(len(degree), edges[0], edges[1])
    # what does not count belongs to the heaviest tree, where it changes nothing
    label = np.where(counts, label, label[np.argmax(np.where(counts, degree, -1.0))])
    count, label = _numbered(label)
    if count <= _MANY:
        return (label, count), 0
    weight = np.bincount(label, degree, count)
    heavy = np.argsort(-weight)[: max(1, _MANY**2 // count)]
    # all but the heaviest in one group, of which no use is made
    place = np.full(count, len(heavy))
    place[heavy] = np.arange(len(heavy))
    strength, _ = between((label, count), (place[label], len(heavy) + 1))
    best = strength[:, :-1].argmax(axis=1)
    tied = strength[np.arange(count), best] > _JOINED * weight
    own = np.where(tied & (place == len(heavy)), heavy[best], np.arange(count))
    count, label = _numbered(own[label])
    return (label, count), 2


def _joined(strength: Matrix) -> Index:
    """Join each group to the heavier one that it is tied to most, if it is, until none is.

    To one only: a light group that is tied to two heavy ones does not tie these to each other.
    """
    weight = strength.sum(axis=1)
    joined = np.arange(len(weight))
    while True:
        order = np.empty(len(weight), np.int64)
        order[np.lexsort((np.arange(len(weight)), weight))] = np.arange(len(weight))
        to_heavier = np.where(order > order[:, None], strength, 0.0)
        best = to_heavier.argmax(axis=1)
        own = np.arange(len(weight))
        tied = to_heavier[own, best] > TIED * weight
        count, roots = trees(len(weight), own[tied], best[tied])
        if count == len(weight):
            return joined
        joined, weight = roots[joined], np.bincount(roots, weight, count)
        strength = _summed(strength, roots, count)


def _weighed(strength: Matrix, net: Matrix, directed: bool) -> tuple[Vector, float]:
    """By what part each group should change against the heaviest, and what stays uncertain."""
    count = len(strength)
    if count == 1:
        return np.zeros(1), 0.0
    flow = strength + net / 2 if directed else strength
    # the inverse of such a matrix is positive: what bounds the flows bounds the masses
    leaving = flow.sum(axis=1)
    matrix = np.diag(leaving) - flow.T
    ground = int(np.argmax(strength.sum(axis=1)))
    rest = np.delete(np.arange(count), ground)
    wanted = net.sum(axis=1)
    noise = _ROUNDING * (np.abs(net) + strength).sum(axis=1)
    scale = np.diag(matrix)[rest]
    if (scale <= 0).any():
        return np.zeros(count), float("inf")
    scaled = matrix[np.ix_(rest, rest)] / scale[:, None]
    sides = np.stack([-wanted[rest], np.abs(wanted[rest]) + noise[rest]], axis=1) / scale[:, None]
    try:
        change, error = np.linalg.solve(scaled, sides).T
    except np.linalg.LinAlgError:
        return np.zeros(count), float("inf")
    if not np.isfinite(change).all() or not np.isfinite(error).all() or (error < 0).any():
        return np.zeros(count), float("inf")
    whole = np.zeros(count)
    whole[rest] = change
    return whole, float(error.max())


def _summed(matrix: Matrix, label: Index, count: int) -> Matrix:
    """The same between groups of groups, without what is inside them."""
    member = csr_matrix((np.ones(len(label)), (label, np.arange(len(label)))), (count, len(label)))
    whole: Matrix = np.ascontiguousarray((member @ (member @ matrix).T).T)
    np.fill_diagonal(whole, 0.0)
    return whole


def _numbered(label: Index) -> tuple[int, Index]:
    labels, numbered = np.unique(label, return_inverse=True)
    return len(labels), numbered.astype(np.int64)
