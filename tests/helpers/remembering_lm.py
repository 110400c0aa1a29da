"""A model that remembers what it was asked."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unmask import Cloze
from unmask.model.output_layer import OutputEmbedding

VOCABULARY, WIDTH, MASK = 12, 3, 11


CLOZE = Cloze("", (1, 5, MASK, 7, MASK, 2), (2, 4))


EVERY = slice(None)


class RememberingLM:
    """Meets the `MaskedLM` protocol; every row's answer depends on that row alone."""

    vocabulary_size, mask_id, max_length = VOCABULARY, MASK, None
    special_ids = frozenset({0, 1, 2, MASK})
    device = torch.device("cpu")

    def __init__(self, *, factored: bool = True) -> None:
        generator = torch.Generator().manual_seed(3)
        self.layer = OutputEmbedding(
            torch.randn(VOCABULARY, WIDTH, generator=generator),
            torch.randn(VOCABULARY, generator=generator),
        )
        self.output_embedding = self.layer if factored else None
        self.asked: list[tuple[list[list[int]], list[int]]] = []
        self.before: Callable[[int], None] = lambda rows: None

    def readouts(self, ids: Tensor, positions: Sequence[int]) -> Tensor:
        self.asked.append((ids.tolist(), list(positions)))
        self.before(len(ids))
        return torch.stack([self._row(row, positions) for row in ids])

    def _row(self, row: Tensor, positions: Sequence[int]) -> Tensor:
        places = torch.arange(1, len(row) + 1)
        at = torch.tensor([[p * 10 + k for k in range(WIDTH)] for p in positions])
        readout = torch.sin(at + torch.cos(row * places).sum())
        return readout if self.output_embedding else self.layer.logits(readout)

    @property
    def batch_sizes(self) -> list[int]:
        return [len(rows) for rows, _ in self.asked]
