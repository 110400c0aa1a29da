"""Steps to the joint whose conditionals are nearest to the model's: Arnold & Gokhale (1998)."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unmask.constructions.construction import Construction, Given, only_conditionals
from unmask.errors import MethodError, NumericsError
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Sum
from unmask.joints.joint import Joint
from unmask.logspace import row_blocks
from unmask.names import STEPS
from unmask.tables.law import Factors
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import Probabilities, probabilities
from unmask.tables.protocol import Tables

# steps after which an iteration to a tolerance gives up
_MOST_STEPS = 10_000
# cells of a block: both that a step works with stay in a core's own cache
_CELLS = 2**17


def ag(tables: Tables, *, steps: int = STEPS, tolerance: float | None = None) -> Joint:
    """Take Arnold & Gokhale's steps (Torroba Hennigen & Kim 2023, appendix C).

    The first joint is uniform. Each step maps a joint whose marginals over all blanks but t are r_t
    to one proportional to sum_t q_t / sum_t 1 / r_t. The state is those marginals, and a step is
    one sweep over the tables. No step raises the sum of the divergences from the model's
    conditionals to the joint's.

    By default there are `steps` of them, which does not guarantee convergence: `last_change` is the
    largest change of a log marginal in the step before the last. With a `tolerance` steps go on
    until that change is below it, and the diagnostics say whether it was reached.
    """
    most = steps if tolerance is None else _MOST_STEPS
    log_others, change, taken = _stepped(tables, most, float(tolerance or 0.0))
    diagnostics: dict[str, object] = {"steps": taken, "start": "uniform", "last_change": change}
    diagnostics["stopped"] = "after the given number of steps"
    if tolerance is not None:
        reached = change is not None and change < tolerance
        diagnostics = {"tolerance": float(tolerance), "start": "uniform", "passes": taken}
        diagnostics |= {"converged": reached, "residual": change}
    form = Sum(
        tuple(torch.zeros_like(log) for log in log_others), tuple(-log for log in log_others)
    )
    return form_joint(form, tables, method="ag", diagnostics=diagnostics)


def _stepped(tables: Tables, most: int, tolerance: float) -> tuple[Factors, float | None, int]:
    """The laws before the last step, which give its joint, their last change, and the steps."""
    log_others, change, taken = _uniform(tables), None, 1
    if most == 1:
        return log_others, change, taken
    take = _pair_step(tables) if isinstance(tables, PairTables) else _step_of(tables)
    with tables.bar("ag", None if tolerance else most - 1) as bar:
        while taken < most and (change is None or change >= tolerance):
            before, log_others = log_others, take(log_others)
            pairs = zip(log_others, before, strict=True)
            change = max(float((new - old).abs().max()) for new, old in pairs)
            taken += 1
            bar.update()
    return log_others, change, taken


def _uniform(tables: Tables) -> Factors:
    """Every context of a blank equally likely."""
    device, blanks = tables.log_normalizer(0).device, range(len(tables.shape))
    shapes = [[1 if s == t else size for s, size in enumerate(tables.shape)] for t in blanks]
    return tuple(
        torch.full(shape, -math.log(math.prod(shape)), dtype=torch.float64, device=device)
        for shape in shapes
    )


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
    """Two blanks by row blocks: r_a <- r_a sum_b N r_b / (r_a + r_b), N = both conditionals.

    The sums run over probabilities, not logarithms: every term is positive, so float64 keeps
    their relative error near 1e-16 however small the marginals are.
    """
    source = probabilities(tables)
    blocks = row_blocks(*tables.shape, _CELLS) if source.copies else tables.blocks()
    both = _both(tables, source, blocks)
    over = torch.empty(blocks[0].stop, tables.shape[1], dtype=torch.float64, device=source.device)

    def take(log_others: Factors) -> Factors:
        log_a, log_b = log_others[1][:, 0], log_others[0][0]
        r_a, r_b = log_a.exp(), log_b.exp()
        of_rows, of_columns = torch.zeros_like(r_a), torch.zeros_like(r_b)
        for rows in blocks:
            wins = torch.add(*source.tile(rows)) if both is None else both[rows]
            shares = torch.add(r_a[rows, None], r_b, out=over[: len(wins)])
            torch.div(wins, shares, out=shares)
            of_rows[rows] = shares @ r_b
            of_columns += r_a[rows] @ shares
        log_a, log_b = log_a + of_rows.log(), log_b + of_columns.log()
        if not bool(torch.isfinite(log_a).all() and torch.isfinite(log_b).all()):
            raise NumericsError("the marginals of ag left the range of float64; use fewer steps")
        log_total = torch.logsumexp(log_a, dim=0)
        return (log_b - log_total)[None], (log_a - log_total)[:, None]

    return take


def _both(tables: PairTables, source: Probabilities, blocks: Sequence[slice]) -> Tensor | None:
    """Both conditionals added up once and for all, if there is room for that too."""
    rows, columns = tables.shape
    if not source.copies or 8 * rows * columns > tables.memory_left():
        return None
    both = torch.empty(rows, columns, dtype=torch.float64, device=source.device)
    for block in blocks:
        torch.add(*source.tile(block), out=both[block])
    return both


def _check(options: Given, blanks: int) -> None:
    if options.get("tolerance") is not None and "steps" in options:
        raise MethodError("steps and tolerance both say when ag stops; give one of them")


AG = Construction(
    ag,
    "fifty steps towards the joint whose conditionals are nearest to the model's",
    only_conditionals,
    unsketched="its contexts count whether they are likely or not, and a sketch sees the likely "
    "ones",
    check=_check,
)
