"""The joint whose conditionals are nearest to the model's: Arnold & Gokhale (1998)."""

import math

import torch

from unmask.arguments import real_number
from unmask.constructions.construction import Construction
from unmask.constructions.solvers.fits import Factors, log_masked_others, nearest_contest
from unmask.errors import MethodError
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Sum
from unmask.joints.joint import Joint
from unmask.printable import quoted
from unmask.tables.protocol import Tables

TOWARDS = ("masked", "uniform")
# how many further contexts' worth of independence is added, unless requested otherwise
PSEUDO_COUNTS = 0.0


def arnold_gokhale(
    tables: Tables, *, pseudo_counts: float = PSEUDO_COUNTS, towards: str = "masked"
) -> Joint:
    """Minimise the KL from the model's conditionals to the joint's, to convergence.

    The minimum is N / sum_t 1 / r_t, N = sum_t q_t, with the laws r_t of the other blanks that
    `solvers.fits` finds; the diagnostics say in how many sweeps over the tables, whether it
    converged and to what residual.

    `pseudo_counts` regularises two blanks: as if each token had met that many contexts more in
    which the blanks were independent, with the doubly masked marginals or uniform ones (`towards`).
    """
    check_pseudo_counts(pseudo_counts)
    check_towards(towards)
    start, name = _start(tables)
    pull = None
    if pseudo_counts > 0:
        sides = [start[1][:, 0], start[0][0]]
        if towards == "masked":
            sides = [tables.log_masked(0)[:, 0], tables.log_masked(1)[0]]
        even = towards == "uniform"
        pull = [
            torch.full_like(side, pseudo_counts / len(side)) if even else pseudo_counts * side.exp()
            for side in sides
        ]
    found = nearest_contest(tables, tuple(torch.zeros_like(log) for log in start), start, pull)
    told: dict[str, object] = {"start": name}
    if len(tables.shape) == 2:
        told |= {"pseudo_counts": float(pseudo_counts)}
    if pseudo_counts:
        told |= {"towards": towards}
    return nearest_joint(tables, found.log_others, "ag", {**told, **found.diagnostics()})


def weighted_arnold_gokhale(tables: Tables) -> Joint:
    """The same, each context weighted by how likely the fully masked model finds it.

    ``sum_t m_-t q_t / sum_t m_-t / r_t``: contexts that hardly occur no longer count as much as
    those that do.
    """
    log_weights = log_masked_others(tables)
    # a contest is fought with r over the weight, which at the start is one
    start = tuple(torch.zeros_like(log) for log in log_weights)
    found = nearest_contest(tables, log_weights, start)
    form = Sum(log_weights, tuple(-log for log in found.log_others))
    told = {"start": "doubly masked", **found.diagnostics()}
    return form_joint(form, tables, method="weighted-ag", diagnostics=told)


def nearest_joint(
    tables: Tables, log_others: Factors, method: str, diagnostics: dict[str, object]
) -> Joint:
    """N / sum_t 1 / r_t, normalised."""
    form = Sum(
        tuple(torch.zeros_like(log) for log in log_others), tuple(-log for log in log_others)
    )
    return form_joint(form, tables, method=method, diagnostics=diagnostics)


def check_pseudo_counts(strength: object) -> None:
    """Raise for a strength that is not a number from zero."""
    number = real_number(strength)
    if number is None or not 0 <= number < math.inf:
        raise MethodError(f"pseudo_counts is a number from 0, not {quoted(strength)}")


def check_towards(towards: object) -> None:
    """Raise for a prior that is not there."""
    if towards not in TOWARDS:
        raise MethodError(f"towards is {' or '.join(TOWARDS)}, not {quoted(towards)}")


def _start(tables: Tables) -> tuple[Factors, str]:
    # the minimum is unique: where to start decides only how soon it is reached
    if tables.has_masked():
        return log_masked_others(tables), "doubly masked"
    return uniform_others(tables), "uniform"


def uniform_others(tables: Tables) -> Factors:
    """Every context of a blank equally likely."""
    blanks = range(len(tables.shape))
    like = tables.log_normalizer(0)
    shapes = [[1 if s == t else size for s, size in enumerate(tables.shape)] for t in blanks]
    return tuple(
        torch.full(one, -math.log(math.prod(one)), dtype=torch.float64, device=like.device)
        for one in shapes
    )


AG = Construction(
    arnold_gokhale,
    "the joint whose conditionals are nearest to the model's (Arnold & Gokhale)",
    solver="contest",
    sound=True,
    of_two=("pseudo_counts", "towards"),
)
WEIGHTED_AG = Construction(
    weighted_arnold_gokhale,
    "the same with likely contexts counting more",
    solver="contest",
    sound=True,
)
