"""The two problems behind constructions, solved for any number of blanks.

Both find numbers per context, one tensor per blank with size 1 along it. Tables of two blanks are
streamed, with compiled sweeps where they can be used; tables over candidates are small, and their
contexts are the nodes of a graph (`context_graph`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.solvers import bradley_terry, stationary
from unmask.constructions.solvers.balance import balanced, normalised
from unmask.constructions.solvers.bradley_terry import Contest
from unmask.constructions.solvers.context_graph import (
    MAX_PASSES,
    LineFlows,
    Lines,
    conditionals,
    read_contest,
)
from unmask.constructions.solvers.descent import Pass, minimise
from unmask.constructions.solvers.forest import Vector
from unmask.constructions.solvers.solution import told
from unmask.tables.pair_tables import PairTables
from unmask.tables.protocol import Tables

Factors = tuple[Float[Tensor, "..."], ...]


@dataclass(frozen=True, eq=False)
class Fit:
    """log r_t of every blank t: of the law of the others, of size 1 along t; how it was found."""

    log_others: Factors
    converged: bool
    found: dict[str, object] = field(default_factory=dict)

    def diagnostics(self) -> dict[str, object]:
        """What the solver did."""
        return dict(self.found)


def log_masked_others(tables: Tables) -> Factors:
    """For each blank, what the fully masked model says of all the others together."""
    blanks = range(len(tables.shape))
    each = [tables.log_masked(t) for t in blanks]
    nothing = torch.zeros((1,) * len(blanks), dtype=torch.float64, device=each[0].device)
    return tuple(sum((each[s] for s in blanks if s != t), start=nothing) for t in blanks)


def stationary_law(tables: Tables) -> Fit:
    """Where pseudo-Gibbs sampling settles, found once for all joints that stand on it.

    The chain picks a blank at random and draws it anew given all others. Its stationary law mu
    solves mu = mean over t of q_t mu_-t (Heckerman et al. 2000), and is known by its mu_-t.
    """
    found = tables.remember("stationary law", lambda: _stationary(tables))
    assert isinstance(found, Fit)
    return found


def _stationary(tables: Tables) -> Fit:
    if isinstance(tables, PairTables):
        pair = stationary.stationary_marginals(tables)
        each = (pair.log_b[None], pair.log_a[:, None])
        return Fit(each, pair.converged, pair.diagnostics())
    lines = Lines(tables.shape)
    start = [log.exp() for log in log_masked_others(tables)]
    # a start of nothing would stay nothing: GMRES works with relative changes
    mass = normalised(np.maximum(lines.stack(start), 1e-200), lines.sizes)
    with tables.bar("pseudo-gibbs") as bar:
        flows = LineFlows(lines, conditionals(tables))
        found = balanced(flows, mass, lines.sizes, bar, max_passes=MAX_PASSES)
    did = told(found.passes, found.converged, found.history, found.error_bound)
    return Fit(tuple(part.log() for part in lines.split(found.mass)), found.converged, did)


def nearest_contest(
    tables: Tables, log_weights: Factors, start: Factors, pull: Sequence[Tensor] | None = None
) -> Fit:
    """The minimum of Arnold & Gokhale's objective, contexts weighted.

    Every fill is a contest between its blanks' contexts: mu is proportional to N / sum_t 1 / r_t,
    with N = sum_t W_t q_t and r_t = mu_-t / W_t. With l = log r that is the minimum of the convex

        G(l) = sum_x N log sum_t exp(-l_t) + sum_t sum W_t l_t,

    for two blanks the Bradley-Terry fit of `bradley_terry`, for more Luce's choice among k. Of two
    blanks `pull` adds wins that no table has, by token of either blank.
    """
    if isinstance(tables, PairTables):
        return _nearest_pair(tables, log_weights, start, pull)
    lines = Lines(tables.shape)
    wins = [
        given * weight.exp()
        for given, weight in zip(conditionals(tables), log_weights, strict=True)
    ]
    shaped = [w.expand(one) for w, one in zip(log_weights, lines.line_shapes, strict=True)]

    def read(point: Vector) -> Pass:
        return read_contest(lines, wins, point)

    with tables.bar("ag") as bar:
        found = minimise(
            read, lines.stack(start), bar, log_weight=lines.stack(shaped), max_passes=MAX_PASSES
        )
    return Fit(tuple(lines.split(found.point)), found.converged, found.diagnostics())


def _nearest_pair(
    tables: PairTables, log_weights: Factors, start: Factors, pull: Sequence[Tensor] | None
) -> Fit:
    shape = tables.shape
    plain = Contest.plain(tables)
    weight_b, weight_a = log_weights[0].expand(1, shape[1])[0], log_weights[1].expand(shape[0], 1)
    pull_a, pull_b = pull or (plain.pseudo_a, plain.pseudo_b)
    found = bradley_terry.solve(
        tables,
        start[1].expand(shape[0], 1)[:, 0].contiguous(),
        start[0].expand(1, shape[1])[0].contiguous(),
        contest=Contest(weight_a[:, 0].exp(), weight_b.exp(), pull_a, pull_b),
    )
    each = (found.log_b[None], found.log_a[:, None])
    return Fit(each, found.converged, found.diagnostics())
