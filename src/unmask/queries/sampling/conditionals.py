"""Draws from the model's own distribution at one blank of each of many rows.

Rows that are the same are run once, and those met last are remembered: chains that agree, or come
back, pay once. Distributions are drawn from as they come, so that no more than a tile of them is
there at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.logspace import draw, row_blocks
from unmask.model.batch_size import resolve_batch_size
from unmask.model.batches import in_batches
from unmask.model.row_reader import require_finite
from unmask.progress import bar
from unmask.queries.sampling.memory import Recent
from unmask.queries.sampling.target import Target
from unmask.text.support import Support

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
        self.forward_passes = 0
        self.mask_id, self.blanks = target.model.mask_id, target.blanks
        self._model, self._settings = target.model, target.settings
        self._supports, cloze = target.supports, target.cloze
        self._row = torch.tensor(cloze.ids)
        self._positions = torch.tensor(cloze.positions)
        self._remembered: Recent[Tensor] = Recent(_REMEMBERED_BYTES)
        self._rows_that_fit: int | None = None

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
        shown = self._settings.progress
        with bar("drawing", unit="row", total=len(rows), shown=shown, delay=2.0) as counted:

            def run(batch: slice) -> None:
                self._run(rows[batch], blanks[batch], lambda k, p: found(batch.start + k, p))
                counted.update(batch.stop - batch.start)

            size = self._rows_per_batch()
            ended = in_batches(len(rows), size, run)
        if ended < size:
            self._rows_that_fit = ended

    def _rows_per_batch(self) -> int:
        # an update has few rows, so that no size is tried out
        size = resolve_batch_size(self._model, len(self._row), self._settings, rows=0)
        return size if self._rows_that_fit is None else min(size, self._rows_that_fit)

    def _run(
        self, rows: Int[Tensor, "rows length"], blanks: Int[Tensor, " rows"], found: Found
    ) -> None:
        at = self._positions[blanks][:, None]
        readouts = self._model.readouts(rows.to(self._model.device), at)[:, 0]
        require_finite(torch.isfinite(readouts).all())
        self.forward_passes += len(rows)
        for blank in torch.unique(blanks).tolist():
            places = torch.nonzero(blanks == blank)[:, 0]
            for tile in row_blocks(len(places), len(self._supports[blank])):
                log_p = self._log_probs(readouts[places[tile].to(readouts.device)], blank)
                for k, row in zip(places[tile].tolist(), log_p, strict=True):
                    found(k, row)

    def _log_probs(
        self, readouts: Float[Tensor, "rows width"], blank: int
    ) -> Float[Tensor, "rows size"]:
        """Over the support of a blank, normalised there, in float64 where that exists."""
        weight, bias = self._outcomes[blank]
        if weight is None:
            ids = self._supports[blank].ids.to(readouts.device)
            logits = readouts[:, ids]
        else:
            logits = readouts @ weight.T
            logits = logits if bias is None else logits + bias
        require_finite(torch.isfinite(logits).all())
        kept = logits if logits.device.type in ("cpu", "cuda") else logits.cpu()
        return torch.log_softmax(kept.double(), dim=-1)

    @cached_property
    def _outcomes(self) -> list[tuple[Tensor | None, Tensor | None]]:
        """The part of the output layer that a blank needs; blanks with one support share it."""
        shared: dict[int, tuple[Tensor | None, Tensor | None]] = {}
        for support in self._supports:
            if id(support) not in shared:
                shared[id(support)] = self._layer_of(support)
        return [shared[id(support)] for support in self._supports]

    def _layer_of(self, support: Support) -> tuple[Tensor | None, Tensor | None]:
        layer = self._model.output_embedding
        if layer is None:
            return None, None
        if support.is_whole(self._model.vocabulary_size):
            return layer.weight, layer.bias
        ids = support.ids.to(layer.weight.device)
        return layer.weight[ids], None if layer.bias is None else layer.bias[ids]
