"""Both tables as probabilities, for work that reads them many times."""

import weakref

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask import fused
from unmask.conditional import ConditionalTable
from unmask.tables import PairTables

# exp of this is still far above the smallest float32: below it, a kept copy would lose cells
_LOWEST_KEPT = -80.0


class Probabilities:
    """q(a | b) and q(b | a) by rows, in float64: kept as float32 if there is room, else computed.

    Probabilities, not logarithms, are rounded, so every cell keeps a relative precision of 6e-8.
    """

    def __init__(self, tables: PairTables) -> None:
        # tables remember this: a strong reference back would keep gigabytes until a collection
        self.tables: PairTables = weakref.proxy(tables)
        a_given_b, _ = tables.both()
        self.device = a_given_b.logits.device
        self.kept = self._copied()

    @property
    def nbytes(self) -> int:
        """What the copies take."""
        return sum(table.nbytes for table in self.kept or ())

    def tile(self, rows: slice) -> tuple[Float[Tensor, "block b"], Float[Tensor, "block b"]]:
        """Some rows of both tables."""
        if self.kept:
            return self.kept[0][rows].double(), self.kept[1][rows].double()
        tile = self.tables.tile(rows)
        return tile.log_a_given_b.exp(), tile.log_b_given_a.exp()

    def fused(self) -> bool:
        """Whether the compiled passes may be used."""
        return self.kept is not None and fused.worthwhile(self.kept[0])

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Both copies, for the compiled passes."""
        assert self.kept is not None
        return self.kept[0].numpy(), self.kept[1].numpy()

    def _copied(self) -> tuple[Tensor, Tensor] | None:
        rows, columns = self.tables.shape
        if 8 * rows * columns > self.tables.memory_left():
            return None
        a_given_b, b_given_a = self.tables.both()
        first = _exponentials(a_given_b)
        second = None if first is None else _exponentials(b_given_a)
        return None if first is None or second is None else (first, second)


def _exponentials(table: ConditionalTable) -> Float[Tensor, "a b"] | None:
    """All cells as float32; None if that would lose one."""
    shape, device = table.logits.shape, table.logits.device
    # on a CPU numpy's memory: it comes in large pages, which are read faster
    kept = (
        torch.from_numpy(np.empty(shape, np.float32))
        if device.type == "cpu"
        else torch.empty(shape, dtype=torch.float32, device=device)
    )
    for rows in table.blocks():
        lowest = _write(table, rows, kept[rows])
        if lowest < _LOWEST_KEPT:
            return None
    return kept


def _write(table: ConditionalTable, rows: slice, kept: Tensor) -> float:
    """Write the probabilities of some rows; returns the lowest logarithm."""
    tile = table.logits.block(rows)
    if not fused.worthwhile(tile):
        log_p = table.log_prob(rows)
        kept[:] = log_p.exp()
        return float(log_p.min())
    from unmask.fused.softmax import probabilities as write

    by_row = table.given == "a"
    log_normalizer = table.log_normalizer[rows] if by_row else table.log_normalizer
    return write(tile.numpy(), log_normalizer.numpy(), kept.numpy(), by_row=by_row)


def probabilities(tables: PairTables) -> Probabilities:
    """The probabilities of these tables, made once for all solvers that ask."""
    found = tables.remember("probabilities", lambda: Probabilities(tables))
    assert isinstance(found, Probabilities)
    return found
