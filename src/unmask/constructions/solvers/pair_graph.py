"""Two blanks as the solvers see them: tokens whose contests and flows are read from both tables.

With x = log r_a and y = log r_b, the sum of the divergences from the model's conditionals to those
of the joint N / (1 / r_a + 1 / r_b), N = q(a | b) + q(b | a), is up to a constant

    G(x, y) = sum N log(1 / r_a + 1 / r_b) + sum x + sum y,

the likelihood of a Bradley-Terry model in which a beats b q(a | b) times and loses q(b | a) times
(Hunter 2004): convex, and strictly so but for adding one constant to all of x and y. The Arnold-
Gokhale step is its MM step, slow where pairs of tokens lock together. Contexts may be weighted, and
wins added that no table has; the problem stays the same.

Vectors over the graph have the tokens of the first blank, then those of the second. Every read is
one sweep over the tables.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unmask.constructions.solvers import descent, pair_passes
from unmask.constructions.solvers.descent import Pass
from unmask.constructions.solvers.forest import Index, Vector, unique_edges
from unmask.constructions.solvers.groups import Between, Labels, Matrix
from unmask.constructions.solvers.pair_passes import Contest, ContestSums
from unmask.joints.forms import Factor
from unmask.tables.kernels import in_range
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import probabilities

# how far a context of rounded tables may be from summing to one
_ROUNDING = 1e-6


class PairGraph:
    """What the solvers need of two blanks; `context_graph.ContextGraph` is the same for more."""

    max_passes = descent.MAX_PASSES

    def __init__(self, tables: PairTables) -> None:
        self._tables = tables
        self.sizes = tables.shape

    def split(self, vector: Vector) -> tuple[Tensor, ...]:
        """The part of each blank's contexts, which are the tokens of the other: size 1 along it."""
        device = self._tables.a_given_b.logits.device
        of_a, of_b = torch.tensor(vector, device=device).split(self.sizes)
        return of_b[None], of_a[:, None]

    def stack(self, parts: Sequence[Factor]) -> Vector:
        """All parts in one vector."""
        stacked: Vector = torch.cat(self._by_token(parts)).double().cpu().numpy()
        return stacked

    def contest(
        self, log_weights: Sequence[Factor], pull: Sequence[Tensor] | None
    ) -> Callable[[Vector], Pass]:
        """A contest in which contexts are weighted, with wins by token that no table has."""
        weights = [log.exp().contiguous() for log in self._by_token(log_weights)]
        contest = Contest(*weights, *(pull or map(torch.zeros_like, weights)))
        return lambda point: read_tables(self._tables, point, contest)

    def flows(self) -> "PairFlows":
        """Pseudo-Gibbs sampling as mass that moves."""
        return PairFlows(self._tables)

    def _by_token(self, parts: Sequence[Factor]) -> list[Tensor]:
        rows, columns = self.sizes
        return [parts[1].expand(rows, 1)[:, 0], parts[0].expand(1, columns)[0]]


def read_tables(tables: PairTables, point: Vector, contest: Contest | None = None) -> Pass:
    """Gradient, degrees and strongest edges at x and y, stacked; float64 throughout.

    The gradient is summed from wins of b times 1 - S less wins of a times S, S = r_b / (r_a + r_b),
    in which nothing cancels that is not small itself.
    """
    source = probabilities(tables)
    rules = contest or Contest.plain(tables.shape, source.device)
    log_a, log_b = np.split(point, tables.shape[:1])
    if source.fused() and in_range(log_a, log_b):
        from unmask.tables.kernels.between import sums_between
        from unmask.tables.kernels.contest import contest_sums

        weight_a, weight_b, pseudo_a, pseudo_b = (part.numpy() for part in rules)
        arrays = source.arrays(), (log_a, log_b), (weight_a, weight_b), (pseudo_a, pseudo_b)
        parts: tuple[Vector | Index, ...] = contest_sums(*arrays)
        between = partial(sums_between, *arrays)
    else:
        at = torch.tensor(log_a, device=source.device), torch.tensor(log_b, device=source.device)
        parts = pair_passes.contest_sums(source, *at, rules)
        between = partial(pair_passes.sums_between, source, *at, rules)
    sums = ContestSums(*parts)
    return Pass(
        np.concatenate([sums.gradient_a, sums.gradient_b]),
        np.concatenate([sums.degree_a, sums.degree_b]),
        unique_edges(sums.edge_a, sums.best_a, sums.edge_b, sums.best_b),
        _between(between, len(log_a)),
    )


def _between(sums: Callable[[Labels, Labels], tuple[Matrix, Matrix]], size_a: int) -> Between:
    """What passes between groups at a point; a labelling names the tokens of both blanks."""

    def of_cells(rows: Labels, columns: Labels) -> tuple[Matrix, Matrix]:
        return sums((rows[0][:size_a], rows[1]), (columns[0][size_a:], columns[1]))

    def between(first: Labels, second: Labels) -> tuple[Matrix, Matrix]:
        edges, surplus = of_cells(first, second)
        back, back_surplus = (edges, surplus) if first is second else of_cells(second, first)
        return edges + back.T, surplus - back_surplus.T

    return between


class PairFlows:
    """Mass that moves between the tokens of both blanks; see `solvers.balance.Flows`.

    Marginals with r_a = sum q(a | b) r_b, and back, are where pseudo-Gibbs sampling settles.
    """

    def __init__(self, tables: PairTables) -> None:
        self._tables = tables
        self._source = probabilities(tables)
        self.passes = 0

    def read(self, mass: Vector) -> Pass:
        """Half of what leaves minus what enters, and the forest.

        That is the contest of equals in which each context counts by its mass.
        """
        self.passes += 1
        a, b = torch.tensor(mass, device=self._source.device).split(self._tables.shape)
        contest = Contest(a, b, torch.zeros_like(a), torch.zeros_like(b))
        return read_tables(self._tables, np.zeros(len(mass)), contest)

    def balance(self, mass: Vector) -> Vector:
        """What leaves minus what enters, for masses of any sign.

        Summed pair by pair, so that what one token loses is what another gains: blocks of tokens
        that hardly meet are balanced as precisely as the tokens in them.
        """
        self.passes += 1
        return -self._net_inflow(mass)

    def pushed(self, mass: Vector) -> Vector:
        """What enters each positive mass when every mass moves once: it, and what it gains."""
        self.passes += 1
        # what rounded tables let leave is the mass but for their rounding: nothing falls below it
        return np.maximum(mass + self._net_inflow(mass), mass * _ROUNDING)

    def _net_inflow(self, mass: Vector) -> Vector:
        into = pair_passes.net_inflow(self._source, *np.split(mass, self._tables.shape[:1]))
        return np.concatenate(into)
