"""The way in: a hub name, a folder, or a model and tokenizer in hand, to a `LanguageModel`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unmask.errors import ModelError
from unmask.language_model import LanguageModel
from unmask.model.masked_lm import MaskedLM
from unmask.model.precision import RoundingError, rounding_error
from unmask.model.pretrained import Pretrained, adapt, load_pretrained
from unmask.printable import printable, quoted
from unmask.text.cloze import Blank, Cloze, Tokenizer


class LoadedLanguageModel(LanguageModel):
    """A language model that knows how to get its weights again in float32."""

    def __init__(
        self,
        model: MaskedLM,
        tokenizer: Tokenizer,
        *,
        name: str,
        revision: str | None = None,
        in_float32: Callable[[], Pretrained] | None = None,
    ) -> None:
        super().__init__(model, tokenizer, name=name, revision=revision)
        self._in_float32 = in_float32

    def rounding_error(
        self, text: str | Cloze, *, blanks: Sequence[Blank] | None = None, rows: int = 128
    ) -> RoundingError:
        """How far this precision moves log-probabilities: the model is loaded again to compare.

        Takes about `rows` rows of the text, contexts spread over the vocabulary, of both models.
        """
        if self._in_float32 is None:
            raise ModelError(
                f"{printable(self.name)} was given as a model in hand, so there are no float32 "
                "weights to compare with; load it by its name or folder"
            )
        return rounding_error(
            self._in_float32().masked_lm, self.model, self._as_cloze(text, blanks), rows=rows
        )


def load(
    model: str | Path | tuple[Any, Any],
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    compile: bool = False,
) -> LoadedLanguageModel:
    """Load a masked LM: a hub name, a local folder, or a pair (model, tokenizer).

    Weights must be safetensors and code the library's own, unless `allow_pickle` or
    `trust_remote_code` say otherwise. Without a `device` it is a CUDA GPU when there is one,
    without a `dtype` float32; a model in hand keeps its own, must be in eval mode, and is not
    changed. `compile` has torch compile the model, in place, which takes up to minutes; try whether
    it pays on your device. Threads may share what `load` returns: they take turns at the model.
    """
    if isinstance(model, tuple):
        if len(model) != 2:
            raise ModelError(f"a pair (model, tokenizer) has two parts, not {len(model)}")
        if device is not None or dtype is not None or revision is not None:
            raise ModelError(
                "a model in hand keeps its device, dtype and revision; move it before load"
            )
        masked_lm, tokenizer = adapt(*model)
        if compile:
            masked_lm.compile()
        return LoadedLanguageModel(masked_lm, tokenizer, name=type(model[0]).__name__)
    if not isinstance(model, str | Path) or not str(model):
        raise ModelError(
            f"load takes a name, a folder or a pair (model, tokenizer), not {quoted(model)}"
        )
    read = partial(
        load_pretrained,
        model,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
    )
    found = read(dtype=dtype or "float32")
    if compile:
        found.masked_lm.compile()
    return LoadedLanguageModel(
        found.masked_lm,
        found.tokenizer,
        name=str(model),
        revision=found.commit,
        in_float32=partial(read, dtype="float32", revision=found.commit or revision),
    )
