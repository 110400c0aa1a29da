"""The constructions for any number of blanks: each a function from tables to log scores.

Over two blanks each is the construction of the same name in `unmask.constructions`.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.constructions import several_contests as bradley_terry
from unmask.constructions.options import unknown_option
from unmask.constructions.orders import check_mean
from unmask.constructions.paper_steps import check_steps
from unmask.constructions.solvers import several_stationary as stationary
from unmask.errors import MethodError
from unmask.joints.agreement import Agreement
from unmask.joints.joint import Joint
from unmask.printable import quoted
from unmask.tables.candidate_tables import BlankTables
from unmask.tables.contexts import FREE, MASKED, Content, Contexts
from unmask.text.support import Token

Scores = Float[Tensor, "*shape"]
Built = tuple[Scores, dict[str, object]]


def independent(tables: BlankTables) -> Built:
    """Multiply the fully masked distributions: what filling every blank at once assumes."""
    return _sum_over_blanks(tables, tables.log_masked), {}


def markov_field(tables: BlankTables) -> Built:
    """Multiply all conditionals and renormalise: the MRF of Wang & Cho (2019)."""
    return _sum_over_blanks(tables, tables.log_given_others), {}


def markov_field_of_logits(tables: BlankTables) -> Built:
    """The same from raw logits: not a function of the model's distributions."""
    return _sum_over_blanks(tables, tables.logits_given_others), {}


def besag(
    tables: BlankTables,
    *,
    pivot: Sequence[Token] | None = None,
    path: Sequence[int] | None = None,
) -> Built:
    """Walk from a pivot fill to every other, a blank at a time (Besag 1974).

    log p(x) / p(pivot) is the sum over the blanks of log q(x_t | c) - log q(pivot_t | c), where c
    holds x in the blanks walked before and the pivot in those to come. Exact for compatible
    conditionals whatever the path. The default path goes from the last blank to the first, which
    for two blanks is the paper's; the default pivot is the mode of each fully masked distribution.
    """
    steps = checked_path(path, tables.blanks)
    places = _pivot_places(tables, pivot)
    scores = torch.zeros(tables.shape, dtype=torch.float64)
    for k, outcome in enumerate(steps):
        contents: list[Content] = list(places)
        contents[outcome] = MASKED
        for walked in steps[:k]:
            contents[walked] = FREE
        log_given = tables.log_given(Contexts(tuple(contents)), outcome)
        scores = scores + log_given - log_given.narrow(outcome, places[outcome], 1)
    names = [s.names[place] for s, place in zip(tables.supports, places, strict=True)]
    return scores, {"pivot": names, "path": list(steps)}


def orders(tables: BlankTables, *, mean: str = "arithmetic") -> Built:
    """Average the factorisations of all orders in which the blanks can be filled.

    Summed over sets of filled blanks instead of orders: the mean over the orders of a set is the
    mean, over the blank that was filled last, of that blank's conditional and the orders before.
    """
    check_mean(mean)
    average = _arithmetic if mean == "arithmetic" else _geometric
    return average(tables).expand(tables.shape), {
        "mean": mean,
        "orders": math.factorial(tables.blanks),
    }


def _arithmetic(tables: BlankTables) -> Scores:
    so_far: dict[tuple[int, ...], Tensor] = {(): torch.zeros((), dtype=torch.float64)}
    for size in range(1, tables.blanks + 1):
        for filled in itertools.combinations(range(tables.blanks), size):
            last = [
                so_far[_without(filled, t)] + tables.log_given_filled(_without(filled, t), t)
                for t in filled
            ]
            so_far[filled] = torch.stack(last).logsumexp(dim=0) - math.log(size)
    return so_far[tuple(range(tables.blanks))]


