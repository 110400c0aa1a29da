"""The contents of the blanks while others are read: the rows of the model behind a table."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.text.support import Support


class Unfixed(Enum):
    """A blank that takes each of its candidates in turn, or stays masked and can be read."""

    FREE = "free"
    MASKED = "masked"


FREE, MASKED = Unfixed.FREE, Unfixed.MASKED

# a place on the blank's support holds that one token
Content = Unfixed | int


@dataclass(frozen=True)
class Contexts:
    """Contents of all blanks: every assignment of the free ones is a row of the model."""

    contents: tuple[Content, ...]

    @property
    def read(self) -> tuple[int, ...]:
        """The blanks that are masked, and so can be read."""
        return tuple(i for i, content in enumerate(self.contents) if content == MASKED)

    def shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Assignments along every blank's axis: 1 where the blank does not vary."""
        return tuple(
            size if content == FREE else 1
            for size, content in zip(sizes, self.contents, strict=True)
        )

    def rows(self, sizes: Sequence[int]) -> int:
        """How many rows of the model these are."""
        return math.prod(self.shape(sizes))

    def tokens(self, supports: Sequence[Support], mask_id: int) -> Int[Tensor, "rows blanks"]:
        """The token of each blank in every row, the last blank varying fastest."""
        choices = [
            _tokens(content, support, mask_id)
            for support, content in zip(supports, self.contents, strict=True)
        ]
        return torch.tensor(list(itertools.product(*choices)), dtype=torch.long)


def _tokens(content: Content, support: Support, mask_id: int) -> list[int]:
    if isinstance(content, int):
        return [int(support.ids[content])]
    return [mask_id] if content == MASKED else [int(token) for token in support.ids]


def given_all_others(blanks: int, outcome: int) -> Contexts:
    """One blank read under every assignment of the others."""
    return Contexts(tuple(MASKED if i == outcome else FREE for i in range(blanks)))


def given(blanks: int, filled: Sequence[int]) -> Contexts:
    """Some blanks filled in every way, the rest masked and read."""
    return Contexts(tuple(FREE if i in filled else MASKED for i in range(blanks)))
