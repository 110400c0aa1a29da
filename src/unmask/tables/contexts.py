"""The contents of the blanks while others are read: the rows of the model behind a table."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from jaxtyping import Int
from torch import Tensor

# a blank that takes each of its candidates in turn, and one that stays masked and can be read
FREE: Final = "free"
MASKED: Final = "masked"
# a place on the blank's support holds that one token
Content = int | Literal["free", "masked"]

EMPTY = -1  # the place of a blank that is masked


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

    def places(self, sizes: Sequence[int]) -> Int[Tensor, "rows blanks"]:
        """The place of each blank on its support in every row, the last blank varying fastest."""
        each = [
            range(size) if content == FREE else [EMPTY if content == MASKED else content]
            for size, content in zip(sizes, self.contents, strict=True)
        ]
        return torch.tensor(list(itertools.product(*each)), dtype=torch.long)


def given(blanks: int, filled: Sequence[int]) -> Contexts:
    """Some blanks filled in every way, the rest masked and read."""
    return Contexts(tuple(FREE if i in filled else MASKED for i in range(blanks)))
