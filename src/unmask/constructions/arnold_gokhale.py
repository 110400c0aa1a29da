"""The joint whose conditionals are nearest to the model's: Arnold & Gokhale (1998)."""

import torch

from unmask.constructions.construction import COUNTS_ALL, Construction
from unmask.constructions.solvers.fits import (
    Factors,
    log_masked_others,
    solve_contest,
    starting_point,
)
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Sum
from unmask.joints.joint import Joint
from unmask.names import PSEUDO_COUNTS, TOWARDS
from unmask.tables.protocol import Tables


def arnold_gokhale(
    tables: Tables, *, pseudo_counts: float = PSEUDO_COUNTS, towards: str = TOWARDS[0]
) -> Joint:
    """Minimise the KL from the model's conditionals to the joint's, to convergence.

    The minimum is N / sum_t 1 / r_t with N = sum_t q_t, where r_t are the marginals over all blanks
    but t, which `solvers.fits` finds; the diagnostics report how many sweeps over the tables it
    took, whether it converged, and the residual.

    `pseudo_counts` pulls the marginals of two blanks, with the weight of that many contexts,
    towards the answers with both blanks masked, or towards uniform ones (`towards`).
    """
    start = starting_point(tables)
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
    fit = solve_contest(tables, start, pull=pull)
    facts: dict[str, object] = {"start": "doubly masked" if tables.has_masked() else "uniform"}
    if len(tables.shape) == 2:
        facts |= {"pseudo_counts": float(pseudo_counts)}
    if pseudo_counts:
        facts |= {"towards": towards}
    return nearest_joint(tables, fit.log_others, "ag", facts | fit.solution.diagnostics())


def weighted_arnold_gokhale(tables: Tables) -> Joint:
    """The same, with each context weighted by its probability under the fully masked model.

    ``sum_t m_-t q_t / sum_t m_-t / r_t``: contexts that hardly occur no longer count as much as
    those that do.
    """
    log_weights = log_masked_others(tables)
    # a contest is fought with r over the weight, which at the start is one
    start = tuple(torch.zeros_like(log) for log in log_weights)
    fit = solve_contest(tables, start, log_weights)
    form = Sum(log_weights, tuple(-log for log in fit.log_others))
    facts = {"start": "doubly masked", **fit.solution.diagnostics()}
    return form_joint(form, tables, method="weighted-ag", diagnostics=facts)


def nearest_joint(
    tables: Tables, log_others: Factors, method: str, facts: dict[str, object]
) -> Joint:
    """N / sum_t 1 / r_t, normalised."""
    form = Sum(
        tuple(torch.zeros_like(log) for log in log_others), tuple(-log for log in log_others)
    )
    return form_joint(form, tables, method=method, diagnostics=facts)


AG = Construction(
    arnold_gokhale,
    "the joint whose conditionals are nearest to the model's (Arnold & Gokhale)",
    solver="contest",
    sound=True,
    of_two=("pseudo_counts", "towards"),
    unsketched=COUNTS_ALL,
)
WEIGHTED_AG = Construction(
    weighted_arnold_gokhale,
    "the same with likely contexts counting more",
    solver="contest",
    sound=True,
    unsketched=COUNTS_ALL,
)
