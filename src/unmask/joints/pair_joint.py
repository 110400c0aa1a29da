"""A joint over both tables, of one of the forms; compiled passes sum over it where they can."""

from collections.abc import Mapping
from functools import cached_property, partial

import torch
from torch import Tensor

from unmask.errors import SupportError
from unmask.joints.form_sums import Reductions, can_compile, compiled_for, compiled_reductions
from unmask.joints.forms import Form, Sum
from unmask.joints.joint import Joint
from unmask.printable import readable_bytes
from unmask.tables.pair_tables import PairTables


class PairJoint(Joint):
    """The distribution of two blanks that a form gives over their tables."""

    def __init__(
        self,
        form: Form,
        tables: PairTables,
        *,
        method: str,
        diagnostics: Mapping[str, object],
    ) -> None:
        self.form, self._tables = form, tables
        super().__init__(
            # not a method: a joint that holds itself is not freed, nor are its tables; and not a
            # lambda, which could not be pickled
            partial(form.scores, tables),
            tables.supports,
            method=method,
            diagnostics={**tables.diagnostics(), **diagnostics},
            device=form.device,
        )

    def is_over(self, tables: PairTables) -> bool:
        """Whether these are the tables that it was made of."""
        return self._tables is tables

    @cached_property
    def _reductions(self) -> Reductions | None:
        if not (can_compile(self.form) and compiled_for(self._tables)):
            return None
        forms = {self.method: self.form}
        return compiled_reductions(forms, self._tables, entropies=True)[0][self.method]

    @cached_property
    def _log_marginals(self) -> tuple[Tensor, ...]:
        if (apart := self._factors()) is not None:
            log_total_a, log_total_b = (torch.logsumexp(log, 0) for log in apart)
            return apart[0] + log_total_b, apart[1] + log_total_a
        found = self._reductions
        return super()._log_marginals if found is None else (found.log_a, found.log_b)

    @cached_property
    def _entropy(self) -> float:
        if self._factors() is not None:
            return sum(self.marginal(axis).entropy() for axis in (0, 1))
        found = self._reductions
        known = None if found is None else found.entropy
        return super()._entropy if known is None else known

    def _check_room(self, axes: tuple[int, ...]) -> None:
        rows, columns = self.shape
        needed, limit = 8 * rows * columns, self._tables.memory_limit
        if len(axes) == 2 and needed > limit:
            raise SupportError(
                f"marginal{axes} makes a table of {rows} x {columns} cells, "
                f"{readable_bytes(needed)}, above the memory limit of {readable_bytes(limit)}; "
                "raise the memory limit, or take marginal(0, 1), which makes none"
            )

    def _factors(self) -> tuple[Tensor, Tensor] | None:
        """The factors of independent blanks; None where the tables matter."""
        form = self.form
        if isinstance(form, Sum) or form.power_a_given_b or form.power_b_given_a:
            return None
        return form.log_a, form.log_b
