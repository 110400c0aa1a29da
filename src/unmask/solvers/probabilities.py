"""Both tables as probabilities, for work that reads them many times."""

import weakref

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask import fused
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
        if self.kept is None or self.device.type != "cpu":
            return False
        return self.kept[0].numel() >= fused.FEWEST_CELLS and fused.available()

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Both copies, for the compiled passes."""
        assert self.kept is not None
        return self.kept[0].numpy(), self.kept[1].numpy()

    def _copied(self) -> tuple[Tensor, Tensor] | None:
        rows, columns = self.tables.shape
        if 8 * rows * columns > self.tables.memory_left():
            return None
        kept = tuple(
            torch.empty(rows, columns, dtype=torch.float32, device=self.device) for _ in range(2)
        )
        for block in self.tables.blocks():
            tile = self.tables.tile(block)
            for table, log_p in zip(kept, (tile.log_a_given_b, tile.log_b_given_a), strict=True):
                if float(log_p.min()) < _LOWEST_KEPT:
                    return None
                table[block] = log_p.exp()
        return kept[0], kept[1]


def probabilities(tables: PairTables) -> Probabilities:
    """The probabilities of these tables, made once for all solvers that ask."""
    found = tables.remember("probabilities", lambda: Probabilities(tables))
    assert isinstance(found, Probabilities)
    return found
