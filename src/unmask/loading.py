"""The way in: a hub name, a folder, or a model and tokenizer in hand, to a `LanguageModel`."""

from pathlib import Path
from typing import Any

import torch

from unmask.arguments import check_flags, whole_number
from unmask.errors import ModelError
from unmask.language_model import LanguageModel
from unmask.model.pretrained import adapt, load_pretrained
from unmask.printable import quoted


def load(
    model: str | Path | tuple[Any, Any],
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    mask_id: int | None = None,
    shift: bool | None = None,
    time: str | None = None,
) -> LanguageModel:
    """Load a masked LM: a Hub name, a local folder, or a pair (model, tokenizer).

    A model in memory keeps its device and dtype, must be in eval mode, and is not changed. Threads
    may share what `load` returns: they take turns running the model.

    Args:
        model: A name on the Hub, a folder, or a model and its tokenizer.
        device: Where the model runs. Default: a CUDA GPU if there is one.
        dtype: Precision of the weights. Default: float32.
        revision: Commit, tag or branch on the Hub.
        trust_remote_code: Whether code from the model's repository may run.
        allow_pickle: Whether weights may be pickles, which can run code; otherwise safetensors.
        mask_id: The id that stands for a blank. Default: the tokenizer's mask token; of a tokenizer
            without one, that of the configuration or of the preset of LLaDA.
        shift: Whether token i is predicted at position i-1, so that the first token of a text
            cannot be a blank. Default: whether it is a Dream model.
        time: The argument of the model that gets the share of masks in every sequence, from 0 to
            1. Default: none.
    Returns:
        The model with its tokenizer, ready to be asked.
    Raises:
        ModelError: There is no such model, or it cannot be used as a masked LM.
    Examples:
        >>> lm = unmask.load("models/tiny-english")
        >>> lm.max_length
        128
    """
    number = whole_number(mask_id)
    if mask_id is not None and (number is None or number < 0):
        raise ModelError(f"mask_id is the id of a token, from 0, not {quoted(mask_id)}")
    # what allows code to run is said, not guessed
    check_flags(trust_remote_code=trust_remote_code, allow_pickle=allow_pickle)
    if shift is not None and not isinstance(shift, bool):
        raise ModelError(f"shift is True or False, not {quoted(shift)}")
    if time is not None and not isinstance(time, str):
        raise ModelError(f"time is the name of an argument of the model, not {quoted(time)}")
    reading: dict[str, Any] = {"mask_id": mask_id, "shift": shift, "time": time}
    if isinstance(model, tuple):
        if len(model) != 2:
            raise ModelError(f"a pair (model, tokenizer) has two parts, not {len(model)}")
        if device is not None or dtype is not None or revision is not None:
            raise ModelError(
                "a model in memory keeps its device, dtype and revision; change them before load"
            )
        return LanguageModel(*adapt(*model, **reading), name=type(model[0]).__name__)
    if not isinstance(model, str | Path) or not str(model):
        raise ModelError(
            f"load takes a name, a folder or a pair (model, tokenizer), not {quoted(model)}"
        )
    masked_lm, tokenizer, commit = load_pretrained(
        model,
        device=device,
        dtype=dtype or "float32",
        revision=revision,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        **reading,
    )
    return LanguageModel(masked_lm, tokenizer, name=str(model), revision=commit)
