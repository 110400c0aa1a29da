"""The two shapes that every construction has: a product of both conditionals, or a sum of them.

A construction finds a few numbers a token; with them, its joint is one of these. Whoever sums over
the tables can therefore do so for all joints at once, without knowing how they came about.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.tables.pair_tables import PairTables


@dataclass(frozen=True, eq=False)
class Product:
    """q(a | b)^s q(b | a)^t f_a g_b, with the powers s and t and factors given as logarithms."""

    power_a_given_b: float
    power_b_given_a: float
    log_a: Float[Tensor, " a"]
    log_b: Float[Tensor, " b"]

    @property
    def device(self) -> torch.device:
        """Where its numbers are."""
        return self.log_a.device

    def scores(self, tables: PairTables, rows: slice) -> Float[Tensor, "block b"]:
        """The unnormalised log joint of some rows; a table of power zero is not asked for."""
        scores = self.log_a[rows, None] + self.log_b
        if self.power_a_given_b:
            scores = scores.add_(tables.tile(rows).log_a_given_b, alpha=self.power_a_given_b)
        if self.power_b_given_a:
            scores = scores.add_(tables.tile(rows).log_b_given_a, alpha=self.power_b_given_a)
        return scores


@dataclass(frozen=True, eq=False)
class Sum:
    """(q(a | b) u_b + q(b | a) v_a) / (p_a + p_b), all given as logarithms.

    Without `log_over_a` and `log_over_b` nothing is divided by.
    """

    log_times_a: Float[Tensor, " a"]
    log_times_b: Float[Tensor, " b"]
    log_over_a: Float[Tensor, " a"] | None = None
    log_over_b: Float[Tensor, " b"] | None = None

    @property
    def device(self) -> torch.device:
        """Where its numbers are."""
        return self.log_times_a.device

    def scores(self, tables: PairTables, rows: slice) -> Float[Tensor, "block b"]:
        """The unnormalised log joint of some rows."""
        tile = tables.tile(rows)
        scores = torch.logaddexp(
            tile.log_a_given_b + self.log_times_b,
            tile.log_b_given_a + self.log_times_a[rows, None],
        )
        if self.log_over_a is None or self.log_over_b is None:
            return scores
        return scores.sub_(torch.logaddexp(self.log_over_a[rows, None], self.log_over_b))


Form = Product | Sum
