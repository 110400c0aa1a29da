"""L-BFGS for contests: convex objectives whose curvature is the Laplacian of a graph.

Preconditioned by the forest of every node's strongest edge. Knows nothing of tables: a problem is
a function that reads it at a point.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unmask.constructions.solvers.forest import Index, Vector, factored
from unmask.constructions.solvers.groups import ERROR, NEGLIGIBLE, Between, Groups, Moves, grouped
from unmask.constructions.solvers.solution import Solution, counted, largest_log_step
from unmask.progress import Bar

# no coordinate moves further than this in a step: beyond it the quadratic model means nothing
_LARGEST_MOVE = 4.0
_MEMORY = 10
# a step may end where the slope has turned, if it is no steeper than this part of what it was
_OVERSHOOT = 0.5
# The largest preconditioned gradient that counts as converged, an estimate of the largest error of
# a log marginal. It says nothing of groups of tokens that hardly meet, whose masses against each
# other `groups` weighs by themselves: tested for leaks of 1e-4 to 1e-14, within 1e-6 of the truth.
TOLERANCE = 1e-10
MAX_PASSES = 200
# ties that are lost in the range of float64
_NO_TIES = 1e-300


@dataclass(frozen=True)
class Pass:
    """All that one reading of the tables gives at a point: gradient, degrees, strongest edges.

    `between` reads them once more, for what passes between groups of tokens.
    """

    gradient: Vector
    degree: Vector
    edges: tuple[Index, Index, Vector]
    between: Between
    # a token with so small a part of the mass does not count
    negligible: float = NEGLIGIBLE

    def forest(self) -> Callable[[Vector], Vector]:
        """Solve with the Laplacian's diagonal and each token's strongest edge.

        Scaled to a unit diagonal first, so that rare tokens do not drown.
        """
        rows, columns, weights = self.edges
        scale = 1 / np.sqrt(np.maximum(self.degree, _NO_TIES))
        off = -weights * scale[rows] * scale[columns]
        solve = factored(len(scale), rows, columns, off)
        return lambda vector: scale * solve(scale * vector)

    def groups(self, step: Vector, log_mass: Vector, *, directed: bool) -> Groups:
        """The check of groups of tokens, where all of a step is small."""
        counts = counted(step, log_mass, self.negligible) & (self.degree > _NO_TIES)
        return grouped(self.between, self.degree, self.edges, counts, directed=directed)


def minimise(
    read: Callable[[Vector], Pass],
    point: Vector,
    bar: Bar,
    *,
    log_weight: Vector | float = 0.0,
    tolerance: float = TOLERANCE,
    max_passes: int = MAX_PASSES,
    preconditioner: Callable[[Pass], Callable[[Vector], Vector]] = Pass.forest,
    watch: Callable[[Vector, int], None] | None = None,
) -> Solution:
    """Descend from a point until neither the preconditioned gradient nor any group moves it.

    With `log_weight` coordinates are log masses.
    """
    here, passes = read(point), 1
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
    history: list[float] = []
    moves = Moves()
    error_bound: float | None = None
    while True:
        precondition = preconditioner(here)
        if watch:
            watch(point, passes)
        step = precondition(here.gradient)
        history.append(largest_log_step(step, point + log_weight, here.negligible))
        bar.set_postfix_str(f"residual {history[-1]:.0e}", refresh=False)
        done = history[-1] < tolerance
        # groups are looked at even so: the answer is there, only the verdict is not
        if passes >= max_passes and not done:
            break
        if done or moves.due(passes):
            groups = here.groups(step, point + log_weight, directed=False)
            passes += groups.looks
            move = moves.worth(groups, history[-1], passes) and passes < max_passes
            if done and not move:
                error_bound = groups.bound(history[-1])
                break
            if move:
                point = point + np.clip(groups.change, -_LARGEST_MOVE, _LARGEST_MOVE)
                here, passes = read(point), passes + 1
                bar.update(groups.looks + 1)
                pairs.clear()
                continue
            if passes >= max_passes:
                break
        direction = _direction(here, pairs, precondition)
        there, length, more = _descend(read, point, here, direction, max_passes - passes)
        moved, turned = length * direction, there.gradient - here.gradient
        if moved @ turned > 0:
            pairs.append((moved, turned))
        point, here, passes = point + moved, there, passes + more
        bar.update(more)
    converged = error_bound is not None and error_bound < ERROR
    return Solution(point, passes, converged, tuple(history), error_bound)


def _descend(
    read: Callable[[Vector], Pass], point: Vector, here: Pass, direction: Vector, passes_left: int
) -> tuple[Pass, float, int]:
    """Halve the step until it is not far past the minimum along it; its passes come last.

    The slope alone decides (the approximate Wolfe condition of Hager & Zhang 2005): near the
    minimum it is exact where differences of the objective drown in rounding. It bounds how far a
    step overshoots; that the answer is the minimum is for the residual to say.
    """
    slope = float(here.gradient @ direction)
    length, passes = 1.0, 0
    while True:
        there = read(point + length * direction)
        passes += 1
        if float(there.gradient @ direction) <= -_OVERSHOOT * slope:
            return there, length, passes
        if passes >= passes_left:
            # out of passes: stay rather than end far past the minimum
            return here, 0.0, passes
        length /= 2


def _direction(
    here: Pass, pairs: deque[tuple[Vector, Vector]], precondition: Callable[[Vector], Vector]
) -> Vector:
    """L-BFGS with the forest as its first guess of the inverse Hessian (Nocedal 1980)."""
    vector = here.gradient.copy()
    kept = []
    for moved, turned in reversed(pairs):
        weight = float(moved @ vector) / float(moved @ turned)
        kept.append(weight)
        vector -= weight * turned
    vector = precondition(vector)
    for (moved, turned), weight in zip(pairs, reversed(kept), strict=True):
        vector += moved * (weight - float(turned @ vector) / float(moved @ turned))
    direction = -_capped(vector, here.degree)
    if here.gradient @ direction < 0:
        return direction
    pairs.clear()
    return -_capped(precondition(here.gradient), here.degree)


def _capped(step: Vector, degree: Vector) -> Vector:
    """Free of the constant that G ignores, then at most so far in each coordinate."""
    centred = step - float(degree @ step) / float(degree.sum())
    return np.clip(centred, -_LARGEST_MOVE, _LARGEST_MOVE)
