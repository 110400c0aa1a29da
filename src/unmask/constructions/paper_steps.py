"""Arnold & Gokhale's joint as the paper computes it: a number of steps from uniform."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.constructions.arnold_gokhale import marginal_joint
from unmask.constructions.solvers import pair_passes
from unmask.errors import MethodError, NumericsError
from unmask.joints.joint import Joint
from unmask.printable import quoted
from unmask.tables.kernels import in_range
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import Probabilities, probabilities


def arnold_gokhale_steps(tables: PairTables, *, steps: int = 50) -> Joint:
    """Take so many of Arnold & Gokhale's steps (Torroba Hennigen & Kim 2023, appendix C).

    Each maps a joint with marginals r_a, r_b to one proportional to
    (q(a | b) + q(b | a)) / (1 / r_a + 1 / r_b), from uniform marginals. The state is the two
    marginals; a step is one streaming pass. A number of steps is not convergence: `last_change`
    is the largest change of a log marginal in the step before the last.
    """
    check_steps(steps)
    log_a, log_b, change = _stepped(tables, steps)
    return marginal_joint(
        tables,
        log_a,
        log_b,
        method="ag-paper",
        diagnostics={
            "steps": int(steps),
            "start": "uniform",
            "last_change": change,
            "stopped": "after the given number of steps",
        },
    )


def check_steps(steps: object) -> None:
    """Refuse a number of steps that cannot be taken."""
    if (whole_number(steps) or 0) < 1:
        raise MethodError(f"ag-paper takes a number of steps from 1, not {quoted(steps)}")


def _stepped(tables: PairTables, steps: int) -> tuple[Tensor, Tensor, float | None]:
    """The marginals before the last step: they, not the ones after it, give its joint."""
    device = tables.both()[0].logits.device
    log_a, log_b = (
        torch.full((len(axis),), -math.log(len(axis)), dtype=torch.float64, device=device)
        for axis in tables.supports
    )
    if steps == 1:
        return log_a, log_b, None
    source = probabilities(tables)
    with tables.bar("ag-paper", steps - 1) as bar:
        for _ in range(steps - 1):
            before_a, before_b = log_a, log_b
            log_a, log_b = step(source, log_a, log_b)
            bar.update()
    change = max(float((log_a - before_a).abs().max()), float((log_b - before_b).abs().max()))
    return log_a, log_b, change


def step(
    source: Probabilities, log_a: Float[Tensor, " a"], log_b: Float[Tensor, " b"]
) -> tuple[Float[Tensor, " a"], Float[Tensor, " b"]]:
    """The log marginals of the next joint, in one pass.

    The sums run over probabilities, not logarithms: every term is positive, so float64 keeps
    their relative error near 1e-16 however small the marginals are.
    """
    if source.fused() and in_range(log_a.numpy(), log_b.numpy()):
        return _compiled_step(source, log_a, log_b)
    row_sums, column_sums = _sums(source, log_a.exp(), log_b.exp())
    next_a, next_b = log_a + row_sums.log(), log_b + column_sums.log()
    _require_finite(bool(torch.isfinite(next_a).all() and torch.isfinite(next_b).all()))
    log_total = torch.logsumexp(next_a, dim=0)
    return next_a - log_total, next_b - log_total


def _compiled_step(source: Probabilities, log_a: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    # numpy throughout: the threads of a torch operation go on spinning after it, in our way
    from unmask.tables.kernels.moves import step_sums

    before_a, before_b = log_a.numpy(), log_b.numpy()
    row_sums, column_sums = step_sums(source.arrays(), np.exp(before_a), np.exp(before_b))
    next_a, next_b = before_a + np.log(row_sums), before_b + np.log(column_sums)
    _require_finite(bool(np.isfinite(next_a).all() and np.isfinite(next_b).all()))
    log_total = np.logaddexp.reduce(next_a)
    return torch.from_numpy(next_a - log_total), torch.from_numpy(next_b - log_total)


def _require_finite(finite: bool) -> None:
    if not finite:
        raise NumericsError("Arnold-Gokhale's marginals left the range of float64; use fewer steps")


def _sums(source: Probabilities, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    row_sums, column_sums = torch.zeros_like(a), torch.zeros_like(b)
    sums = pair_passes.for_device(pair_passes.stepped, source.device)
    for rows in source.tables.blocks():
        row_sums[rows], of_columns = sums(*source.tile(rows), a[rows], b)
        column_sums += of_columns
    return row_sums, column_sums
