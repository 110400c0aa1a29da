"""A masked language model seen from outside: token ids in, readouts at a few positions out.

`MaskedLM` is all that elicitation needs; `hugging_face` meets it for any `AutoModelForMaskedLM`. A
readout is the input of the model's output layer at one position: it determines the logits there
through `OutputEmbedding`, and is V / d times smaller.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.model.output_layer import OutputEmbedding, Positions

FIRST_IS_NO_BLANK = (
    "the first token of a text cannot be a blank, because this model predicts every token at the "
    "position before; begin the text with a special token, such as the tokenizer's bos_token"
)


@runtime_checkable
class MaskedLM(Protocol):
    """A model that predicts the token at a position of a sequence.

    With an `output_embedding`, `readouts` returns that layer's inputs; without one
    (`None`), it returns the logits themselves.
    """

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens that the model distinguishes."""

    @property
    def mask_id(self) -> int:
        """The id of the mask token."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are not ordinary tokens of a text."""

    @property
    def max_length(self) -> int | None:
        """The longest sequence that the model accepts, or None."""

    @property
    def device(self) -> torch.device:
        """The device that the model runs on."""

    @property
    def output_embedding(self) -> OutputEmbedding | None:
        """The output layer, if readouts determine the logits."""

    def readouts(
        self, ids: Int[Tensor, "rows length"], positions: Positions
    ) -> Float[Tensor, "rows positions width"]:
        """Readouts (or logits) at the positions, one row per sequence, in float32.

        Positions are a sequence of integers, the same for all rows, or an integer tensor with
        one row of them per sequence.
        """


def first_blank(model: MaskedLM) -> int:
    """The first position that may be a blank: 1 where tokens are predicted at the one before."""
    return int(bool(getattr(model, "shift", False)))
