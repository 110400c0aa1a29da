"""The two shapes that every construction has: a product of all conditionals, or a sum of them.

A construction finds a few numbers per context; with them, its joint is one of these. Sums over the
tables can therefore be taken for all joints at once, without knowing how they came about. Written
for any number of blanks: q_t is the conditional of blank t given all others, and every tensor has
one axis per blank, of size 1 where it does not depend on that blank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import MethodError
from unmask.printable import quoted
from unmask.tables.protocol import Tables

Factor = Float[Tensor, "..."]


@dataclass(frozen=True, eq=False)
class Product:
    """prod_t q_t^power_t times factors, given as logarithms and never as a full table."""

    powers: tuple[float, ...]
    log_factors: tuple[Factor, ...] = ()

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


def fitted(form: Form, shape: Sequence[int], method: str) -> Form:
    """The form in float64; raises for one of other blanks than those of the tables.

    It is checked before it is expanded to them, or a sum over nothing would look like a joint.
    """
    blanks, what = len(shape), f"{method} gave a {type(form).__name__} with"
    parts: dict[str, Any] = {}
    for field in fields(form):
        if (values := getattr(form, field.name)) is None:
            continue
        if field.name != "log_factors" and len(values) != blanks:
            raise MethodError(
                f"{what} {len(values)} {field.name} for {blanks} blanks; give one per blank"
            )
        for blank, part in enumerate(values if field.name != "powers" else ()):
            # what belongs to a blank of a sum depends on the others alone
            whole = list(shape)
            if isinstance(form, Sum):
                whole[blank] = 1
            sizes = tuple(part.shape) if isinstance(part, torch.Tensor) else ()
            pairs = zip(sizes, whole, strict=False)
            if len(sizes) != blanks or any(size not in (1, most) for size, most in pairs):
                raise MethodError(
                    f"{what} {field.name} of {quoted(sizes or part)} for axes of {tuple(shape)}; "
                    f"give a tensor with one axis per blank, of {' and '.join(map(str, whole))} or "
                    "of 1"
                )
        if field.name != "powers":
            parts[field.name] = tuple(part.to(torch.float64) for part in values)
    if isinstance(form, Product) and not any(form.powers):
        for blank, size in enumerate(shape):
            if size > 1 and all(part.shape[blank] == 1 for part in form.log_factors):
                raise MethodError(
                    f"no factor of what {method} gave depends on blank {blank}, and no table is "
                    "read; give a factor along each blank"
                )
    return replace(form, **parts)


def _some(factor: Factor, rows: slice) -> Factor:
    return factor if factor.shape[0] == 1 else factor[rows]
