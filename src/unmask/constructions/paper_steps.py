"""Arnold & Gokhale's joint as the paper computes it: a number of steps from uniform."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.arnold_gokhale import nearest_joint
from unmask.constructions.construction import COUNTS_ALL, Construction, only_conditionals
from unmask.constructions.solvers import pair_passes
from unmask.constructions.solvers.fits import Factors, log_uniform_others
from unmask.errors import NumericsError
from unmask.joints.joint import Joint
from unmask.names import STEPS
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import Probabilities, probabilities
from unmask.tables.protocol import Tables


def arnold_gokhale_steps(tables: Tables, *, steps: int = STEPS) -> Joint:
    """Take `steps` of Arnold & Gokhale's steps (Torroba Hennigen & Kim 2023, appendix C).

    The first joint is uniform. Each step maps a joint whose marginals over all blanks but t are r_t
    to one proportional to sum_t q_t / sum_t 1 / r_t. The state is those marginals, and a step is
    one sweep over the tables. A fixed number of steps does not guarantee convergence: `last_change`
    is the largest change of a log marginal in the step before the last.
    """
    log_others, change = _stepped(tables, steps)
    did = {
        "steps": int(steps),
        "start": "uniform",
        "last_change": change,
        "stopped": "after the given number of steps",
    }
    return nearest_joint(tables, log_others, "ag-paper", did)


def _stepped(tables: Tables, steps: int) -> tuple[Factors, float | None]:
    """The laws before the last step: they, not the ones after it, give its joint."""
    log_others, change = log_uniform_others(tables), None
    if steps == 1:
        return log_others, change
    take = _pair_step(tables) if isinstance(tables, PairTables) else _step_of(tables)
    with tables.bar("ag-paper", steps - 1) as bar:
        for _ in range(steps - 1):
            before, log_others = log_others, take(log_others)
            moved = zip(log_others, before, strict=True)
            change = max(float((new - old).abs().max()) for new, old in moved)
            bar.update()
    return log_others, change


def _step_of(tables: Tables) -> Callable[[Factors], Factors]:
    blanks = range(len(tables.shape))
    log_wins = torch.stack([tables.log_given_others(t) for t in blanks]).logsumexp(dim=0)

    def take(log_others: Factors) -> Factors:
        over = torch.stack([-log.expand(log_wins.shape) for log in log_others]).logsumexp(dim=0)
        log_joint = log_wins - over
        log_joint = log_joint - torch.logsumexp(log_joint.reshape(-1), dim=0)
        return tuple(torch.logsumexp(log_joint, dim=t, keepdim=True) for t in blanks)

    return take


def _pair_step(tables: PairTables) -> Callable[[Factors], Factors]:
    source = probabilities(tables)

    def take(log_others: Factors) -> Factors:
        log_a, log_b = step(source, log_others[1][:, 0], log_others[0][0])
        return log_b[None], log_a[:, None]

    return take


def step(
    source: Probabilities, log_a: Float[Tensor, " a"], log_b: Float[Tensor, " b"]
) -> tuple[Float[Tensor, " a"], Float[Tensor, " b"]]:
    """The log marginals of the next joint, in one sweep.

    The sums run over probabilities, not logarithms: every term is positive, so float64 keeps
    their relative error near 1e-16 however small the marginals are.
    """
    # numpy throughout: the threads of a torch operation go on spinning after it, in our way
    before_a, before_b = log_a.cpu().numpy(), log_b.cpu().numpy()
    row_sums, column_sums = pair_passes.step_sums(source, before_a, before_b)
    with np.errstate(divide="ignore"):
        next_a, next_b = before_a + np.log(row_sums), before_b + np.log(column_sums)
    if not (np.isfinite(next_a).all() and np.isfinite(next_b).all()):
        raise NumericsError("Arnold-Gokhale's marginals left the range of float64; use fewer steps")
    log_total = np.logaddexp.reduce(next_a)
    next_a, next_b = next_a - log_total, next_b - log_total
    return torch.from_numpy(next_a).to(source.device), torch.from_numpy(next_b).to(source.device)


AG_PAPER = Construction(
    arnold_gokhale_steps,
    "fifty steps towards that joint, as the paper takes them",
    only_conditionals,
    solver="steps",
    unsketched=COUNTS_ALL,
)
