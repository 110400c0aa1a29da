"""Any `AutoModelForMaskedLM` as a `MaskedLM`: loaded or in hand, checked, and never changed."""

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear

from unmask.errors import ClozeError, ModelError, NumericsError
from unmask.model.inside import Inside
from unmask.model.masked_lm import FIRST_IS_NO_BLANK
from unmask.model.output_layer import (
    FollowedLayer,
    OutputEmbedding,
    Positions,
    at_positions,
    largest_difference,
)
from unmask.model.passes import Pass, Replaced, lock_of


class HuggingFaceMaskedLM:
    """Any `AutoModelForMaskedLM`; readouts are captured by a hook on its output layer.

    One thread at a time runs the model. Nothing of it is changed: neither its mode, of which it
    must be in eval, nor its modules, hooks or weights.
    """

    def __init__(
        self,
        model: Any,
        *,
        mask_id: int,
        special_ids: Sequence[int],
        shift: bool = False,
        time: str | None = None,
    ) -> None:
        self.model = model
        self.mask_id = mask_id
        # whether a token is predicted at the position before it
        self.shift = shift
        # the argument of the model that gets the share of masks in a row
        self.time = time
        self.special_ids = frozenset(special_ids)
        self.max_length = _longest(model)
        self._every_module = list(model.modules())
        # what passes over rows of a length replace of the model
        self._replaced: dict[int, Replaced | None] = {}
        self._verified_lengths: set[int] = set()
        self._takes_attention_mask = False
        with lock_of(self.model):
            self.vocabulary_size, self._layer = self._probed()
        if self._layer is None:
            warnings.warn(
                f"{self._name}: its logits are not a linear function of its output "
                "layer's input; tables are kept as dense logits, V x V numbers each",
                stacklevel=5,
            )

    @property
    def device(self) -> torch.device:
        """The device that the model runs on."""
        parameter: Tensor = next(self.model.parameters())
        return parameter.device

    @property
    def output_embedding(self) -> OutputEmbedding | None:
        """The output layer, if readouts determine the logits; as the model has it now."""
        if self._layer is None:
            return None
        if not self._layer.is_current(self.model.get_output_embeddings()):
            with lock_of(self.model):
                # unless another thread has read it again meanwhile
                if not self._layer.is_current(self.model.get_output_embeddings()):
                    size, layer = self._probed()
                    if layer is None or size != self.vocabulary_size:
                        raise ModelError(
                            f"the output layer of {self._name} has changed since it was loaded; "
                            "load it again"
                        )
                    self._layer = layer
                    self._verified_lengths.clear()
        return self._layer.embedding

    def readouts(
        self, ids: Int[Tensor, "rows length"], positions: Positions
    ) -> Float[Tensor, "rows positions width"]:
        """Readouts (or logits) that predict the tokens at the positions, in float32."""
        return self._read(ids, positions)[0]

    def inside(
        self,
        ids: Int[Tensor, "rows length"],
        positions: Int[Tensor, "rows positions"],
        *,
        attention: bool = True,
    ) -> Inside:
        """Readouts as `readouts` has them, with attention and hidden states of the same pass.

        Fused attention does not form its weights, so such a pass runs unfused ("eager").
        """
        more = {"output_hidden_states": True, "output_attentions": attention}
        with lock_of(self.model):
            config = getattr(self.model, "config", None)
            if not attention or getattr(config, "_attn_implementation", None) in (None, "eager"):
                config = None
            readouts, output = self._read(ids, positions, unfused=config, **more)
        return Inside.of(readouts, output, positions.to(self.device), ids.shape[1])

    def _read(self, ids: Tensor, positions: Positions, **options: Any) -> tuple[Tensor, Any]:
        """Readouts (or logits), and the whole output of the pass."""
        at: Any = positions
        if self.shift:
            values = positions.flatten().tolist() if isinstance(positions, Tensor) else positions
            if 0 in values:
                raise ClozeError(FIRST_IS_NO_BLANK)
            at = positions - 1 if isinstance(positions, Tensor) else [p - 1 for p in positions]
        with lock_of(self.model):
            self._verify_length(ids, at)
            if self.output_embedding is None:
                output = self._run(ids, **options)[1]
                return at_positions(output.logits, at).float(), output
            readouts, output = self._run(ids, at, **options)
            return readouts.float(), output

    @property
    def _name(self) -> str:
        return type(self.model).__name__

    def _require_repeatable(self, ids: Tensor, logits: Tensor) -> None:
        error, tolerated = largest_difference(self._logits(ids), logits)
        if not error <= tolerated:
            raise ModelError(
                f"{self._name} gives other logits each time it reads the same text; unmask needs "
                "a model without random numbers in its forward pass"
            )

    def _verify_length(self, ids: Int[Tensor, "rows length"], positions: Positions) -> None:
        """Compare the readouts with the model's own logits, once per length of text."""
        length = ids.shape[1]
        if length in self._verified_lengths or not len(ids):
            return
        row, at = ids[:1], positions[:1] if isinstance(positions, Tensor) else positions
        whole = self._logits(row)
        logits, embedding = at_positions(whole, at), self.output_embedding
        if embedding is None:
            self._require_repeatable(row, whole)
        # readers of these numbers raise where they are not finite
        elif bool(torch.isfinite(logits).all()):
            readouts = self._run(row, at)[0].float()
            rebuilt = linear(readouts, embedding.weight, embedding.bias)
            error, tolerated = largest_difference(rebuilt, logits)
            if not error <= tolerated:
                self._require_repeatable(row, whole)
                raise ModelError(
                    f"{self._name} turns a text of {length} tokens into other logits than its "
                    f"output layer does, up to {error:.2g} off, so its tables would be wrong; "
                    "try a shorter text, or another model"
                )
        self._verified_lengths.add(length)

    def _run(
        self,
        ids: Tensor,
        positions: Positions | None = None,
        *,
        mask: bool | None = None,
        unfused: Any = None,
        **more: bool,
    ) -> tuple[Any, Any]:
        """One pass: with positions the output layer's input there, and the model's output.

        The output layer is then spared its work. Nothing is padded, so the attention mask is all
        ones and given only if that matters.
        """
        if self.model.training or any(module.training for module in self._every_module):
            raise ModelError(
                f"{self._name} is in training mode, so dropout would change every answer; "
                "call model.eval() first"
            )
        ids, (count, length) = ids.to(self.device), ids.shape
        with_mask = self._takes_attention_mask if mask is None else mask
        inputs: dict[str, Any] = {"attention_mask": torch.ones_like(ids)} if with_mask else {}
        if self.time is not None:
            inputs[self.time] = (ids == self.mask_id).float().mean(1)
        layer = None if positions is None else self.model.get_output_embeddings()
        forward = Pass(self.model, self._replaced.get(length), layer, unfused)
        output = forward.run(input_ids=ids, return_dict=True, **inputs, **more)
        self._replaced[length] = forward.replaced
        if positions is None:
            return None, output
        positions_per_row = positions.shape[1] if isinstance(positions, Tensor) else len(positions)
        readouts = forward.inputs[0] if len(forward.inputs) == 1 else None
        if readouts is not None and readouts.shape[1] == length:
            readouts = at_positions(readouts, positions)
        if readouts is None or readouts.shape[:2] != (count, positions_per_row):
            raise ModelError(f"{self._name} does not call its output layer once")
        return readouts, output

    def _logits(self, ids: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length vocabulary"]:
        logits = getattr(self._run(ids)[1], "logits", None)
        if not isinstance(logits, Tensor):
            raise ModelError(
                f"{self._name} gives no logits, so it lacks the head of a masked LM; load its "
                "checkpoint with AutoModelForMaskedLM"
            )
        if logits.shape[:2] != ids.shape or logits.ndim != 3:
            # Perceiver has one output for each position that its decoder has
            raise ModelError(
                f"{self._name} returns logits of shape {tuple(logits.shape)} for "
                f"ids of shape {tuple(ids.shape)}; unmask needs one row of logits per token, so a "
                "model that always fills a fixed length is not supported"
            )
        return logits

    def _needs_attention_mask(self, ids: Tensor) -> bool:
        """True if a mask of ones changes anything, special tokens in the text or not."""
        if "attention_mask" not in inspect.signature(self.model.forward).parameters:
            return False
        # a model may take a padding token in the text for padding unless a mask says otherwise
        padding = getattr(self.model.config, "pad_token_id", None)
        for token in sorted({*self.special_ids, self.mask_id if padding is None else padding}):
            if token < input_size(self.model):
                ids = torch.cat([ids, ids[:1]])
                ids[-1, ids.shape[1] // 4] = token
        try:
            without = self._run(ids, mask=False)[1].logits
        except Exception:  # a model that breaks without a mask needs one
            return True
        try:
            error, tolerated = largest_difference(self._run(ids, mask=True)[1].logits, without)
        except Exception:  # and one that takes masks of other kinds only does not (Dream)
            return False
        return not error <= tolerated

    def _probed(self) -> tuple[int, FollowedLayer | None]:
        """The number of outputs, and the output layer if it reproduces the model's own logits.

        Tried on a few arbitrary sequences, the mask in each, the same in every process. The bias
        may lie elsewhere in the model.
        """
        length, every = min(8, self.max_length or 8), range(input_size(self.model))
        generator = torch.Generator().manual_seed(0)
        ordinary = torch.tensor([i for i in every if i not in self.special_ids] or list(every))
        ids = ordinary[torch.randint(len(ordinary), (3, length), generator=generator)]
        ids[:, length // 2] = self.mask_id
        self._takes_attention_mask = self._needs_attention_mask(ids)
        logits = self._logits(ids)
        if not bool(torch.isfinite(logits).all()):
            raise NumericsError(
                f"{self._name} returns logits that are not finite; float16 overflows in "
                "some models, so try float32, and check the weights"
            )
        self._require_repeatable(ids, logits)
        size = int(logits.shape[-1])
        layer = self.model.get_output_embeddings()
        weight = getattr(layer, "weight", None)
        if not isinstance(weight, Tensor) or weight.ndim != 2 or len(weight) != size:
            return size, None
        try:
            readouts = self._run(ids, range(ids.shape[1]))[0].float()
        except Exception:  # a head that this hook does not fit, however it fails, is kept dense
            return size, None
        if readouts.shape[-1] != weight.shape[1]:
            return size, None
        bias = getattr(layer, "bias", None)
        others = [
            parameter
            for name, parameter in self.model.named_parameters()
            if name.endswith("bias") and tuple(parameter.shape) == (size,)
        ]
        biases = [bias, *others, *([] if bias is None else [None])]
        # the nearest, not the first within the limit: a small bias would be dropped unnoticed
        layers = [FollowedLayer(weight, bias) for bias in biases]
        numbers = (layer.embedding for layer in layers)
        rebuilt = (linear(readouts, each.weight, each.bias) for each in numbers)
        errors = [largest_difference(values, logits) for values in rebuilt]
        nearest = min(range(len(layers)), key=lambda number: errors[number][0])
        error, tolerated = errors[nearest]
        return size, layers[nearest] if error <= tolerated else None


def input_size(model: Any) -> int:
    """The number of ids that the model reads; its embeddings may be the numbers themselves."""
    embeddings = model.get_input_embeddings()
    return len(getattr(embeddings, "weight", embeddings))


def _longest(model: Any) -> int | None:
    """The number of tokens that fit: positions that embeddings reserve for padding do not count."""
    limits: list[int] = []
    embeddings, modules = model.get_input_embeddings(), dict(model.named_modules())
    place = next((name for name, part in modules.items() if part is embeddings), None)
    # beside and below the module that embeds tokens are those of a text, not of an image
    around = None if place is None else place.rpartition(".")[0]
    for name, part in modules.items():
        if around is None or not name.startswith(around):
            continue
        weight = getattr(part, "weight", None)
        if name.endswith("position_embeddings") and isinstance(weight, Tensor):
            padding = getattr(part, "padding_idx", None)
            limits.append(len(weight) - (0 if padding is None else padding + 1))
        # some number the positions of a text beforehand, fewer than they have embeddings for
        numbered = part._buffers.get("position_ids")
        if numbered is not None and numbered.ndim == 2:
            limits.append(numbered.shape[1])
    if limits:
        return min(limits)
    config = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    limit = getattr(text, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None
