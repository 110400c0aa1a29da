"""Rows with some blanks filled and the rest masked: the distribution of each blank.

Rows need not have the same blanks filled, so all that is needed at once runs in one batch.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.lazy import computed_once
from unmask.model.row_reader import Outcomes, RowReader, UseDistributions
from unmask.tables.elicited import masked_distributions
from unmask.text.cloze import Cloze
from unmask.text.support import Support

EMPTY = -1  # the place of a blank that is masked


class BlankReader:
    """Reads a model at the blanks of one text, and counts the forward passes."""

    def __init__(self, reader: RowReader, cloze: Cloze, supports: tuple[Support, ...]) -> None:
        self.reader, self.model = reader, reader.model
        self.cloze, self.supports = cloze, supports

    @property
    def forward_passes(self) -> int:
        """How many forward passes have run."""
        return self.reader.forward_passes

    def read(
        self,
        places: Int[Tensor, "rows blanks"],
        use: UseDistributions,
        *,
        wanted: Bool[Tensor, "rows blanks"] | None = None,
        what: str = "filling blanks",
    ) -> None:
        """Show `use` the log-probabilities at masked blanks of every row, in float64 on the CPU.

        Places stand on the supports, `EMPTY` where a blank is masked; `wanted` says which of those
        are of interest, all by default.
        """
        self.reader.distributions(
            self._ids(places),
            torch.tensor(self.cloze.positions).expand(len(places), -1),
            (places == EMPTY) if wanted is None else wanted,
            self._outcomes,
            lambda which, blank, log_p: use(which, blank, log_p.cpu()),
            what=what,
        )

    def masked_mass(self) -> list[float]:
        """How much of the fully masked distribution the support of each blank holds: one row."""
        return [mass for _, mass in masked_distributions(self.reader, self.cloze, self.supports)]

    @computed_once
    def _outcomes(self) -> list[Outcomes]:
        return Outcomes.of_each(self.model, self.supports)

    def _ids(self, places: Int[Tensor, "rows blanks"]) -> Int[Tensor, "rows length"]:
        ids = torch.tensor([self.cloze.ids]).repeat(len(places), 1)
        for blank, (position, support) in enumerate(
            zip(self.cloze.positions, self.supports, strict=True)
        ):
            filled = places[:, blank] != EMPTY
            ids[filled, position] = support.ids.cpu().long()[places[filled, blank]]
        return ids


def distinct(
    rows: Int[Tensor, "rows blanks"],
) -> tuple[Int[Tensor, "some blanks"], Int[Tensor, " rows"]]:
    """Each distinct row once, and the index of every row among them."""
    unique, inverse = torch.unique(rows, dim=0, return_inverse=True)
    return unique, inverse


def with_filled(
    fills: Int[Tensor, "fills blanks"], filled: Sequence[int]
) -> Int[Tensor, "fills blanks"]:
    """The fills with all but some of their blanks emptied."""
    rows = torch.full_like(fills, EMPTY)
    rows[:, list(filled)] = fills[:, list(filled)]
    return rows
