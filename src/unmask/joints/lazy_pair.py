"""A joint that is an even mixture of two orders of filling, so that a little of it is cheap.

(q(a | b) r_b + q(b | a) r_a) / 2 with given marginals r is normalised as it stands. A pair needs
one context of each table; ranking and sampling need a few; only sums over a whole blank (marginals,
conditionals, entropy) need the tables themselves.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.joints.engine import Engine, Scored, best_cells
from unmask.joints.forms import Sum
from unmask.logspace import draw, highest, row_blocks
from unmask.tables.pair_tables import PairTables

# contexts that are read at once when ranking
_BATCH = 16


class LazyPair(Engine):
    """An even mixture of both orders, that reads contexts as it needs them."""

    def __init__(
        self, tables: PairTables, log_a: Float[Tensor, " a"], log_b: Float[Tensor, " b"]
    ) -> None:
        self._log, self.tables = (log_a, log_b), tables
        half = math.log(2)
        form, limit = Sum((log_b[None] - half, log_a[:, None] - half)), tables.memory_limit
        scores = partial(form.scores, tables)
        super().__init__(tables.shape, scores, log_a.device, memory_limit=limit)

    @property
    def log_normalizer(self) -> float:
        """Zero: both orders are normalised, and so is their mean."""
        return 0.0

    def diagnostics(self) -> dict[str, object]:
        """The cost of the tables so far: it grows with what is computed."""
        return self.tables.diagnostics()

    def is_tabulated(self) -> bool:
        """True if the tables themselves are there: nothing less will do for a sum."""
        return self.tables.holds_all()

    def sample(self, n: int, generator: torch.Generator | None) -> list[Scored]:
        """Independent exact samples: an order, the token it fills first, then the other.

        Reads the contexts it draws from and both contexts of what it drew, or the tables if that is
        less; a seed gives the same draws only while the tables are not there.
        """
        if self.tables.holds_all() or 3 * n > sum(self.shape):
            return super().sample(n, generator)
        uniforms = torch.rand(3, n, dtype=torch.float64, generator=generator).to(self.device)
        a_first = uniforms[0] < 0.5
        log_a, log_b = self._log
        cells = torch.where(a_first, draw(log_a, uniforms[1]), draw(log_b, uniforms[1]))
        pairs = torch.stack([cells, cells])
        for first in (0, 1):
            which = torch.nonzero(a_first == (first == 0))[:, 0]
            for drawn, row in self._by_context(first, cells, which):
                pairs[1 - first, drawn] = draw(row, uniforms[2, drawn])
        places = [(int(a), int(b)) for a, b in pairs.T]
        return list(zip(places, self.scores_of(pairs.T).tolist(), strict=True))

    def scores_of(self, cells: Int[Tensor, "cells 2"]) -> Float[Tensor, " cells"]:
        """Log-probabilities of pairs, from one context of each table per distinct token."""
        pairs = cells.T.to(self.device)
        every = torch.arange(pairs.shape[1], device=pairs.device)
        log_orders = torch.empty(pairs.shape, dtype=torch.float64, device=self.device)
        for first in (0, 1):
            for which, row in self._by_context(first, pairs[first], every):
                log_context = self._log[first][pairs[first, which]]
                log_orders[first, which] = row[pairs[1 - first, which]] + log_context
        return _mixed(log_orders[1], log_orders[0]).cpu()

    def _by_context(
        self, blank: int, tokens: Int[Tensor, " n"], which: Int[Tensor, " some"]
    ) -> Iterator[tuple[Int[Tensor, " k"], Float[Tensor, " outcomes"]]]:
        """Each distinct token of a blank: where it stands among `which`, and what it makes likely.

        A few contexts at a time: a distribution per draw would not fit a large vocabulary.
        """
        rows_of = self.tables.log_a_given if blank else self.tables.log_b_given
        contexts, place = torch.unique(tokens[which], return_inverse=True)
        for block in row_blocks(len(contexts), self.shape[1 - blank]):
            for k, row in enumerate(rows_of(contexts[block].tolist()), start=block.start):
                yield which[place == k], row

    def best(self, n: int) -> list[Scored]:
        """The likeliest pairs, certified: nothing that was not looked at can be among them.

        A pair of which a context has not been read is at most what the other context says,
        with a probability of one in its place. Contexts are read until every such bound is
        below the last of the list.
        """
        # the rows of contexts that have been read, by the blank that they are of and their token
        rows: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})
        bounds, least = self._log, -math.inf
        # beyond this the tables themselves, which are kept factored, take less memory
        most = max(self.tables.memory_left() // (4 * 8 * max(self.shape)), 2 * _BATCH)
        while not self.tables.holds_all() and sum(map(len, rows)) <= most:
            for blank, rows_of in enumerate((self.tables.log_b_given, self.tables.log_a_given)):
                new = [t for t in _highest(bounds[blank], least) if t not in rows[blank]]
                if new:
                    rows[blank].update(zip(new, rows_of(new), strict=True))
            # in the order of the axes, which decides between ties
            a, b = (sorted(of_blank) for of_blank in rows)
            forth = torch.stack([rows[1][token][a] for token in b], dim=1) + self._log[1][b]
            back = torch.stack([rows[0][token][b] for token in a]) + self._log[0][a, None]
            cells = best_cells([(slice(0, len(a)), _mixed(forth, back))], n)
            least = cells[-1][1] if len(cells) == n else -math.inf
            bounds = self._bounds(rows)
            below = all(float(bound.max()) < least for bound in bounds)
            if below or (len(a), len(b)) == self.shape:
                return [((a[i], b[j]), score) for (i, j), score in cells]
        return super().best(n)

    def _bounds(self, rows: Sequence[dict[int, Tensor]]) -> tuple[Tensor, Tensor]:
        """The most likely that a pair with each unread context can be; those read have none."""
        unread = self._log[0].clone(), self._log[1].clone()
        for log_p, of_blank in zip(unread, rows, strict=True):
            log_p[list(of_blank)] = -math.inf
        bounds = []
        for blank, other in ((0, 1), (1, 0)):
            best = unread[other].max().repeat(len(unread[blank]))
            for token, row in rows[other].items():
                best = torch.maximum(best, row + self._log[other][token])
            bounds.append(_mixed(unread[blank], best))
            bounds[blank][list(rows[blank])] = -math.inf
        return bounds[0], bounds[1]


def _mixed(forth: Tensor, back: Tensor) -> Tensor:
    """The even mixture of two log-probabilities."""
    return torch.logaddexp(forth, back) - math.log(2)


def _highest(bound: Tensor, least: float) -> list[int]:
    """The contexts with the highest bounds, of those that may still matter."""
    return [c for c in highest(bound, _BATCH).tolist() if least <= bound[c] > -math.inf]
