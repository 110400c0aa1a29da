"""From a model, a cloze and supports to conditional tables: one row of ids per context.

Each part of the tables is elicited when a construction first asks for it. Knows the `MaskedLM`
protocol and nothing of transformers.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import MemoryLimitError
from unmask.model.devices import for_float64
from unmask.printable import readable_bytes
from unmask.tables.blank_reader import BlankReader
from unmask.tables.conditional import ConditionalTable, DenseLogits, FactoredLogits
from unmask.tables.contexts import EMPTY
from unmask.tables.storage import Storage, choose_storage


class ElicitedSource(BlankReader):
    """The source of tables of two blanks: only what a construction needs is read, each once."""

    _storage: Storage | None = None
    _read_contexts = False

    def diagnostics(self) -> dict[str, object]:
        """Model, text, batch size and number of forward passes so far.

        With the same `batch_size`, device and threads the same run gives the same bits.
        """
        rows = self.reader.batch_size
        size = {} if rows is None or not self._read_contexts else {"batch_size": rows}
        why = {"tables_because": self._storage.why} if self._storage else {}
        return {**super().diagnostics(), **size, **why}

    def table(self, outcome: int) -> ConditionalTable:
        """One blank read under every token of the other."""
        contexts, embedding = self.supports[1 - outcome].ids, self.model.output_embedding
        device, outcomes, width = for_float64(self.model.device), None, None
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
            outcomes = self.supports[outcome].ids.to(self.model.device)
        else:
            width = embedding.weight.shape[1]
            by_context = torch.empty(len(contexts), width, device=device)

        def keep(batch: slice, readouts: Tensor) -> None:
            read = readouts[:, 0]
            by_context[batch] = read if outcomes is None else read[:, outcomes]

        # half the memory of what the model reads: as many rows as there are tokens
        rows = torch.tensor([self.cloze.ids], dtype=torch.int32).repeat(len(contexts), 1)
        rows[:, self.cloze.positions[1 - outcome]] = contexts.int()

        self._read_contexts = True
        self.reader.each_batch(
            rows,
            [self.cloze.positions[outcome]],
            keep,
            what=f"blank {outcome} given blank {1 - outcome}",
        )
        logits = DenseLogits(values) if embedding is None else self._factored(outcome, by_context)
        self._storage = choose_storage(shape, width=width, settings=settings)
        stored = logits.dense() if self._storage.dense else logits
        return ConditionalTable.from_logits(stored, given="b" if outcome == 0 else "a")

    def _factored(self, outcome: int, readouts: Tensor) -> FactoredLogits:
        embedding = self.model.output_embedding
        assert embedding is not None
        weight, bias = embedding.weight, embedding.bias
        if not self.supports[outcome].is_whole(self.model.vocabulary_size):
            ids = self.supports[outcome].ids.to(weight.device)
            weight, bias = weight[ids], None if bias is None else bias[ids]
        weight = weight.to(readouts.device)
        bias = None if bias is None else bias.to(readouts.device)
        if outcome == 0:
            return FactoredLogits(weight, readouts, bias_a=bias)
        return FactoredLogits(readouts, weight, bias_b=bias)

    def log_rows(self, contexts: Sequence[Sequence[int]]) -> list[Float[Tensor, "contexts size"]]:
        """Of each blank the rows given some tokens of the other, all read in the same batches."""
        first = len(contexts[0])
        places = torch.full((first + len(contexts[1]), 2), EMPTY)
        places[:first, 1] = torch.tensor(contexts[0], dtype=torch.long)
        places[first:, 0] = torch.tensor(contexts[1], dtype=torch.long)
        device = for_float64(self.model.device)
        rows = [
            torch.empty(len(tokens), size, dtype=torch.float64, device=device)
            for tokens, size in zip(contexts, self.shape, strict=True)
        ]

        def use(which: Tensor, blank: int, log_probs: Tensor) -> None:
            rows[blank][which - blank * first] = log_probs

        self._read_contexts = True
        self.read(places, use, what="some contexts of both blanks")
        return rows
