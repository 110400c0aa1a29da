"""How far to trust a joint: do the model's conditionals describe one distribution at all?"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from unmask.constructions.solvers.fits import Fit, stationary_law
from unmask.errors import NumericsError
from unmask.joints.agreement import Agreement
from unmask.joints.form_sums import can_compile, compiled_for, compiled_sums, own_entropies
from unmask.joints.forms import Sum
from unmask.tables.pair_tables import PairTables
from unmask.tables.protocol import Tables

# under which tables remember it
AGREEMENT = "agreement"


def incompatibility(tables: PairTables) -> float:
    """J, in bits: 0 exactly when the two conditionals are compatible, at most 1.

    The Jensen-Shannon divergence between q(a | b) r_b and q(b | a) r_a, the two factorisations at
    the marginals to which pseudo-Gibbs sampling converges. If some joint has both conditionals, the
    two are the same distribution; if none does, no construction can be faithful to both.

    Args:
        tables: What `LanguageModel.tables` gives.
    Returns:
        A number from 0 to 1.
    Examples:
        >>> tables = lm.tables("Two [MASK] are [MASK].", support=20)
        >>> round(unmask.incompatibility(tables), 3)
        0.012
    """
    return agreement(tables).bits


def agreement(tables: Tables) -> Agreement:
    """J of these tables, measured once for all joints that ask."""
    remembered = tables.remember(AGREEMENT, lambda: _measured(tables))
    assert isinstance(remembered, Agreement)
    return remembered


def _measured(tables: Tables) -> Agreement:
    law = stationary_law(tables)
    if isinstance(tables, PairTables):
        return Agreement(_of_two(tables, law), law.converged)
    return Agreement(_of_several(tables, law), law.converged, len(tables.shape))


def _of_several(tables: Tables, law: Fit) -> float:
    """The Jensen-Shannon divergence of the factorisations, one per blank, over log k.

    With k blanks it is at most log2 k bits; divided by that, 1 means the same for any number.
    """
    each = [tables.log_given_others(t) + log for t, log in enumerate(law.log_others)]
    middle = torch.stack(each).logsumexp(dim=0) - math.log(len(each))
    total = 0.0
    for one in each:
        # a fill that has no mass in float64 adds none
        part = torch.where(one.exp() > 0, one.exp() * (one - middle), 0.0)
        total += float(part.sum()) / len(each)
    if not math.isfinite(total):
        raise NumericsError("the conditionals' factorisations left the range of float64")
    return min(1.0, max(0.0, total / math.log(len(each))))


def _of_two(tables: PairTables, law: Fit) -> float:
    mixture = _mean(law.log_others)
    compiled = can_compile(mixture, tables.shape) and compiled_for(tables)
    total = _compiled(tables, law) if compiled else _streamed(tables, law, mixture)
    # rounding can leave it a hair outside of its range
    return min(1.0, max(0.0, total / math.log(2)))


def _mean(log_others: Sequence[Tensor]) -> Sum:
    """The mean of both factorisations."""
    return Sum(tuple(log - math.log(2) for log in log_others))


def _compiled(tables: PairTables, at: Fit) -> float:
    """The entropy of the mean of both factorisations minus the mean of theirs."""
    own = own_entropies(tables)
    totals = (own.log_total_a[None], own.log_total_b[:, None])
    mixture = _mean([log - total for log, total in zip(at.log_others, totals, strict=True)])
    sums, _ = compiled_sums({"mean": mixture}, tables, entropies=False)
    log_own_a = own.of_b + at.log_a
    log_own_b = own.of_a + at.log_b
    apart = float(at.log_a.exp() @ log_own_a) + float(at.log_b.exp() @ log_own_b)
    mean_log = sums["mean"].mean_log
    assert mean_log is not None
    return apart / 2 - mean_log


def _streamed(tables: PairTables, at: Fit, mixture: Sum) -> float:
    total = 0.0
    for rows in tables.blocks():
        tile = tables.tile(rows)
        forth = tile.log_a_given_b + at.log_b
        back = tile.log_b_given_a + at.log_a[rows, None]
        middle = mixture.scores(tables, rows)
        total += float((forth.exp() * (forth - middle) + back.exp() * (back - middle)).sum())
    return total / 2
