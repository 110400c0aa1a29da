"""The two shapes that every construction has: a product of all conditionals, or a sum of them.

A construction finds a few numbers per context; with them, its joint is one of these. Sums over the
tables can therefore be taken for all joints at once, without knowing how they came about. Written
for any number of blanks: q_t is the conditional of blank t given all others, and every tensor has
one axis per blank, of size 1 where it does not depend on that blank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import MethodError
from unmask.tables.protocol import Tables

Factor = Float[Tensor, "..."]


@dataclass(frozen=True, eq=False)
class Product:
    """prod_t q_t^power_t times factors, given as logarithms and never as a full table."""

    powers: tuple[float, ...]
    log_factors: tuple[Factor, ...] = ()

    def parts(self) -> tuple[Factor, ...]:
        """Its tensors."""
        return self.log_factors

    def scores(self, tables: Tables, rows: slice) -> Float[Tensor, " block *others"]:
        """The unnormalised log joint of some rows; a table of power zero is not read."""
        terms = [_some(factor, rows) for factor in self.log_factors]
        for outcome, power in enumerate(self.powers):
            if power:
                term = tables.log_given_others(outcome, rows)
                terms.append(term if power == 1 else power * term)
        block = len(range(*rows.indices(tables.shape[0])))
        return reduce(torch.add, terms).expand(block, *tables.shape[1:])


@dataclass(frozen=True, eq=False)
class Sum:
    """sum_t q_t exp(log_times_t), over sum_t exp(log_over_t) if that is given.

    What belongs to blank t has size 1 along it.
    """

    log_times: tuple[Factor, ...]
    log_over: tuple[Factor, ...] | None = None

    def parts(self) -> tuple[Factor, ...]:
        """Its tensors."""
        return (*self.log_times, *(self.log_over or ()))

    def scores(self, tables: Tables, rows: slice) -> Float[Tensor, " block *others"]:
        """The unnormalised log joint of some rows."""
        scores = reduce(
            torch.logaddexp,
            (
                tables.log_given_others(outcome, rows) + _some(log_times, rows)
                for outcome, log_times in enumerate(self.log_times)
            ),
        )
        if self.log_over is None:
            return scores
        return scores - reduce(torch.logaddexp, (_some(over, rows) for over in self.log_over))


Form = Product | Sum
_FIELDS_OF_A_SUM = ("log_times", "log_over")


def check_covers(form: Form, shape: Sequence[int], method: str) -> None:
    """Raise for a form of other blanks than those of the tables, before it is expanded to them."""
    blanks, fields = len(shape), ("powers",) if isinstance(form, Product) else _FIELDS_OF_A_SUM
    for field in fields:
        values = getattr(form, field)
        if values is not None and len(values) != blanks:
            raise MethodError(
                f"{method} gave a {type(form).__name__} with {len(values)} {field} for {blanks} "
                "blanks; give one per blank"
            )
    for part in form.parts():
        sizes = tuple(part.shape)
        if len(sizes) != blanks or any(
            one not in (1, whole) for one, whole in zip(sizes, shape, strict=True)
        ):
            raise MethodError(
                f"{method} gave a factor of shape {sizes} for axes of {tuple(shape)}; give it one "
                "axis per blank, of that size or of 1"
            )
    is_read = isinstance(form, Sum) or any(form.powers)
    for axis, size in enumerate(shape):
        if not is_read and size > 1 and all(part.shape[axis] == 1 for part in form.parts()):
            raise MethodError(
                f"no factor of what {method} gave depends on blank {axis}, and no table is read; "
                "give a factor along each blank"
            )


def _some(factor: Factor, rows: slice) -> Factor:
    return factor if factor.shape[0] == 1 else factor[rows]
