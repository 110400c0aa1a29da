"""Arnold-Gokhale joints of several blanks: every fill is a contest between its blanks' contexts.

mu is proportional to N / sum_t 1 / r_t, with N = sum_t W_t q_t the conditionals weighted by their
contexts and r_t = mu_-t / W_t. With l = log r that is the minimum of the convex

    G(l) = sum_x N log sum_t exp(-l_t) + sum_t sum W_t l_t,

for two blanks the Bradley-Terry fit of `solvers.bradley_terry`, for more Luce's choice among k.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.paper_steps import check_steps
from unmask.constructions.solvers.context_graph import (
    MAX_PASSES,
    Lines,
    Scores,
    conditionals,
    read_contest,
)
from unmask.constructions.solvers.descent import Pass, minimise
from unmask.constructions.solvers.forest import Vector
from unmask.tables.candidate_tables import BlankTables

STEPS = 50


def paper_steps(tables: BlankTables, *, steps: int = STEPS) -> tuple[Scores, dict[str, object]]:
    """So many plain steps from uniform, as in the paper; not converged, and not meant to be."""
    check_steps(steps)
    log_wins = torch.stack(_log_given(tables)).logsumexp(dim=0)
    log_joint = torch.zeros(tables.shape, dtype=torch.float64)
    for _ in range(steps):
        log_joint = log_joint - torch.logsumexp(log_joint.reshape(-1), dim=0)
        log_joint = _log_scores(log_wins, _log_others(log_joint))
    return log_joint, {"steps": steps}


def arnold_gokhale(tables: BlankTables) -> tuple[Scores, dict[str, object]]:
    """The joint whose conditionals are nearest to the model's: KL summed over all contexts."""
    return _fitted(tables, [torch.zeros((), dtype=torch.float64)] * tables.blanks)


def weighted_arnold_gokhale(tables: BlankTables) -> tuple[Scores, dict[str, object]]:
    """The same with each context counted by how likely it is when every blank is masked."""
    return _fitted(tables, _log_others(_log_masked(tables)))


def _fitted(
    tables: BlankTables, log_weights: list[Float[Tensor, "..."]]
) -> tuple[Scores, dict[str, object]]:
    lines = Lines(tables.shape)
    wins = [
        given * weight.exp()
        for given, weight in zip(conditionals(tables), log_weights, strict=True)
    ]
    # the masked distributions, of which a weighted contest has its weights taken off
    start = [
        others - weight
        for others, weight in zip(_log_others(_log_masked(tables)), log_weights, strict=True)
    ]

    weights = lines.stack(
        [log.expand(one) for log, one in zip(log_weights, lines.line_shapes, strict=True)]
    )

    def read(point: Vector) -> Pass:
        return read_contest(lines, wins, point)

    with tables.bar("ag") as bar:
        found = minimise(read, lines.stack(start), bar, log_weight=weights, max_passes=MAX_PASSES)
    each = zip(_log_given(tables), log_weights, strict=True)
    log_wins = torch.stack([given + weight for given, weight in each]).logsumexp(dim=0)
    return _log_scores(log_wins, lines.split(found.point)), found.diagnostics()


def _log_scores(log_wins: Scores, log_others: list[Float[Tensor, "..."]]) -> Scores:
    """N / sum_t 1 / r_t, not normalised."""
    each = [-log.expand(log_wins.shape) for log in log_others]
    return log_wins - torch.stack(each).logsumexp(dim=0)


def _log_given(tables: BlankTables) -> list[Scores]:
    return [tables.log_given_others(t) for t in range(tables.blanks)]


def _log_masked(tables: BlankTables) -> Scores:
    total = torch.zeros(tables.shape, dtype=torch.float64)
    for t in range(tables.blanks):
        total = total + tables.log_masked(t)
    return total


def _log_others(log_joint: Scores) -> list[Float[Tensor, "..."]]:
    return [torch.logsumexp(log_joint, dim=t, keepdim=True) for t in range(log_joint.ndim)]
