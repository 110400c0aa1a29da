"""One sweep of pseudo-Gibbs from the doubly masked marginals, over the likeliest contexts only."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.constructions.construction import Construction, Given
from unmask.constructions.needs import Needs
from unmask.joints.joint import Joint
from unmask.joints.lazy_pair import LazyPair
from unmask.logspace import log_sum_exp_by_column, log_zeros, row_blocks
from unmask.names import CONTEXTS, FLOOR
from unmask.tables.pair_tables import PairTables

GivenContexts = Callable[[Sequence[int]], Tensor]


def sweep(tables: PairTables, *, contexts: int = CONTEXTS, floor: float = FLOOR) -> Joint:
    """(q(a | b) r_b + q(b | a) r_a) / 2 with marginals swept from the likeliest contexts.

    r_b is the mean of q(b | a) over the `contexts` likeliest a of the doubly masked model, weighted
    by their probability, mixed with a share `floor` of the masked marginal itself; r_a likewise. It
    needs no normaliser, and takes 2 * contexts + 3 forward passes per pair.
    """
    masked, (first, second) = tables.masked, (_log_contexts(tables, blank) for blank in (0, 1))
    log_b, covered_a = _swept(first, masked.log_b, tables.log_b_given, contexts, floor)
    log_a, covered_b = _swept(second, masked.log_a, tables.log_a_given, contexts, floor)
    return Joint(
        LazyPair(tables, log_a, log_b),
        tables.supports,
        method="sweep",
        diagnostics={
            **tables.diagnostics(),
            "contexts": int(contexts),
            "floor": float(floor),
            "mass_of_contexts": [covered_a, covered_b],
        },
    )


def _likeliest(log_p: Float[Tensor, " size"], contexts: int) -> Tensor:
    """The likeliest contexts; on equal probabilities the lower index comes first."""
    return torch.sort(log_p, descending=True, stable=True).indices[:contexts]


def _log_contexts(tables: PairTables, blank: int) -> Float[Tensor, " size"]:
    log_p = tables.masked.log_b if blank else tables.masked.log_a
    weights = tables.supports[blank].log_weights
    # in a sketch: tokens of its head, not those that represent many
    return log_p if weights is None else log_p.masked_fill(weights != 0, -math.inf)


def _swept(
    log_context: Tensor, log_outcome: Tensor, log_given: GivenContexts, contexts: int, floor: float
) -> tuple[Tensor, float]:
    """The swept log marginal of one blank, and the mass of the contexts it was swept from."""
    chosen = _likeliest(log_context, contexts)
    log_weight = log_context[chosen]
    log_mass = torch.logsumexp(log_weight, dim=0)
    log_mean = log_zeros(len(log_outcome), device=log_outcome.device)
    for block in row_blocks(len(chosen), len(log_outcome)):
        rows = log_given(chosen[block].tolist()) + (log_weight[block] - log_mass)[:, None]
        log_mean = log_sum_exp_by_column(log_mean, rows)
    mixed = torch.logaddexp(log_mean + math.log1p(-floor), log_outcome + math.log(floor))
    return mixed, min(1.0, float(log_mass.exp()))


def _contexts(tables: PairTables, options: Given) -> tuple[list[int], list[int]]:
    first, second = (
        _likeliest(log_p, _count(options)).tolist()
        for log_p in (tables.masked.log_a, tables.masked.log_b)
    )
    return first, second


def _count(options: Given) -> int:
    return whole_number(options.get("contexts")) or CONTEXTS


def _needs(shape: tuple[int, ...], options: Given) -> Needs:
    contexts = _count(options)
    return Needs(masked=True, some=tuple(1 + min(contexts, size) for size in reversed(shape)))


SWEEP = Construction(
    sweep,
    "one sweep of pseudo-Gibbs over the likeliest contexts: no tables",
    _needs,
    only_two=True,
    unsketched="",
    contexts=_contexts,
)
