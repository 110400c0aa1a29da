"""The converged Arnold-Gokhale joint, as the Bradley-Terry fit that it is.

With x = log r_a and y = log r_b, the sum of the divergences from the model's conditionals to those
of the joint N / (1 / r_a + 1 / r_b), N = q(a | b) + q(b | a), is up to a constant

    G(x, y) = sum N log(1 / r_a + 1 / r_b) + sum x + sum y,

the likelihood of a Bradley-Terry model in which a beats b q(a | b) times and loses q(b | a) times
(Hunter 2004): convex, and strictly so but for adding one constant to all of x and y. The Arnold-
Gokhale step is its MM step, slow where pairs of tokens lock together. Here: L-BFGS, preconditioned
by the forest of every token's strongest edge, one streaming pass of the tables a step. Contexts
may be weighted, and wins added that no table has; the problem stays the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.solvers import pair_passes
from unmask.constructions.solvers.descent import MAX_PASSES, TOLERANCE, Pass, minimise
from unmask.constructions.solvers.forest import Vector, unique_edges
from unmask.constructions.solvers.groups import Between, Labels, Matrix
from unmask.constructions.solvers.solution import Solution
from unmask.tables.kernels import in_range
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import Probabilities, probabilities


@dataclass(frozen=True, eq=False)
class Contest:
    """How the tables are counted: weights of contexts, and pseudo-wins in every pair.

    q(a | b) counts `weight_b` times and q(b | a) `weight_a` times; besides, a beats each of its
    opponents `pseudo_a` times and loses `pseudo_b` times.
    """

    weight_a: Float[Tensor, " a"]
    weight_b: Float[Tensor, " b"]
    pseudo_a: Float[Tensor, " a"]
    pseudo_b: Float[Tensor, " b"]

    @classmethod
    def plain(cls, tables: PairTables) -> "Contest":
        """Every context once, nothing added: the objective of Arnold & Gokhale."""
        a, b = (
            torch.ones(len(axis), dtype=torch.float64, device=tables.both()[0].logits.device)
            for axis in tables.supports
        )
        return cls(a, b, torch.zeros_like(a), torch.zeros_like(b))


def read_tables(tables: PairTables, point: Vector, contest: Contest | None = None) -> Pass:
    """One streaming pass at x and y, stacked; float64 throughout.

    The gradient is summed from wins of b times 1 - S less wins of a times S, S = r_b / (r_a + r_b),
    in which nothing cancels that is not small itself.
    """
    how = contest or Contest.plain(tables)
    source = probabilities(tables)
    if source.fused() and in_range(point[: tables.shape[0]], point[tables.shape[0] :]):
        return _read_fused(source, point, how)
    return _read(source, point, how)


def _read(source: Probabilities, point: Vector, contest: Contest) -> Pass:
    size_a, size_b = source.tables.shape
    log_a = torch.tensor(point[:size_a], device=source.device)
    log_b = torch.tensor(point[size_a:], device=source.device)
    gradient_a, degree_a, best_a = (torch.zeros_like(log_a) for _ in range(3))
    gradient_b, degree_b, best_b = (torch.zeros_like(log_b) for _ in range(3))
    edge_a = torch.zeros(size_a, dtype=torch.long, device=source.device)
    edge_b = torch.zeros(size_b, dtype=torch.long, device=source.device)
    read = pair_passes.for_device(pair_passes.contest, source.device)
    for rows in source.tables.blocks():
        found = read(
            *source.tile(rows),
            log_a[rows],
            log_b,
            (contest.weight_a[rows], contest.weight_b),
            (contest.pseudo_a[rows], contest.pseudo_b),
        )
        gradient_a[rows], degree_a[rows] = found.gradient_a, found.degree_a
        best_a[rows], edge_a[rows] = found.best_a, found.edge_a
        gradient_b += found.gradient_b
        degree_b += found.degree_b
        better = found.best_b > best_b
        best_b = torch.where(better, found.best_b, best_b)
        edge_b = torch.where(better, found.edge_b + rows.start, edge_b)
    return Pass(
        _stack(gradient_a, gradient_b),
        _stack(degree_a, degree_b),
        unique_edges(
            edge_a.cpu().numpy(),
            best_a.cpu().numpy(),
            edge_b.cpu().numpy(),
            best_b.cpu().numpy(),
        ),
        _between(_sums_between, source, point, contest),
    )


def _read_fused(source: Probabilities, point: Vector, contest: Contest) -> Pass:
    from unmask.tables.kernels.contest import contest_sums

    size_a = source.tables.shape[0]
    found = contest_sums(
        source.arrays(),
        (point[:size_a], point[size_a:]),
        (contest.weight_a.numpy(), contest.weight_b.numpy()),
        (contest.pseudo_a.numpy(), contest.pseudo_b.numpy()),
    )
    return Pass(
        np.concatenate([found.gradient_a, found.gradient_b]),
        np.concatenate([found.degree_a, found.degree_b]),
        unique_edges(found.edge_a, found.best_a, found.edge_b, found.best_b),
        _between(_sums_between_fused, source, point, contest),
    )


def _between(
    read: Callable[[Probabilities, Vector, Contest, Labels, Labels], tuple[Matrix, Matrix]],
    source: Probabilities,
    point: Vector,
    contest: Contest,
) -> Between:
    """What passes between groups at a point; a labelling names the tokens of both blanks."""
    size_a = source.tables.shape[0]

    def of_cells(rows: Labels, columns: Labels) -> tuple[Matrix, Matrix]:
        label_a, label_b = rows[0][:size_a], columns[0][size_a:]
        return read(source, point, contest, (label_a, rows[1]), (label_b, columns[1]))

    def between(first: Labels, second: Labels) -> tuple[Matrix, Matrix]:
        edges, surplus = of_cells(first, second)
        back, back_surplus = (edges, surplus) if first is second else of_cells(second, first)
        return edges + back.T, surplus - back_surplus.T

    return between


def _sums_between(
    source: Probabilities, point: Vector, contest: Contest, rows: Labels, columns: Labels
) -> tuple[Matrix, Matrix]:
    size_a = source.tables.shape[0]
    log_a = torch.tensor(point[:size_a], device=source.device)
    log_b = torch.tensor(point[size_a:], device=source.device)
    label_a, label_b = (torch.tensor(label, device=source.device) for label, _ in (rows, columns))
    whole = torch.zeros(2, rows[1], columns[1], dtype=torch.float64, device=source.device)
    for block in source.tables.blocks():
        found = pair_passes.between(
            *source.tile(block),
            log_a[block],
            log_b,
            (contest.weight_a[block], contest.weight_b),
            (contest.pseudo_a[block], contest.pseudo_b),
            (label_b, columns[1]),
        )
        whole.index_add_(1, label_a[block], found)
    edges, surplus = whole.cpu().numpy()
    return edges, surplus


def _sums_between_fused(
    source: Probabilities, point: Vector, contest: Contest, rows: Labels, columns: Labels
) -> tuple[Matrix, Matrix]:
    from unmask.tables.kernels.between import sums_between

    size_a = source.tables.shape[0]
    return sums_between(
        source.arrays(),
        (point[:size_a], point[size_a:]),
        (contest.weight_a.numpy(), contest.weight_b.numpy()),
        (contest.pseudo_a.numpy(), contest.pseudo_b.numpy()),
        (rows, columns),
    )


def solve(
    tables: PairTables,
    log_a: Tensor,
    log_b: Tensor,
    *,
    contest: Contest | None = None,
    tolerance: float = TOLERANCE,
    max_passes: int = MAX_PASSES,
    preconditioner: Callable[[Pass], Callable[[Vector], Vector]] = Pass.forest,
    watch: Callable[[Vector, int], None] | None = None,
) -> Solution:
    """Minimise G from the given log marginals (in a weighted contest, less the log weights).

    `watch` is shown every point and how many passes it took to get there.
    """
    point = _stack(log_a, log_b)
    how = contest or Contest.plain(tables)

    def read(at: Vector) -> Pass:
        return read_tables(tables, at, how)

    with tables.bar("ag") as bar:
        found = minimise(
            read,
            point,
            bar,
            log_weight=_stack(how.weight_a.log(), how.weight_b.log()),
            tolerance=tolerance,
            max_passes=max_passes,
            preconditioner=preconditioner,
            watch=watch,
        )
    point = found.point
    log_total = float(np.logaddexp.reduce(point[: len(log_a)]))
    return Solution(
        torch.tensor(point[: len(log_a)] - log_total, device=log_a.device),
        torch.tensor(point[len(log_a) :] - log_total, device=log_b.device),
        found.passes,
        found.converged,
        found.history[-1],
        found.history,
        found.error_bound,
    )


def _stack(a: Tensor, b: Tensor) -> Vector:
    stacked: Vector = torch.cat([a, b]).double().cpu().numpy()
    return stacked
