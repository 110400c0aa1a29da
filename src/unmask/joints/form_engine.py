"""Joints of forms over tables."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unmask.joints.engine import Engine
from unmask.joints.forms import Factor, Form, Product, fitted
from unmask.joints.joint import Joint
from unmask.tables.candidate_tables import CandidateTables
from unmask.tables.pair_tables import PairTables
from unmask.tables.protocol import Tables


def form_joint(
    form: Form, tables: Tables, *, method: str, diagnostics: Mapping[str, object]
) -> Joint:
    """The joint that a form gives over tables: of two blanks streamed, of more tabulated."""
    form = fitted(form, tables.shape, method)
    facts = {**tables.diagnostics(), **diagnostics}
    if isinstance(tables, PairTables):
        engine = streamed(form, tables)
    else:
        scores = form.scores(tables, slice(None)).contiguous()
        engine = Engine.of_table(scores)
        if isinstance(tables, CandidateTables):
            held = tables.mass_given_others(scores - torch.logsumexp(scores.reshape(-1), dim=0))
            facts |= {} if held is None else {"captured_mass_given_others": held}
    return Joint(engine, tables.supports, method=method, diagnostics=facts)


def streamed(form: Form, tables: PairTables) -> Engine:
    """The sums of a form over both tables, from blocks of rows; of factors alone without them."""
    factors = form.log_factors if isinstance(form, Product) else form.log_times
    facts: dict[str, Any] = {"memory_limit": tables.memory_limit}
    if isinstance(form, Product) and not any(form.powers):
        log_marginals = _of_independent(factors, tables.shape)
        facts |= {"log_marginals": log_marginals, "independent": log_marginals is not None}
    device = factors[0].device if factors else tables.a_given_b.logits.device
    return Engine(tables.shape, partial(form.scores, tables), device, **facts)


def _of_independent(
    factors: Sequence[Factor], shape: tuple[int, int]
) -> tuple[Tensor, Tensor] | None:
    """Log-sums over the other blank without any cell; None where a factor depends on both."""
    if not all(1 in factor.shape for factor in factors):
        return None
    logs = [torch.zeros(n, dtype=torch.float64, device=factors[0].device) for n in shape]
    for factor in factors:
        axis = int(factor.shape[1] > 1)
        logs[axis] = logs[axis] + factor.flatten()
    return logs[0] + torch.logsumexp(logs[1], 0), logs[1] + torch.logsumexp(logs[0], 0)
