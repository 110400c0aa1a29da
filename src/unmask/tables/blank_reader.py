"""Rows with some blanks filled and the rest masked: the distribution of each blank.

Rows need not have the same blanks filled, so all that is needed at once runs in one batch.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.lazy import computed_once
from unmask.model.row_reader import Outcomes, RowReader, UseDistributions, log_mass
from unmask.tables.contexts import EMPTY
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class BlankReader:
    """Reads a model at the blanks of one text, and counts the forward passes."""

    def __init__(
        self,
        reader: RowReader,
        cloze: Cloze,
        supports: Sequence[Support],
        provenance: Mapping[str, object] | None = None,
    ) -> None:
        self.reader, self.model, self.cloze = reader, reader.model, cloze
        self.supports, self.shape = tuple(supports), tuple(map(len, supports))
        self.provenance = dict(provenance or {})

    @property
    def forward_passes(self) -> int:
        """The number of forward passes that have run."""
        return self.reader.forward_passes

    def diagnostics(self) -> dict[str, object]:
        """Model, text, and number of forward passes so far."""
        facts = {"forward_passes": self.forward_passes, "length": len(self.cloze)}
        return {**self.provenance, **facts}

    def read(
        self,
        places: Int[Tensor, "rows blanks"],
        use: UseDistributions,
        *,
        wanted: Bool[Tensor, "rows blanks"] | None = None,
        what: str = "filling blanks",
    ) -> None:
        """Show `use` the log-probabilities at masked blanks of every row, in float64.

        Places stand on the supports, `EMPTY` where a blank is masked; `wanted` says which of those
        are of interest, all by default.
        """
        self.reader.distributions(
            self.rows(places),
            torch.tensor(self.cloze.positions).expand(len(places), -1),
            (places == EMPTY) if wanted is None else wanted,
            self.outcomes,
            use,
            what=what,
        )

    def all_masked(self) -> list[tuple[Float[Tensor, " size"], float]]:
        """Every blank's distribution with all of them masked, and the mass its support holds."""
        ids, positions = self.cloze.ids, self.cloze.positions
        readouts = self.reader.one(ids, positions, what="all blanks masked")
        every = Outcomes.of(self.model)
        return [
            (outcomes.log_probs(readout)[0], float(log_mass(readout, outcomes, every).exp()))
            for outcomes, readout in zip(self.outcomes, readouts[:, None], strict=True)
        ]

    @computed_once
    def outcomes(self) -> list[Outcomes]:
        """The outcomes that are read of each blank."""
        # those of equal blanks are one object, whose weights are read once
        outcomes = {axis: Outcomes.of(self.model, axis) for axis in dict.fromkeys(self.supports)}
        return [outcomes[axis] for axis in self.supports]

    def rows(self, places: Int[Tensor, "rows blanks"]) -> Int[Tensor, "rows length"]:
        """The ids of the text with tokens written into the blanks that are not masked."""
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
