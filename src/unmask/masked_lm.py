"""A masked language model seen from outside: token ids in, readouts at a few positions out.

`MaskedLM` is all that elicitation needs; `HuggingFaceMaskedLM` meets it for any
`AutoModelForMaskedLM`. A readout is the input of the model's output layer at one position: it
determines the logits there through `OutputEmbedding`, and is V / d times smaller.
"""

import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.compiling import compile_trunk
from unmask.errors import ModelError, NumericsError
from unmask.trimming import (
    NOTHING_TRIMMED,
    Positions,
    Probe,
    Trimming,
    at_positions,
    captured_input,
    find_trimming,
    same_numbers,
    still_valid,
)

# how far reconstructed logits may be from the model's own, as a part of the largest logit
_RECONSTRUCTION_TOLERANCE = {torch.float32: 5e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# fewer rows are not worth the passes that find out what may be trimmed
_ROWS_WORTH_TRIMMING = 16
# lengths of the sequences that find out, and how many: no two of these numbers are equal
_PROBE_LENGTHS, _PROBE_ROWS = (5, 8), 6


@dataclass(frozen=True, eq=False)
class OutputEmbedding:
    """The output layer as numbers: logits = readouts @ weight.T + bias."""

    weight: Float[Tensor, "vocabulary width"]
    bias: Float[Tensor, " vocabulary"] | None

    def logits(self, readouts: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        """Logits over the whole vocabulary."""
        logits = readouts @ self.weight.T
        return logits if self.bias is None else logits + self.bias


@runtime_checkable
class MaskedLM(Protocol):
    """A model that can be asked what stands at a position of a token sequence.

    With an `output_embedding`, `readouts` returns that layer's inputs; without one
    (`None`), it returns the logits themselves.
    """

    @property
    def vocabulary_size(self) -> int:
        """How many tokens the model distinguishes."""

    @property
    def mask_id(self) -> int:
        """The id that stands for a blank."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are not ordinary tokens of a text."""

    @property
    def max_length(self) -> int | None:
        """The longest sequence the model takes, or None."""

    @property
    def device(self) -> torch.device:
        """Where the model runs."""

    @property
    def output_embedding(self) -> OutputEmbedding | None:
        """The output layer, if readouts determine the logits."""

    def readouts(
        self, ids: Int[Tensor, "rows length"], positions: Positions
    ) -> Float[Tensor, "rows positions width"]:
        """Readouts (or logits) at the positions, one row a sequence, in float32.

        Positions are a sequence of integers, the same for all rows, or an integer tensor with
        one row of them a sequence.
        """


class HuggingFaceMaskedLM:
    """Any `AutoModelForMaskedLM`; readouts are captured by a hook on its output layer."""

    def __init__(self, model: Any, *, mask_id: int, special_ids: Sequence[int]) -> None:
        self.model = model.eval()
        self.mask_id = mask_id
        self.special_ids = frozenset(special_ids)
        self.device: torch.device = next(model.parameters()).device
        self.max_length = _longest(model)
        self._trimmed_lengths: dict[int, bool] = {}
        self._closed: frozenset[nn.Module] = frozenset()
        self._takes_attention_mask = "attention_mask" in inspect.signature(model.forward).parameters
        probe = self._probe_ids()
        own = self._logits(probe)
        self.vocabulary_size = int(own.shape[-1])
        if not bool(torch.isfinite(own).all()):
            raise NumericsError(
                f"{type(model).__name__} returns logits that are not finite; float16 overflows in "
                "some models, so try dtype='float32', and check the weights"
            )
        self._takes_attention_mask = self._takes_attention_mask and self._needs_attention_mask()
        self.output_embedding = self._verified_embedding(probe, own)
        if self.output_embedding is None:
            warnings.warn(
                f"{type(model).__name__}: its logits are not a linear function of its output "
                "layer's input; tables are kept as dense logits, V x V numbers each",
                stacklevel=5,
            )

    @torch.inference_mode()
    def readouts(
        self, ids: Int[Tensor, "rows length"], positions: Positions
    ) -> Float[Tensor, "rows positions width"]:
        """Readouts (or logits) at the positions, in float32."""
        if self.output_embedding is None:
            return at_positions(self._logits(ids), positions).float()
        one = (positions.shape[1] if isinstance(positions, Tensor) else len(positions)) == 1
        worthwhile = one and len(ids) >= _ROWS_WORTH_TRIMMING and ids.shape[1] > 1
        trimming = self._trimming_here(ids, positions) if worthwhile else NOTHING_TRIMMED
        return self._captured(ids, positions, trimming).float()

    @cached_property
    def trimming(self) -> Trimming:
        """What need not be computed where one position a row is read; found by trying."""
        longest = self.max_length or max(_PROBE_LENGTHS)
        if self.output_embedding is None or longest < max(_PROBE_LENGTHS):
            return NOTHING_TRIMMED
        return find_trimming(
            [module for module in self.model.modules() if module not in self._closed],
            self._captured,
            [self._trimming_probe(length) for length in _PROBE_LENGTHS],
        )

    def _trimming_here(self, ids: Int[Tensor, "rows length"], positions: Positions) -> Trimming:
        """The trimming, if rows of this length bear it too; tried on two of the first ones."""
        length = ids.shape[1]
        if length not in self._trimmed_lengths:
            ends = [0, len(ids) - 1]
            at = positions[ends] if isinstance(positions, Tensor) else torch.tensor([positions] * 2)
            found = still_valid(self.trimming, self._captured, (ids[ends], at))
            self._trimmed_lengths[length] = found
        return self.trimming if self._trimmed_lengths[length] else NOTHING_TRIMMED

    def _forward(self, ids: Int[Tensor, "rows length"], *, mask: bool | None = None) -> Any:
        """One pass; nothing is padded, so the mask is all ones and given only if that matters."""
        given = self._takes_attention_mask if mask is None else mask
        options = {"attention_mask": torch.ones_like(ids)} if given else {}
        return self.model(input_ids=ids, return_dict=True, **options)

    @torch.inference_mode()
    def _logits(self, ids: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length vocabulary"]:
        logits: Tensor = self._forward(ids.to(self.device)).logits
        if logits.ndim != 3 or logits.shape[:2] != ids.shape:
            raise ModelError(
                f"{type(self.model).__name__} returns logits of shape {tuple(logits.shape)} for "
                f"ids of shape {tuple(ids.shape)}; a masked LM gives one row a token"
            )
        return logits

    @torch.inference_mode()
    def _captured(
        self,
        ids: Int[Tensor, "rows length"],
        positions: Positions,
        trimming: Trimming = NOTHING_TRIMMED,
    ) -> Tensor:
        length = ids.shape[1]
        if isinstance(positions, Tensor):
            # once, not at every call that is cut
            positions = positions.to(self.device)
        with (
            trimming.at(positions, length),
            captured_input(self.model.get_output_embeddings(), positions, length) as captured,
        ):
            self._forward(ids.to(self.device))
        several = positions.shape[1] if isinstance(positions, Tensor) else len(positions)
        if len(captured) != 1 or captured[0].shape[:2] != (len(ids), several):
            raise ModelError(f"{type(self.model).__name__} does not call its output layer once")
        return captured[0]

    def _captured_middle(self, ids: Int[Tensor, "rows length"]) -> Tensor:
        return self._captured(ids, [ids.shape[1] // 2])

    def compile(self) -> None:
        """Have torch compile all but the head, in place, and check that it computes the same."""
        # as many rows as a batch has: compilers choose what to do by the first shape they see
        ids = self._arbitrary_ids(128, min(16, self.max_length or 16))
        read = self._logits if self.output_embedding is None else self._captured_middle
        compile_trunk(self.model, lambda: read(ids))
        # one piece, which hooks inside would break up again
        self._closed = frozenset(self.model.base_model.modules())

    @torch.inference_mode()
    def _needs_attention_mask(self) -> bool:
        """Whether a mask of ones changes anything, special tokens in the text or not."""
        ids = self._probe_ids()
        size = self.model.get_input_embeddings().weight.shape[0]
        # a model may take a padding token in the text for padding unless told otherwise
        padding = getattr(self.model.config, "pad_token_id", None)
        for token in sorted({*self.special_ids, self.mask_id if padding is None else padding}):
            if token < size:
                ids = torch.cat([ids, ids[:1]])
                ids[-1, ids.shape[1] // 4] = token
        ids = ids.to(self.device)
        given = self._forward(ids, mask=True).logits
        try:
            return not same_numbers(self._forward(ids, mask=False).logits, given)
        except Exception:  # a model that breaks without a mask needs one
            return True

    def _probe_ids(self) -> Int[Tensor, "rows length"]:
        """A few arbitrary sequences, the mask in each, the same in every process."""
        length = min(8, self.max_length or 8)
        ids = self._arbitrary_ids(3, length)
        ids[:, length // 2] = self.mask_id
        return ids

    def _trimming_probe(self, length: int) -> Probe:
        """Arbitrary sequences, a mask at the position that is read: another one in each."""
        ids = self._arbitrary_ids(_PROBE_ROWS, length)
        positions = torch.linspace(0, length - 1, _PROBE_ROWS).round().long()[:, None]
        return ids.scatter_(1, positions, self.mask_id), positions

    def _arbitrary_ids(self, rows: int, length: int) -> Int[Tensor, "rows length"]:
        size = self.model.get_input_embeddings().weight.shape[0]
        generator = torch.Generator().manual_seed(0)
        ordinary = [i for i in range(size) if i not in self.special_ids] or list(range(size))
        picks = torch.randint(len(ordinary), (rows, length), generator=generator)
        return torch.tensor(ordinary)[picks]

    @torch.inference_mode()
    def _verified_embedding(self, ids: Tensor, own: Tensor) -> OutputEmbedding | None:
        """The output layer, if it reproduces the model's own logits; the bias may lie elsewhere."""
        layer = self.model.get_output_embeddings()
        weight = getattr(layer, "weight", None)
        if not isinstance(weight, Tensor) or weight.ndim != 2 or len(weight) != own.shape[-1]:
            return None
        try:
            readouts = self._captured(ids, range(ids.shape[1])).float()
        except Exception:  # a head that this hook does not fit, however it fails, is kept dense
            return None
        if readouts.shape[-1] != weight.shape[1]:
            return None
        limit = _RECONSTRUCTION_TOLERANCE.get(own.dtype, 5e-5) * (1 + float(own.abs().max()))
        candidates = [
            OutputEmbedding(weight.detach().float(), None if b is None else b.detach().float())
            for b in self._possible_biases(layer)
        ]
        # the nearest, not the first within the limit: a small bias would be dropped unnoticed
        errors = [float((e.logits(readouts) - own.float()).abs().max()) for e in candidates]
        best = min(range(len(candidates)), key=errors.__getitem__)
        return candidates[best] if errors[best] <= limit else None

    def _possible_biases(self, layer: nn.Module) -> Iterator[Tensor | None]:
        own = getattr(layer, "bias", None)
        yield own
        for name, parameter in self.model.named_parameters():
            if name.endswith("bias") and tuple(parameter.shape) == (self.vocabulary_size,):
                yield parameter
        if own is not None:
            yield None


def _longest(model: Any) -> int | None:
    """How many tokens fit: positions that embeddings reserve for padding do not count."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - reserved
    limit = getattr(model.config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None
