"""The joint whose conditionals are nearest to the model's: Arnold & Gokhale (1998)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import real_number
from unmask.constructions.solvers import bradley_terry
from unmask.constructions.solvers.bradley_terry import Contest
from unmask.errors import MethodError
from unmask.joints.forms import Sum
from unmask.joints.joint import Joint
from unmask.joints.pair_joint import PairJoint
from unmask.printable import quoted
from unmask.tables.pair_tables import PairTables

TOWARDS = ("masked", "uniform")
# how many further contexts' worth of independence is added, unless asked for otherwise
PSEUDO_COUNTS = 0.0


def arnold_gokhale(
    tables: PairTables, *, pseudo_counts: float = PSEUDO_COUNTS, towards: str = "masked"
) -> Joint:
    """Minimise the KL from the model's conditionals to the joint's, to convergence.

    The minimum is N / (1 / r_a + 1 / r_b), N = q(a | b) + q(b | a), with the marginals that
    `solvers.bradley_terry` finds; the diagnostics say in how many passes, whether it converged and
    to what residual.

    `pseudo_counts` regularises: as if each token had met that many contexts more in which the
    blanks were independent, with the doubly masked marginals or uniform ones (`towards`).
    """
    check_pseudo_counts(pseudo_counts)
    check_towards(towards)
    plain = Contest.plain(tables)
    pull = [torch.zeros_like(plain.weight_a), torch.zeros_like(plain.weight_b)]
    if pseudo_counts > 0 and towards == "uniform":
        pull = [torch.full_like(axis, pseudo_counts / len(axis)) for axis in pull]
    elif pseudo_counts > 0:
        pull = [pseudo_counts * log.exp() for log in (tables.masked.log_a, tables.masked.log_b)]
    contest = Contest(plain.weight_a, plain.weight_b, pull[0], pull[1])
    log_a, log_b, name = _start(tables)
    found = bradley_terry.solve(tables, log_a, log_b, contest=contest)
    return marginal_joint(
        tables,
        found.log_a,
        found.log_b,
        method="ag",
        diagnostics={
            "start": name,
            "pseudo_counts": float(pseudo_counts),
            **({"towards": towards} if pseudo_counts else {}),
            **found.diagnostics(),
        },
    )


def weighted_arnold_gokhale(tables: PairTables) -> Joint:
    """The same, each context weighted by how likely the doubly masked model finds it.

    (m_b q(a | b) + m_a q(b | a)) / (m_b / r_b + m_a / r_a): contexts that hardly occur no longer
    count as much as those that do.
    """
    tables.both()
    log_m_a, log_m_b = tables.masked.log_a, tables.masked.log_b
    plain = Contest.plain(tables)
    contest = Contest(log_m_a.exp(), log_m_b.exp(), plain.pseudo_a, plain.pseudo_b)
    # a contest is fought with r over the weight, which at the start is one
    found = bradley_terry.solve(
        tables, torch.zeros_like(log_m_a), torch.zeros_like(log_m_b), contest=contest
    )

    form = Sum(log_m_a, log_m_b, -found.log_a, -found.log_b)
    solved = {"start": "doubly masked", **found.diagnostics()}
    return PairJoint(form, tables, method="weighted-ag", diagnostics=solved)


def marginal_joint(
    tables: PairTables,
    log_a: Float[Tensor, " a"],
    log_b: Float[Tensor, " b"],
    *,
    method: str,
    diagnostics: dict[str, object],
) -> Joint:
    """N / (1 / r_a + 1 / r_b), normalised."""
    form = Sum(torch.zeros_like(log_a), torch.zeros_like(log_b), -log_a, -log_b)
    return PairJoint(form, tables, method=method, diagnostics=diagnostics)


def check_pseudo_counts(strength: object) -> None:
    """Refuse a strength that is not a number from zero."""
    number = real_number(strength)
    if number is None or not 0 <= number < math.inf:
        raise MethodError(f"pseudo_counts is a number from 0, not {quoted(strength)}")


def check_towards(towards: object) -> None:
    """Refuse a prior that is not there."""
    if towards not in TOWARDS:
        raise MethodError(f"towards is {' or '.join(TOWARDS)}, not {quoted(towards)}")


def _start(tables: PairTables) -> tuple[Tensor, Tensor, str]:
    # the minimum is unique: where to start decides only how soon it is reached
    if tables.has_masked():
        return tables.masked.log_a, tables.masked.log_b, "doubly masked"
    device = tables.both()[0].logits.device
    uniform = [
        torch.full((len(axis),), -math.log(len(axis)), dtype=torch.float64, device=device)
        for axis in tables.supports
    ]
    return uniform[0], uniform[1], "uniform"
