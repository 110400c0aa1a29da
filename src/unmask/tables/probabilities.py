"""Both tables as probabilities, for work that reads them many times."""

import math
import weakref

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.tables import kernels
from unmask.tables.conditional import ConditionalTable
from unmask.tables.pair_tables import PairTables
from unmask.tables.storage import copy_dtype

Cells = NDArray[np.float32] | NDArray[np.uint16]

# exp of this is still far above the smallest float32: below it, a kept copy would lose cells
_LOWEST_KEPT = -80.0


class Probabilities:
    """q(a | b) and q(b | a) by rows, in float64: kept as copies if there is room, else computed.

    Probabilities, not logarithms, are rounded, so every cell keeps a relative precision: 6e-8 in
    float32, 4e-3 in bfloat16, which is as wide and takes half the room.
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
        return self.kept is not None and kernels.worthwhile(self.kept[0])

    def arrays(self) -> tuple[Cells, Cells]:
        """Both copies, for the compiled passes; numpy knows no bfloat16, only its bits."""
        assert self.kept is not None
        seen = [t if t.dtype == torch.float32 else t.view(torch.uint16) for t in self.kept]
        return seen[0].numpy(), seen[1].numpy()

    def _copied(self) -> tuple[Tensor, Tensor] | None:
        rows, columns = self.tables.shape
        dtype = copy_dtype(self.tables.settings)
        if 2 * dtype.itemsize * rows * columns > self.tables.memory_left():
            return None
        a_given_b, b_given_a = self.tables.both()
        first = _exponentials(a_given_b, dtype)
        second = None if first is None else _exponentials(b_given_a, dtype)
        return None if first is None or second is None else (first, second)


def _exponentials(table: ConditionalTable, dtype: torch.dtype) -> Float[Tensor, "a b"] | None:
    """All cells, rounded; None if that would lose one."""
    kept = _room(table.logits.shape, dtype, table.logits.device)
    exact = dtype == torch.float32
    # what is rounded further goes through a tile of float32, and a tile is not a whole table
    for rows in table.blocks() if exact else row_blocks(*table.logits.shape):
        tile = table.logits.block(rows)
        written = kept[rows] if exact else torch.empty_like(tile)
        if _write(table, rows, tile, written) < _LOWEST_KEPT:
            return None
        if not exact:
            kept[rows] = written
    return kept


def _room(shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    if device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    # numpy's memory comes in large pages, which are read faster
    cells = torch.from_numpy(np.empty(shape, np.float32 if dtype.itemsize == 4 else np.uint16))
    return cells.view(dtype)


def _write(table: ConditionalTable, rows: slice, tile: Tensor, written: Tensor) -> float:
    """Write the probabilities of some rows; returns the lowest logarithm."""
    # numpy has no bfloat16
    compiled = tile.dtype == torch.float32
    if not (compiled and kernels.worthwhile(tile, math.prod(table.logits.shape))):
        log_p = table.log_prob(rows)
        written[:] = log_p.exp()
        return float(log_p.min())
    from unmask.tables.kernels.softmax import probabilities as write

    by_row = table.given == "a"
    log_normalizer = table.log_normalizer[rows] if by_row else table.log_normalizer
    return write(tile.numpy(), log_normalizer.numpy(), written.numpy(), by_row=by_row)


def probabilities(tables: PairTables) -> Probabilities:
    """The probabilities of these tables, made once for all solvers that ask."""
    remembered = tables.remember("probabilities", lambda: Probabilities(tables))
    assert isinstance(remembered, Probabilities)
    return remembered
