"""Draws from the model's own distribution at one blank of each of many rows.

Rows that are the same are run once, and those met last are remembered: chains that agree, or come
back, pay once. Distributions are drawn from as they come, so that no more than a tile of them is
there at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.lazy import computed_once
from unmask.logspace import draw
from unmask.model.row_reader import Outcomes, RowReader, Rows
from unmask.queries.sampling.memory import Recent
from unmask.queries.sampling.target import Target

# of distributions that may be asked for again
_REMEMBERED_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Drawn:
    """Token ids, and the log-probability that each had where it was drawn."""

    tokens: Int[Tensor, " *shape"]
    log_probs: Float[Tensor, " *shape"]


Found = Callable[[int, Tensor], None]


class Conditionals:
    """Asks a model what stands at the blanks of a cloze, and draws from its answers."""

    def __init__(self, target: Target) -> None:
        self._reader = RowReader(target.model, target.settings)
        self.mask_id, self.blanks = target.model.mask_id, target.blanks
        self._supports, cloze = target.supports, target.cloze
        self._row = torch.tensor(cloze.ids)
        self._positions = torch.tensor(cloze.positions)
        self._remembered: Recent[Tensor] = Recent(_REMEMBERED_BYTES)

    @property
    def forward_passes(self) -> int:
        """How many rows have run."""
        return self._reader.forward_passes

    def draw(
        self,
        fillings: Int[Tensor, "draws blanks"],
        blanks: Int[Tensor, " draws"],
        uniforms: Float[Tensor, " draws"],
    ) -> Drawn:
        """One token for one blank of each filling, masks among its tokens summed out by the model.

        Uniforms in [0, 1) decide; which rows are shared or remembered changes no draw.
        """
        keys = torch.cat([fillings, blanks[:, None]], dim=1)
        asked, which = torch.unique(keys, dim=0, return_inverse=True)
        askers = torch.argsort(which, stable=True).split(torch.bincount(which).tolist())
        drawn = Drawn(torch.empty_like(blanks), torch.empty_like(uniforms))

        def found(question: int, log_p: Tensor) -> None:
            places = draw(log_p, uniforms[askers[question]].to(log_p.device))
            support = self._supports[int(asked[question, -1])]
            drawn.tokens[askers[question]] = support.ids[places.cpu()]
            drawn.log_probs[askers[question]] = log_p[places].cpu()

        self._answer(asked, found)
        return drawn

    def _answer(self, asked: Int[Tensor, "questions key"], found: Found) -> None:
        """Hand over a distribution a question: first those remembered, then the model's."""
        keys = [tuple(key) for key in asked.tolist()]
        new = []
        for question, key in enumerate(keys):
            log_p = self._remembered.get(key)
            if log_p is None:
                new.append(question)
            else:
                found(question, log_p)

        def keep(place: int, log_p: Tensor) -> None:
            found(new[place], log_p)
            # a copy: a view would hold on to its whole tile
            self._remembered.keep(keys[new[place]], log_p.clone(), 8 * len(log_p))

        if new:
            self._ask(asked[new, :-1], asked[new, -1], keep)

    def _ask(
        self, fillings: Int[Tensor, "rows blanks"], blanks: Int[Tensor, " rows"], found: Found
    ) -> None:
        rows = self._row.repeat(len(fillings), 1)
        rows[:, self._positions] = fillings
        wanted = torch.zeros(fillings.shape, dtype=torch.bool)
        wanted[torch.arange(len(blanks)), blanks] = True

        def use(which: Tensor, _: int, log_p: Tensor) -> None:
            for row, one in zip(which.tolist(), log_p, strict=True):
                found(row, one)

        # an update has few rows, so that no batch size is tried out
        self._reader.distributions(
            Rows.of(rows),
            self._positions.expand(len(rows), -1),
            wanted,
            self._outcomes,
            use,
            what="drawing",
            batch_for=0,
        )

    @computed_once
    def _outcomes(self) -> list[Outcomes]:
        return Outcomes.of_each(self._reader.model, self._supports)
