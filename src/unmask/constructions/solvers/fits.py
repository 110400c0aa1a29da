"""The two problems behind constructions, solved for any number of blanks.

Both find numbers per context, one tensor per blank with size 1 along it. Tables of two blanks are
streamed, with compiled sweeps where they can be used (`pair_graph`); tables over candidates are
small, and their contexts are the nodes of a graph (`context_graph`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.solvers.balance import balanced, normalised
from unmask.constructions.solvers.context_graph import ContextGraph
from unmask.constructions.solvers.descent import minimise
from unmask.constructions.solvers.pair_graph import PairGraph
from unmask.constructions.solvers.solution import Solution
from unmask.tables.pair_tables import PairTables
from unmask.tables.protocol import Tables

# under which tables remember it
STATIONARY_LAW = "stationary law"

Factors = tuple[Float[Tensor, "..."], ...]


@dataclass(frozen=True, eq=False)
class Fit:
    """log r_t of every blank t: of the law of the others, of size 1 along t; how it was found."""

    log_others: Factors
    solution: Solution

    @property
    def log_a(self) -> Float[Tensor, " a"]:
        """Of two blanks, the law of the first: what the second has for others."""
        return self.log_others[1][:, 0]

    @property
    def log_b(self) -> Float[Tensor, " b"]:
        """Of two blanks, the law of the second."""
        return self.log_others[0][0]

    @property
    def converged(self) -> bool:
        """Whether the solver is sure of it."""
        return self.solution.converged


def log_masked_others(tables: Tables) -> Factors:
    """For each blank, the product of the fully masked distributions of all the others."""
    blanks = range(len(tables.shape))
    each = [tables.log_masked(t) for t in blanks]
    nothing = torch.zeros((1,) * len(blanks), dtype=torch.float64, device=each[0].device)
    return tuple(sum((each[s] for s in blanks if s != t), start=nothing) for t in blanks)


def log_uniform_others(tables: Tables) -> Factors:
    """Every context of a blank equally likely."""
    like = tables.log_normalizer(0)
    shapes = [
        [1 if s == t else size for s, size in enumerate(tables.shape)]
        for t in range(len(tables.shape))
    ]
    return tuple(
        torch.full(one, -math.log(math.prod(one)), dtype=torch.float64, device=like.device)
        for one in shapes
    )


def starting_point(tables: Tables) -> Factors:
    """Where solvers start: both answers are unique, so this decides only how soon it is reached."""
    return log_masked_others(tables) if tables.has_masked() else log_uniform_others(tables)


def stationary_law(tables: Tables) -> Fit:
    """The stationary law of pseudo-Gibbs sampling, solved once for all joints that use it."""
    fit = tables.remember(STATIONARY_LAW, lambda: solve_stationary(tables))
    assert isinstance(fit, Fit)
    return fit


def solve_stationary(tables: Tables, start: Factors | None = None, **options: Any) -> Fit:
    """The stationary law of pseudo-Gibbs sampling; `options` are those of `balanced`.

    The chain picks a blank at random and draws it anew given all others. Its stationary law mu
    solves mu = mean over t of q_t mu_-t (Heckerman et al. 2000), and is known by its mu_-t.
    Conditionals may contradict each other. Power iteration mixes as slowly as the sampler does;
    here the balance of flows is solved for instead.
    """
    graph = _graph(tables)
    # a start of nothing would stay nothing: GMRES works with relative changes
    mass = np.maximum(np.exp(graph.stack(start or starting_point(tables))), 1e-200)
    with tables.bar("pseudo-gibbs") as bar:
        solution = balanced(
            graph.flows(),
            normalised(mass, graph.sizes),
            graph.sizes,
            bar,
            **{"max_passes": graph.max_passes, **options},
        )
    return Fit(graph.split(solution.point), solution)


def solve_contest(
    tables: Tables,
    start: Factors,
    log_weights: Factors | None = None,
    pull: Sequence[Tensor] | None = None,
    **options: Any,
) -> Fit:
    """The minimum of Arnold & Gokhale's objective; `options` are those of `minimise`.

    Every fill is a contest between its blanks' contexts: mu is proportional to N / sum_t 1 / r_t,
    with N = sum_t W_t q_t and r_t = mu_-t / W_t. With l = log r that is the minimum of the convex

        G(l) = sum_x N log sum_t exp(-l_t) + sum_t sum W_t l_t,

    with weights W_t of contexts, one if not given. For two blanks it is the Bradley-Terry fit of
    `pair_graph`, for more Luce's choice among k. Of two blanks `pull` adds wins
    that no table has, by token of either blank.
    """
    graph = _graph(tables)
    weights = log_weights or tuple(torch.zeros_like(log) for log in start)
    with tables.bar("ag") as bar:
        solution = minimise(
            graph.contest(weights, pull),
            graph.stack(start),
            bar,
            log_weight=graph.stack(weights),
            **{"max_passes": graph.max_passes, **options},
        )
    # G ignores a constant: the first part sums to one
    log_total = np.logaddexp.reduce(solution.point[: graph.sizes[0]])
    return Fit(graph.split(solution.point - log_total), solution)


def _graph(tables: Tables) -> PairGraph | ContextGraph:
    return PairGraph(tables) if isinstance(tables, PairTables) else ContextGraph(tables)
