"""From a model, a cloze and supports to conditional tables: one row of ids per context.

Each part of the tables is elicited when a construction first asks for it. Knows the `MaskedLM`
protocol and nothing of transformers.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import MemoryLimitError
from unmask.lazy import computed_once
from unmask.model.devices import for_float64
from unmask.model.row_reader import Outcomes, RowReader, log_mass
from unmask.printable import readable_bytes
from unmask.tables.conditional import ConditionalTable, DenseLogits, FactoredLogits
from unmask.tables.source import MaskedMarginals
from unmask.tables.storage import Storage, choose_storage
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class ElicitedSource:
    """A table source that runs the model, and counts the forward passes."""

    def __init__(
        self,
        reader: RowReader,
        cloze: Cloze,
        supports: Sequence[Support],
        provenance: Mapping[str, object] | None = None,
    ) -> None:
        first, second = supports
        self.supports = first, second
        self.shape = len(first), len(second)
        self.reader, self._model, self._cloze = reader, reader.model, cloze
        self._provenance = dict(provenance or {})
        self._storage: Storage | None = None
        self._read_contexts = False
        self._row = torch.tensor([cloze.ids])

    @property
    def forward_passes(self) -> int:
        """How many forward passes have run."""
        return self.reader.forward_passes

    def masked(self) -> MaskedMarginals:
        """Both distributions with both blanks masked: one row."""
        (log_a, mass_a), (log_b, mass_b) = masked_distributions(
            self.reader, self._cloze, self.supports
        )
        return MaskedMarginals(log_a, log_b, (mass_a, mass_b))

    def diagnostics(self) -> dict[str, object]:
        """Model, text, batch size and number of forward passes so far.

        With the same `batch_size`, device and threads the same run gives the same bits.
        """
        tried = self.reader.batch_size
        size = {} if tried is None or not self._read_contexts else {"batch_size": tried}
        return {
            **self._provenance,
            "forward_passes": self.reader.forward_passes,
            "length": len(self._cloze),
            **size,
            **({"tables_because": self._storage.why} if self._storage else {}),
        }

    def table(self, outcome: int) -> ConditionalTable:
        """One blank read under every token of the other."""
        contexts, embedding = self.supports[1 - outcome].ids, self._model.output_embedding
        device, outcomes, width = for_float64(self._model.device), None, None
        shape, settings = self.shape, self.reader.settings
        if embedding is None:
            if (needed := 8 * math.prod(shape)) > settings.memory_limit:
                raise MemoryLimitError(
                    f"this model's tables must be kept dense, {readable_bytes(needed)}, "
                    f"above the limit of {readable_bytes(settings.memory_limit)}; "
                    "raise the memory limit or give a smaller support"
                )
            values = torch.empty(shape, device=device)
            by_context = values.T if outcome == 0 else values
            outcomes = self.supports[outcome].ids.to(self._model.device)
        else:
            width = embedding.weight.shape[1]
            by_context = torch.empty(len(contexts), width, device=device)

        def keep(batch: slice, readouts: Tensor) -> None:
            read = readouts[:, 0]
            by_context[batch] = read if outcomes is None else read[:, outcomes]

        # half the memory of what the model reads: as many rows as there are tokens
        rows = self._row.int().repeat(len(contexts), 1)
        rows[:, self._cloze.positions[1 - outcome]] = contexts.int()

        self._read_contexts = True
        self.reader.each_batch(
            rows,
            [self._cloze.positions[outcome]],
            keep,
            what=f"blank {outcome} given blank {1 - outcome}",
            # both tables in batches of one size, also where their supports differ
            batch_for=max(self.shape),
        )
        logits = DenseLogits(values) if embedding is None else self._factored(outcome, by_context)
        self._storage = choose_storage(shape, width=width, settings=settings)
        kept = logits.dense() if self._storage.dense else logits
        return ConditionalTable.from_logits(kept, given="b" if outcome == 0 else "a")

    def _factored(self, outcome: int, readouts: Tensor) -> FactoredLogits:
        embedding = self._model.output_embedding
        assert embedding is not None
        weight, bias = embedding.weight, embedding.bias
        if not self.supports[outcome].is_whole(self._model.vocabulary_size):
            ids = self.supports[outcome].ids.to(weight.device)
            weight, bias = weight[ids], None if bias is None else bias[ids]
        weight = weight.to(readouts.device)
        bias = None if bias is None else bias.to(readouts.device)
        if outcome == 0:
            return FactoredLogits(weight, readouts, bias_a=bias)
        return FactoredLogits(readouts, weight, bias_b=bias)

    def log_rows(self, contexts: Sequence[Sequence[int]]) -> list[Float[Tensor, "contexts size"]]:
        """Of each blank the rows given some tokens of the other, all read in the same batches."""
        counts = [len(places) for places in contexts]
        outcome = torch.arange(2).repeat_interleave(torch.tensor(counts))
        tokens = torch.cat(
            [
                axis.ids[torch.tensor(list(places), dtype=torch.long)].cpu()
                for axis, places in zip(reversed(self.supports), contexts, strict=True)
            ]
        )
        positions = torch.tensor(self._cloze.positions)
        ids = self._row.repeat(len(tokens), 1)
        ids[torch.arange(len(tokens)), positions[1 - outcome]] = tokens.long()
        device = for_float64(self._model.device)
        rows = [
            torch.empty(count, size, dtype=torch.float64, device=device)
            for count, size in zip(counts, self.shape, strict=True)
        ]

        def use(which: Tensor, blank: int, log_probs: Tensor) -> None:
            rows[blank][which - blank * counts[0]] = log_probs

        self._read_contexts = True
        self.reader.distributions(
            ids,
            positions.expand(len(tokens), -1),
            outcome[:, None] == torch.arange(2),
            self._outcomes,
            use,
            what="some contexts of both blanks",
        )
        return rows

    @computed_once
    def _outcomes(self) -> list[Outcomes]:
        return Outcomes.of_each(self._model, self.supports)


def masked_distributions(
    reader: RowReader, cloze: Cloze, supports: Sequence[Support]
) -> list[tuple[Float[Tensor, " size"], float]]:
    """Every blank's own distribution with all of them masked, and the mass its support holds."""
    readouts = reader.one(cloze.ids, cloze.positions, what="all blanks masked")
    each = Outcomes.of_each(reader.model, supports)
    every = Outcomes.every(reader.model)
    return [
        (own.log_probs(one)[0], float(log_mass(one, own, every).exp()))
        for own, one in zip(each, readouts[:, None], strict=True)
    ]
