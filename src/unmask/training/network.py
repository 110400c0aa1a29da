"""A model that is trained: logits at some places of rows, with gradients, every pass counted."""

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from unmask.errors import ModelError
from unmask.language_model import LanguageModel
from unmask.model.hooks import run_hooked
from unmask.model.masked_lm import first_blank
from unmask.model.pretrained import quiet
from unmask.printable import printable
from unmask.training.texts import Batch

# how far logits at some places may be from the model's own, as a part of the largest
_TOLERANCE = 1e-4


class Network:
    """A copy of a model in float32, which alone is changed; `passes` and `tokens` count its work.

    A forward pass is the model on one sequence. Logits are computed at the chosen places alone
    where the model's output layer can be called on them.
    """

    def __init__(self, lm: LanguageModel, *, bfloat16: bool = False) -> None:
        module: Any = getattr(lm.model, "model", None)
        if not isinstance(module, nn.Module) or not hasattr(module, "save_pretrained"):
            raise ModelError(
                f"{printable(lm.name)} is not a model of transformers, so it cannot be tuned"
            )
        self.module: Any = copy.deepcopy(module).float()
        # some models change their settings while they run; the saved model has the original ones
        self._config = copy.deepcopy(module.config)
        self.passes = self.tokens = 0
        self._bfloat16 = bfloat16
        takes_mask = "attention_mask" in inspect.signature(module.forward).parameters
        self._takes_attention: bool = getattr(lm.model, "reads_masks", takes_mask)
        padding = getattr(lm.tokenizer, "pad_token_id", None)
        # without a padding token or an attention mask, rows have one length
        self.pads = padding is not None and self._takes_attention
        self.padding: int = lm.model.mask_id if padding is None else padding
        if not self.parameters():
            raise ModelError(
                f"{printable(lm.name)} has no weight that can be trained: all are frozen"
            )
        self._shift, self._time_of = first_blank(lm.model), getattr(lm.model, "time_of", None)
        self._narrow = True
        self._narrow = self._can_narrow(lm)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        device: torch.device = next(self.module.parameters()).device
        return device

    def parameters(self) -> dict[str, nn.Parameter]:
        """The trained weights by name; a tied weight once."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def logits(
        self, batch: Batch, chosen: Bool[Tensor, "rows length"], *, dropout: bool = False
    ) -> Float[Tensor, "chosen vocabulary"]:
        """Logits at the chosen places, row by row."""
        self.passes += len(batch)
        self.tokens += int(batch.attention.sum())
        # only where it differs: setting the mode walks over every module
        if self.module.training != dropout:
            self.module.train(dropout)
        # where the tokens are predicted; the first is not among those of a shifted model
        chosen = chosen.roll(-self._shift, dims=1)
        ids, chosen = batch.ids.to(self.device), chosen.to(self.device)
        attention = batch.attention.to(self.device)
        options = {"attention_mask": attention} if self._takes_attention else {}
        options |= self._time_of(ids) if self._time_of is not None else {}

        def forward() -> Tensor:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bfloat16):
                logits: Tensor = self.module(input_ids=ids, return_dict=True, **options).logits
                return logits

        if not self._narrow:
            return forward()[chosen].float()
        return self._narrowed(chosen, forward).float()

    def save(self, folder: Path, tokenizer: Any) -> None:
        """An ordinary Hugging Face folder."""
        self.module.eval()
        dtype = self.module.config.dtype
        self.module.config = copy.deepcopy(self._config)
        self.module.config.dtype = dtype
        with quiet(bars=False):
            self.module.save_pretrained(folder)
            tokenizer.save_pretrained(folder)

    def _narrowed(self, chosen: Tensor, forward: Callable[[], Tensor]) -> Tensor:
        """Spare the output layer the places that are not chosen: most of its work."""

        def narrow(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (args[0][chosen][None], *args[1:])

        return run_hooked([self.module.get_output_embeddings()], narrow, forward)[0]

    def _can_narrow(self, lm: LanguageModel) -> bool:
        """Whether that gives the model's own logits; tried on a row."""
        ordinary = [i for i in range(lm.model.vocabulary_size) if i not in lm.model.special_ids]
        length = min(8, lm.model.max_length or 8)
        row = [ordinary[i % len(ordinary)] for i in range(length)]
        row[length // 2] = lm.model.mask_id
        batch = Batch(torch.tensor([row, row[::-1]]), torch.ones((2, length), dtype=torch.long))
        chosen = torch.zeros((2, length), dtype=torch.bool)
        chosen[0, length // 2] = chosen[1, 0] = True
        with torch.no_grad():
            try:
                narrow = self.logits(batch, chosen)
            except Exception:  # a head that this does not fit, however it fails
                return False
            self._narrow = False
            whole = self.logits(batch, chosen)
        self.passes = self.tokens = 0
        scale = 1 + float(whole.abs().max())
        return narrow.shape == whole.shape and bool(
            (narrow - whole).abs().max() <= _TOLERANCE * scale
        )
