"""Conditional tables of several blanks over candidate sets, elicited when they are needed.

Conditionals are the model's own given that each blank holds one of its candidates, as for two
blanks; how much of the model's mass that is, is kept beside them. Knows the `MaskedLM` protocol
and nothing of transformers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.model.row_reader import Outcomes, RowReader, log_mass, require_finite
from unmask.tables.blank_reader import BlankReader
from unmask.tables.contexts import Contexts, given
from unmask.tables.law import Law
from unmask.tables.protocol import EVERY_ROW, Tables
from unmask.tables.sizes import check_fits
from unmask.text.cloze import Cloze
from unmask.text.support import Support

# logits over a vocabulary that exist at once
_CELLS = 2**22


class CandidateTables(BlankReader, Tables):
    """The conditionals of several blanks, given candidates for the others."""

    def __init__(
        self,
        reader: RowReader,
        cloze: Cloze,
        supports: tuple[Support, ...],
        provenance: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(reader, cloze, supports, provenance)
        self.settings, self.blanks = reader.settings, len(supports)
        self._logits: dict[tuple[Contexts, int], Tensor] = {}
        self._log_mass: dict[tuple[Contexts, int], Tensor] = {}
        self._remembered: dict[str, Any] = {}
        self.law: Law | None = None
        check_fits(self.shape, self.settings.memory_limit)

    def elicit(self, whole: Iterable[int], *, masked: bool) -> None:
        """Run the model for the whole tables of some blanks, and with every blank masked."""
        for outcome in whole:
            self._read(self._others(outcome), outcome)
        if masked:
            self.log_masked(0)

    def has_masked(self) -> bool:
        """True: they can always be elicited."""
        return True

    def log_given_others(self, outcome: int, rows: slice = EVERY_ROW) -> Float[Tensor, "..."]:
        """log q(x_t | all other blanks), one axis per blank."""
        return self.log_given(self._others(outcome), outcome)[rows]

    def log_prob_of(self, outcome: int, place: int) -> Float[Tensor, "..."]:
        """The same for one token of the blank: size 1 along it."""
        return self.log_given_others(outcome).narrow(outcome, place, 1)

    def log_normalizer(self, outcome: int) -> Float[Tensor, "..."]:
        """The logarithm of the sum of the model's own logits in each context."""
        logits = self._read(self._others(outcome), outcome)
        return torch.logsumexp(logits, dim=outcome, keepdim=True)

    def log_masked(self, outcome: int) -> Float[Tensor, "..."]:
        """log m_t: the model's distribution with every blank masked."""
        return self.log_given(given(self.blanks, ()), outcome)

    def log_given(self, contexts: Contexts, outcome: int) -> Float[Tensor, "..."]:
        """log q(x_t | contexts) over the candidates of blank t."""
        return torch.log_softmax(self._read(contexts, outcome), dim=outcome)

    def mass_given_others(self, log_joint: Float[Tensor, "*shape"]) -> list[float] | None:
        """The part of the model's conditionals on the candidates, where the joint expects them.

        None unless every blank was read under all others: nothing is elicited for it.
        """
        masses = []
        for t in range(self.blanks):
            log_mass = self._log_mass.get((self._others(t), t))
            if log_mass is None:
                return None
            log_weight = torch.logsumexp(log_joint, dim=t, keepdim=True)
            masses.append(min(1.0, float((log_weight + log_mass).exp().sum())))
        return masses

    def holds_all(self) -> bool:
        """True if every blank has been read under all the others."""
        return all((self._others(t), t) in self._logits for t in range(self.blanks))

    def diagnostics(self) -> dict[str, object]:
        """Model, text, forward passes so far, and what the candidates leave out."""
        contexts = given(self.blanks, ())
        # before the passes are counted
        self._read(contexts, 0)
        held = [min(1.0, float(self._log_mass[contexts, t].exp())) for t in range(self.blanks)]
        return {**super().diagnostics(), "candidates": list(self.shape), "captured_mass": held}

    def _read(self, contexts: Contexts, outcome: int) -> Float[Tensor, "..."]:
        """Logits over the candidates of a masked blank, in float64."""
        if (contexts, outcome) not in self._logits:
            part = self._slice_of_whole(contexts, outcome)
            if part is not None:
                return part
            self._elicit(contexts)
        return self._logits[contexts, outcome]

    def _slice_of_whole(self, contexts: Contexts, outcome: int) -> Tensor | None:
        """The same from a table over all contexts, if that is there already."""
        whole = self._logits.get((self._others(outcome), outcome))
        if whole is None or contexts.read != (outcome,):
            return None
        for blank, content in enumerate(contexts.contents):
            if isinstance(content, int):
                whole = whole.narrow(blank, content, 1)
        return whole

    def _others(self, outcome: int) -> Contexts:
        return given(self.blanks, [t for t in range(self.blanks) if t != outcome])

    def _elicit(self, contexts: Contexts) -> None:
        """Run every row of some contexts, and keep the values at their masked blanks."""
        places, shape = contexts.places(self.shape), contexts.shape(self.shape)
        # on the CPU wherever the model runs: tables over candidates are small
        flat = {
            t: torch.empty(len(places), self.shape[t], dtype=torch.float64) for t in contexts.read
        }
        held = {t: torch.empty(len(places), dtype=torch.float64) for t in flat}
        every = Outcomes.of(self.model)

        def keep(batch: slice, readouts: Tensor) -> None:
            for k, t in enumerate(contexts.read):
                # one blank and some rows at a time: logits of a vocabulary are large
                for block in row_blocks(len(readouts), every.size, _CELLS):
                    cells = slice(batch.start + block.start, batch.start + block.stop)
                    read = readouts[block, k]
                    flat[t][cells] = self.outcomes[t].logits(read).double()
                    held[t][cells] = log_mass(read, self.outcomes[t], every)

        read = " and ".join(map(str, contexts.read))
        positions = [self.cloze.positions[t] for t in contexts.read]
        what = f"blank {read} given {self.blanks - len(positions)} others"
        self.reader.each_batch(self.rows(places), positions, keep, what=what)
        for t in contexts.read:
            require_finite(torch.isfinite(flat[t]).all())
            self._logits[contexts, t] = flat[t].reshape(*shape, -1).movedim(-1, t).squeeze(t + 1)
            self._log_mass[contexts, t] = held[t].reshape(shape)