def _geometric(tables: BlankTables) -> Scores:
    """The mean of log-probabilities: a blank is filled after a given set in so many orders."""
    total, blanks = torch.zeros((), dtype=torch.float64), tables.blanks
    for size in range(blanks):
        weight = math.factorial(size) * math.factorial(blanks - 1 - size) / math.factorial(blanks)
        for filled in itertools.combinations(range(blanks), size):
            for t in (t for t in range(blanks) if t not in filled):
                total = total + weight * tables.log_given_filled(filled, t)
    return total


def _without(filled: tuple[int, ...], blank: int) -> tuple[int, ...]:
    return tuple(t for t in filled if t != blank)


def _sum_over_blanks(tables: BlankTables, part: Callable[[int], Tensor]) -> Scores:
    total = torch.zeros((), dtype=torch.float64)
    for t in range(tables.blanks):
        total = total + part(t)
    return total.expand(tables.shape)


def _pivot_places(tables: BlankTables, pivot: Sequence[Token] | None) -> list[int]:
    if pivot is None:
        return [int(tables.log_masked(t).argmax()) for t in range(tables.blanks)]
    if isinstance(pivot, str) or not isinstance(pivot, Sequence) or len(pivot) != tables.blanks:
        raise MethodError(
            f"the pivot of {tables.blanks} blanks is a list of as many tokens, not {quoted(pivot)}"
        )
    return [support.index(token) for support, token in zip(tables.supports, pivot, strict=True)]


def checked_path(path: object, blanks: int) -> tuple[int, ...]:
    """The blanks in the order that a path walks them."""
    if path is None:
        return tuple(reversed(range(blanks)))
    steps = [whole_number(step) for step in path] if isinstance(path, Sequence) else []
    known = tuple(step for step in steps if step is not None)
    if len(known) != len(steps) or sorted(known) != list(range(blanks)):
        raise MethodError(f"path names blanks 0 to {blanks - 1}, each once, not {quoted(path)}")
    return known


CONSTRUCTIONS: dict[str, Callable[..., Built]] = {
    "mlm": independent,
    "mrf": markov_field,
    "mrf-logit": markov_field_of_logits,
    "hcb": besag,
    "ag-paper": bradley_terry.paper_steps,
    "ag": bradley_terry.arnold_gokhale,
    "weighted-ag": bradley_terry.weighted_arnold_gokhale,
    "pseudo-gibbs": stationary.pseudo_gibbs,
    "log-pool": stationary.log_pool,
    "orders": orders,
}


def check_several(method: str, options: Mapping[str, object]) -> None:
    """Refuse what there is only for two blanks, and bad values, before anything is paid."""
    if method not in CONSTRUCTIONS:
        raise MethodError(
            f"{method} takes two blanks; for more there are {', '.join(CONSTRUCTIONS)}"
        )
    parameters = inspect.signature(CONSTRUCTIONS[method]).parameters
    allowed = [n for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in allowed:
            raise MethodError(
                f"{method} of more than two blanks has no {unknown_option(option, allowed)}"
            )
    if "mean" in options:
        check_mean(options["mean"])
    if "steps" in options:
        check_steps(options["steps"])


def construct(method: str, tables: BlankTables, **options: object) -> Joint:
    """Build a joint from tables by the short name of its construction."""
    check_several(method, options)
    scores, found = CONSTRUCTIONS[method](tables, **options)
    log_joint = scores - torch.logsumexp(scores.reshape(-1), dim=0)
    held = tables.mass_given_others(log_joint)
    joint = Joint.from_scores(
        scores.contiguous(),
        tables.supports,
        method=method,
        diagnostics={
            **tables.diagnostics(),
            **({} if held is None else {"captured_mass_given_others": held}),
            **found,
        },
    )
    joint.measure_agreement = partial(_agreement, tables)
    return joint


def _agreement(tables: BlankTables) -> Agreement | None:
    """J of several blanks, if all their tables are there: asked for later, and only then."""
    if not tables.holds_all():
        return None
    found = tables.remember("agreement", lambda: stationary.agreement(tables))
    assert isinstance(found, Agreement)
    return found
