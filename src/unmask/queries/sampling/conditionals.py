"""Draws from the model's own distribution at one blank of each of many rows.

Rows that are the same run once, and those met last are remembered, for chains that agree or come
back. Distributions are drawn from as they come, so that no more than a tile of them is there at a
time.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.lazy import computed_once
from unmask.logspace import draw
from unmask.model.row_reader import Outcomes, RowReader, Rows
from unmask.queries.sampling.target import Target

# of distributions that may be needed again
_REMEMBERED_BYTES = 2**26

Thing = TypeVar("Thing")


class Recent(Generic[Thing]):
    """The things used last, by a key, up to so many; the newest always stays."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._kept: OrderedDict[Hashable, Thing] = OrderedDict()

    def get(self, key: Hashable) -> Thing | None:
        """What was kept under a key, if it still is."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: Hashable, thing: Thing) -> None:
        """Keep one more, and let go of the one that was not used for the longest."""
        self._kept[key] = thing
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


@dataclass(frozen=True, eq=False)
class DrawnTokens:
    """Token ids, and the log-probability that each had where it was drawn."""

    tokens: Int[Tensor, " *shape"]
    log_probs: Float[Tensor, " *shape"]


class Conditionals:
    """Reads a model at the blanks of a cloze, and draws from its distributions."""

    def __init__(self, target: Target) -> None:
        self._reader = RowReader(target.model, target.settings)
        self.mask_id, self.blanks = target.model.mask_id, target.blanks
        self._supports, cloze = target.supports, target.cloze
        self._row = torch.tensor(cloze.ids)
        self._positions = torch.tensor(cloze.positions)
        each = 8 * max(map(len, self._supports))
        self._remembered: Recent[Tensor] = Recent(_REMEMBERED_BYTES // each)

    @property
    def forward_passes(self) -> int:
        """How many rows have run."""
        return self._reader.forward_passes

    def draw(
        self,
        fillings: Int[Tensor, "draws blanks"],
        blanks: Int[Tensor, " draws"],
        uniforms: Float[Tensor, " draws"],
    ) -> DrawnTokens:
        """One token for one blank of each filling, masks among its tokens summed out by the model.

        Uniforms in [0, 1) decide; which rows are shared or remembered changes no draw.
        """
        rows, which = torch.unique(
            torch.cat([fillings, blanks[:, None]], dim=1), dim=0, return_inverse=True
        )
        keys = [tuple(row) for row in rows.tolist()]
        members = torch.argsort(which, stable=True).split(torch.bincount(which).tolist())
        drawn = DrawnTokens(torch.empty_like(blanks), torch.empty_like(uniforms))

        def draw_row(row: int, log_p: Tensor) -> None:
            places = draw(log_p, uniforms[members[row]].to(log_p.device))
            drawn.tokens[members[row]] = self._supports[keys[row][-1]].ids[places.cpu()]
            drawn.log_probs[members[row]] = log_p[places].cpu()

        new = []
        for row, key in enumerate(keys):
            log_p = self._remembered.get(key)
            if log_p is None:
                new.append(row)
            else:
                draw_row(row, log_p)

        def use(some: Tensor, _: int, log_p: Tensor) -> None:
            for place, one in zip(some.tolist(), log_p, strict=True):
                draw_row(new[place], one)
                # a copy: a view would hold on to its whole tile
                self._remembered.keep(keys[new[place]], one.clone())

        if new:
            ids = self._row.repeat(len(new), 1)
            ids[:, self._positions] = rows[new, :-1]
            # an update has few rows, so that no batch size is tried out
            self._reader.distributions(
                Rows.of(ids),
                self._positions.expand(len(new), -1),
                torch.arange(self.blanks) == rows[new, -1:],
                self._outcomes,
                use,
                what="drawing",
                batch_for=0,
            )
        return drawn

    @computed_once
    def _outcomes(self) -> list[Outcomes]:
        return Outcomes.of_each(self._reader.model, self._supports)
