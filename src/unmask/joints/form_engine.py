"""An engine over a form of both tables."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import SupportError
from unmask.joints.engine import Engine
from unmask.joints.forms import Factor, Form, Product, fitted
from unmask.joints.joint import Joint
from unmask.printable import readable_bytes
from unmask.tables.candidate_tables import CandidateTables
from unmask.tables.pair_tables import PairTables
from unmask.tables.protocol import Tables


class FormEngine(Engine):
    """The distribution of two blanks that a form gives over their tables."""

    def __init__(self, form: Form, tables: PairTables) -> None:
        factors = form.log_factors if isinstance(form, Product) else form.log_times
        device = factors[0].device if factors else tables.a_given_b.logits.device
        log_marginals = None
        if isinstance(form, Product) and not any(form.powers):
            log_marginals = _of_independent(factors, tables.shape)
        super().__init__(
            tables.shape,
            partial(form.scores, tables),
            device,
            log_marginals=log_marginals,
            independent=log_marginals is not None,
        )
        self.form, self.tables = form, tables

    def log_marginal(
        self, axes: Sequence[int], given: Mapping[int, int] | None = None
    ) -> Float[Tensor, "..."]:
        """Log-sums over the blanks that are not named; a table of both must fit into memory."""
        rows, columns = self.shape
        needed, limit = 8 * rows * columns, self.tables.memory_limit
        if len(axes) == 2 and needed > limit:
            raise SupportError(
                f"marginal{tuple(axes)} makes a table of {rows} x {columns} cells, "
                f"{readable_bytes(needed)}, above the memory limit of {readable_bytes(limit)}; "
                "raise the memory limit, or take marginal(0, 1), which makes none"
            )
        return super().log_marginal(axes, given)


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


def form_joint(
    form: Form, tables: Tables, *, method: str, diagnostics: Mapping[str, object]
) -> Joint:
    """The joint that a form gives over tables: of two blanks streamed, of more tabulated."""
    form = fitted(form, tables.shape, method)
    facts = {**tables.diagnostics(), **diagnostics}
    if isinstance(tables, PairTables):
        return Joint(FormEngine(form, tables), tables.supports, method=method, diagnostics=facts)
    scores = form.scores(tables, slice(None)).contiguous()
    if isinstance(tables, CandidateTables):
        held = tables.mass_given_others(scores - torch.logsumexp(scores.reshape(-1), dim=0))
        facts |= {} if held is None else {"captured_mass_given_others": held}
    return Joint(Engine.of_table(scores), tables.supports, method=method, diagnostics=facts)
