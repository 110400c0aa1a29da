"""Filling blanks one after another, averaged over orders: a joint of which a little is cheap.

The mean over orders of prod q(x_t | blanks filled before) is normalised as it stands, over whole
vocabularies too. A fill's probability takes a row for every set of blanks that is filled first; a
draw takes a row per blank. The likeliest pairs are certified from a few contexts, and where the
tables are needed, for sums over a whole blank, they can be made; the likeliest fills of more blanks
are searched for with beams, and there are no such sums.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import SupportError
from unmask.joints.engine import Engine
from unmask.joints.forms import Sum
from unmask.lazy import computed_once
from unmask.logspace import Scored, best_cells, draw, highest, row_blocks
from unmask.model.row_reader import UseDistributions
from unmask.tables.beams import search
from unmask.tables.blank_reader import BlankReader, distinct, with_filled
from unmask.tables.contexts import EMPTY
from unmask.tables.pair_tables import PairTables
from unmask.tables.sizes import ALL_ORDERS_UP_TO, DRAWN_ORDERS, most_candidates

# blanks that are filled before another
Set = tuple[int, ...]
# of the orders that stand for all where there are too many
_ORDERS_SEED = 0
# contexts that are looked up at once
_STEPS_AT_ONCE = 2**16
# fills that are scored in full for every one that is requested, and at least
_SCORED_FOR_EACH, _SCORED_AT_LEAST = 3, 32
# contexts of pairs that are read at once when ranking
_BATCH = 16


class Orders(Engine):
    """The mean over orders of filling the blanks one after another, from what `_read` shows."""

    # shows a function the distributions of masked blanks of some rows, as `BlankReader.read`
    _read: Callable[..., None]
    # of the uniform numbers of a draw
    _roll = 0

    @property
    def log_normalizer(self) -> float:
        """Zero: every order is normalised, and so is their mean."""
        return 0.0

    def scores_of(self, cells: Int[Tensor, "cells blanks"]) -> Float[Tensor, " cells"]:
        """The log-probabilities of fills, a row for every set of blanks filled before another.

        Rows that they share run once.
        """
        blanks = range(len(self.shape))
        sets = sets_before(blanks)
        log_probs = torch.empty(len(cells), dtype=torch.float64)
        for block in row_blocks(len(cells), len(sets), _STEPS_AT_ONCE):
            log_probs[block] = log_mean_over_orders(self._read_steps(cells[block], sets), blanks)
        return log_probs

    def _read_steps(
        self, fills: Int[Tensor, "fills blanks"], sets: Sequence[Set]
    ) -> dict[Set, Float[Tensor, "fills blanks"]]:
        """log q(x_t | x of a set), for every set, t not in it."""
        rows, row_numbers = distinct(torch.cat([with_filled(fills, filled) for filled in sets]))
        owner = torch.arange(len(fills)).repeat(len(sets))
        log_given = torch.zeros(len(row_numbers), len(self.shape), dtype=torch.float64)
        by_row = torch.argsort(row_numbers, stable=True)
        starts = torch.searchsorted(row_numbers[by_row], torch.arange(len(rows) + 1))

        def use(which: Tensor, blank: int, log_p: Tensor) -> None:
            log_p = log_p.cpu()
            for k, row in enumerate(which.tolist()):
                mine = by_row[starts[row] : starts[row + 1]]
                log_given[mine, blank] = log_p[k, fills[owner[mine], blank]]

        self._read(rows, use)
        parts = log_given.split(len(fills))
        return dict(zip(sets, parts, strict=True))

    def sample(self, n: int, generator: torch.Generator | None) -> list[Scored]:
        """Independent exact draws: an order at random, then each blank given those before it."""
        blanks = len(self.shape)
        uniforms = torch.rand(blanks + 1, n, dtype=torch.float64, generator=generator)
        # the last of them chooses the order
        uniforms = uniforms.roll(self._roll, dims=0)
        every = itertools.permutations(range(blanks))
        orders = torch.tensor(averaged_orders(blanks) or list(every))
        mine = orders[(uniforms[-1] * len(orders)).long().clamp(max=len(orders) - 1)]
        fills = torch.full((n, blanks), EMPTY)
        for step in range(blanks):
            self._draw(fills, mine[:, step], uniforms[step])
        unique, fill_numbers = distinct(fills)
        scores = self.scores_of(unique)[fill_numbers].tolist()
        return list(zip(map(tuple, fills.tolist()), scores, strict=True))

    def _draw(self, fills: Tensor, blank: Tensor, uniforms: Tensor) -> None:
        """Fill one further blank of every draw."""
        before = fills.clone()
        # one row for all draws that have come to the same partial fill
        rows, row_numbers = distinct(before)
        wanted = torch.zeros(rows.shape, dtype=torch.bool)
        wanted[row_numbers, blank] = True

        def use(which: Tensor, read: int, log_p: Tensor) -> None:
            log_p = log_p.cpu()
            mine = torch.nonzero((blank == read) & torch.isin(row_numbers, which))[:, 0]
            for k, row in enumerate(which.tolist()):
                drawn = mine[row_numbers[mine] == row]
                fills[drawn, read] = draw(log_p[k], uniforms[drawn])

        self._read(rows, use, wanted=wanted)


class LazyOrders(Orders):
    """Any number of blanks, from rows of the model alone."""

    def __init__(self, reader: BlankReader) -> None:
        shape = [len(axis) for axis in reader.supports]
        super().__init__(shape, self._needs_a_table, torch.device("cpu"))
        self._reader, self._read = reader, reader.read
        self._search: dict[str, object] = {}

    def diagnostics(self) -> dict[str, object]:
        """Facts of the work so far."""
        blanks = len(self.shape)
        return {
            "mean": "arithmetic",
            "orders": len(averaged_orders(blanks)) or math.factorial(blanks),
            **({} if self._captured is None else {"captured_mass": self._captured}),
            "forward_passes": self._reader.forward_passes,
            **self._search,
        }

    @computed_once
    def _captured(self) -> list[float] | None:
        """The mass of each masked distribution on its candidates; None over whole vocabularies."""
        size = self._reader.model.vocabulary_size
        if all(axis.is_whole(size) for axis in self._reader.supports):
            return None
        return [mass for _, mass in self._reader.all_masked()]

    def log_marginal(
        self, axes: Sequence[int], given: Mapping[int, int] | None = None
    ) -> Float[Tensor, "..."]:
        """Raise: sums over blanks need a table."""
        self._needs_a_table()

    def is_tabulated(self) -> bool:
        """False: a sum over a blank would be a sum over all fills."""
        return False

    def _needs_a_table(self, _: slice | None = None) -> NoReturn:
        size = most_candidates(len(self.shape))
        fewer = f"give at most {size} candidates per blank, or sample" if size > 1 else "sample"
        raise SupportError(f"sums over these blanks need a table; {fewer}")

    def best(self, n: int) -> list[Scored]:
        """The likeliest fills that beam search found, with their exact probabilities."""
        width = max(_SCORED_AT_LEAST, _SCORED_FOR_EACH * n)
        fills = search(self._reader, _beam_orders(len(self.shape)), width)[:width]
        scores = self.scores_of(fills)
        cells = [tuple(cell) for cell in fills.tolist()]
        ranked = sorted(zip(cells, scores.tolist(), strict=True), key=lambda f: (-f[1], f[0]))
        self._search = {
            "search": "beam",
            "beam_width": width,
            "searched": len(cells),
            # of the whole joint, so that what was not found is known to be no more than the rest
            "searched_mass": min(1.0, float(scores.exp().sum())),
        }
        return ranked[:n]


class LazyPair(Orders):
    """Two blanks, from contexts of their tables as they are needed, or from the tables."""

    _roll = -1

    def __init__(self, tables: PairTables) -> None:
        self._log, self.tables = (tables.masked.log_a, tables.masked.log_b), tables
        (log_a, log_b), half = self._log, math.log(2)
        scores = partial(Sum((log_b[None] - half, log_a[:, None] - half)).scores, tables)
        super().__init__(tables.shape, scores, log_a.device, memory_limit=tables.memory_limit)

    def diagnostics(self) -> dict[str, object]:
        """The cost of the tables so far: it grows with what is computed."""
        return self.tables.diagnostics()

    def is_tabulated(self) -> bool:
        """True if the tables themselves are there: nothing less will do for a sum."""
        return self.tables.holds_all()

    def _read(self, rows: Tensor, use: UseDistributions, wanted: Tensor | None = None) -> None:
        read = rows == EMPTY if wanted is None else wanted
        for blank, rows_of in enumerate((self.tables.log_a_given, self.tables.log_b_given)):
            contexts = rows[:, 1 - blank]
            alone = torch.nonzero(read[:, blank] & (contexts == EMPTY))[:, 0]
            use(alone, blank, self._log[blank].expand(len(alone), -1))
            filled = torch.nonzero(read[:, blank] & (contexts != EMPTY))[:, 0]
            for block in row_blocks(len(filled), self.shape[blank]):
                use(filled[block], blank, rows_of(contexts[filled[block]].tolist()))

    def sample(self, n: int, generator: torch.Generator | None) -> list[Scored]:
        """Independent exact draws: an order at random, then each blank given those before it.

        Reads the contexts it draws from and both contexts of what it drew, or the tables if that is
        less; a seed gives the same draws only while the tables are not there.
        """
        if self.tables.holds_all() or 3 * n > sum(self.shape):
            return Engine.sample(self, n, generator)
        return super().sample(n, generator)

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


# --- the mean over orders ----------------------------------------------------------------------


def sets_before(blanks: Sequence[int], given: Sequence[int] = ()) -> list[Set]:
    """The sets of blanks that are filled before another of `blanks`, those `given` in all."""
    if orders := averaged_orders(len(blanks)):
        places = sorted({_before(order, t) for order in orders for t in order})
    else:
        every = range(len(blanks))
        places = [s for size in every for s in itertools.combinations(every, size)]
    return [_filled(blanks, filled, given) for filled in places]


def log_mean_over_orders(
    steps: Mapping[Set, Float[Tensor, "fills all"]],
    blanks: Sequence[int],
    given: Sequence[int] = (),
) -> Float[Tensor, " fills"]:
    """log p(x of `blanks` | x of those `given`), filled one after another; the others are masked.

    `steps` are log q(x_t | x of a set) for every set of `sets_before`.
    """

    def step(before: Set, t: int) -> Tensor:
        return steps[_filled(blanks, before, given)][:, blanks[t]]

    if orders := averaged_orders(len(blanks)):
        each = [
            torch.stack([step(_before(order, t), t) for t in order]).sum(dim=0) for order in orders
        ]
        return torch.stack(each).logsumexp(dim=0) - math.log(len(each))
    nothing = torch.zeros(len(next(iter(steps.values()))), dtype=torch.float64)
    every = tuple(range(len(blanks)))
    return log_means_by_sets(every, step, nothing, len(blanks))[every]


def log_means_by_sets(
    blanks: Sequence[int], step: Callable[[Set, int], Tensor], nothing: Tensor, max_size: int
) -> dict[Set, Tensor]:
    """The log mean over all orders of filling each set of at most so many blanks.

    It is the mean over the blank of the set that was filled last.
    """
    so_far: dict[Set, Tensor] = {(): nothing}
    for size in range(1, max_size + 1):
        for filled in itertools.combinations(blanks, size):
            last = [(tuple(s for s in filled if s != t), t) for t in filled]
            each = [so_far[before] + step(before, t) for before, t in last]
            so_far[filled] = torch.stack(each).logsumexp(dim=0) - math.log(size)
    return so_far


def averaged_orders(blanks: int) -> tuple[tuple[int, ...], ...]:
    """The orders that stand for all of so many blanks; empty where it is all of them."""
    if blanks <= ALL_ORDERS_UP_TO:
        return ()
    generator = torch.Generator().manual_seed(_ORDERS_SEED)
    drawn = [torch.randperm(blanks, generator=generator).tolist() for _ in range(DRAWN_ORDERS)]
    return tuple(tuple(order) for order in drawn)


def _filled(blanks: Sequence[int], places: Sequence[int], given: Sequence[int]) -> Set:
    return tuple(sorted([*given, *(blanks[place] for place in places)]))


def _before(order: Sequence[int], blank: int) -> Set:
    """The blanks that an order fills before one."""
    return tuple(sorted(order[: list(order).index(blank)]))


def _beam_orders(blanks: int) -> list[tuple[int, ...]]:
    """Orders to search along: all of a few blanks, else both directions and their inside-outs."""
    if blanks <= 3:
        return list(itertools.permutations(range(blanks)))
    forth = tuple(range(blanks))
    middle = tuple(sorted(forth, key=lambda t: abs(t - (blanks - 1) / 2)))
    return [forth, forth[::-1], middle, middle[::-1]]
