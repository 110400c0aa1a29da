"""An engine over a form of both tables."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import SupportError
from unmask.joints.engine import Engine
from unmask.joints.forms import Form, Product, fitted
from unmask.joints.joint import Joint
from unmask.lazy import computed_once
from unmask.printable import readable_bytes
from unmask.tables.candidate_tables import CandidateTables
from unmask.tables.pair_tables import PairTables
from unmask.tables.protocol import Tables


class FormEngine(Engine):
    """The distribution of two blanks that a form gives over their tables."""

    def __init__(self, form: Form, tables: PairTables) -> None:
        parts = form.parts()
        device = parts[0].device if parts else tables.a_given_b.logits.device
        super().__init__(tables.shape, partial(form.scores, tables), device)
        self.form, self.tables = form, tables

    @computed_once
    def log_marginals(self) -> tuple[Tensor, ...]:
        """Log-sums over the other blank; those of independent blanks need no cells."""
        if not self.is_independent():
            return super().log_marginals
        logs = [torch.zeros(n, dtype=torch.float64, device=self.device) for n in self.shape]
        for factor in self.form.parts():
            axis = int(factor.shape[1] > 1)
            logs[axis] = logs[axis] + factor.flatten()
        return logs[0] + torch.logsumexp(logs[1], 0), logs[1] + torch.logsumexp(logs[0], 0)

    @computed_once
    def entropy(self) -> float:
        """Shannon entropy of the normalised joint, in nats."""
        if not self.is_independent():
            return super().entropy
        each = [(log - self.log_normalizer).clamp(min=-1e300) for log in self.log_marginals]
        return sum(float(-(log.exp() * log).sum()) for log in each)

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

    def is_independent(self) -> bool:
        """Whether the blanks are independent of each other: no table matters."""
        tables_matter = not isinstance(self.form, Product) or any(self.form.powers)
        return not tables_matter and all(1 in factor.shape for factor in self.form.parts())


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
