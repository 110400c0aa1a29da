"""Both tables as probabilities, for iterations that read them many times."""

import weakref

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.tables.pair_tables import PairTables
from unmask.tables.storage import copy_dtype

# exp of this is still far above the smallest float32: below it, a rounded copy would lose cells
_LOWEST_KEPT = -80.0


class Probabilities:
    """q(a | b) and q(b | a) by rows, in float64: kept as copies if there is room, else computed.

    Probabilities, not logarithms, are rounded, so every cell keeps a relative precision: 6e-8 in
    float32, 4e-3 in bfloat16, which is as wide and takes half the room. The contexts of a rounded
    copy still sum to one.
    """

    def __init__(self, tables: PairTables) -> None:
        # tables remember this: a strong reference back would keep gigabytes until a collection
        self._tables: PairTables = weakref.proxy(tables)
        a_given_b, _ = tables.both()
        self.device = a_given_b.logits.device
        # what the rounded cells of a context sum to
        self._totals = [
            torch.ones(size, dtype=torch.float64, device=self.device) for size in tables.shape[::-1]
        ]
        self.copies = self._copied()

    @property
    def nbytes(self) -> int:
        """The bytes of the copies."""
        return sum(table.nbytes for table in self.copies or ())

    def tile(self, rows: slice) -> tuple[Float[Tensor, "block b"], Float[Tensor, "block b"]]:
        """Some rows of both tables."""
        return self._table(0, rows), self._table(1, rows)

    def given(self, outcome: int, masses: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The law of a blank that is drawn given the other, whose law is `masses`."""
        totals = self._totals[outcome]
        masses = masses / (totals if masses.ndim == 1 else totals[:, None])
        shape = (self._tables.shape[outcome], *masses.shape[1:])
        law = torch.zeros(shape, dtype=torch.float64, device=self.device)
        for rows in self._tables.blocks():
            cells = self._cells(outcome, rows)
            if outcome == 0:
                law[rows] = cells @ masses
            else:
                law += cells.T @ masses[rows]
        return law

    def _table(self, outcome: int, rows: slice) -> Float[Tensor, "block b"]:
        totals = self._totals[outcome]
        return self._cells(outcome, rows) / (totals[rows, None] if outcome else totals)

    def _cells(self, outcome: int, rows: slice) -> Float[Tensor, "block b"]:
        if self.copies:
            return self.copies[outcome][rows].double()
        return self._tables.log_given_others(outcome, rows).exp()

    def _copied(self) -> tuple[Tensor, Tensor] | None:
        tables, dtype = self._tables, copy_dtype(self._tables.shape, self._tables.settings)
        rows, columns = tables.shape
        if 2 * dtype.itemsize * rows * columns > tables.memory_left():
            return None
        first, second = (
            torch.empty(tables.shape, dtype=dtype, device=self.device) for _ in range(2)
        )
        totals = [torch.zeros_like(total) for total in self._totals]
        for block in self._tables.blocks():
            for outcome, copy in enumerate((first, second)):
                log_p = tables.log_given_others(outcome, block)
                if dtype != torch.float64 and float(log_p.min()) < _LOWEST_KEPT:
                    return None
                copy[block] = log_p.exp()
            totals[0] += first[block].double().sum(dim=0)
            totals[1][block] = second[block].double().sum(dim=1)
        if dtype != torch.float64:
            self._totals = totals
        return first, second


def probabilities(tables: PairTables) -> Probabilities:
    """The probabilities of these tables, made once for all that ask."""
    return tables.remember("probabilities", lambda: Probabilities(tables))
