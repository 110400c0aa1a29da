"""What makes two models the same: the bytes of their weights and the names of their tokens."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from unmask.errors import ModelError
from unmask.evaluation.plan import ModelIdentity, sha256
from unmask.language_model import LanguageModel
from unmask.printable import printable


def identify(lm: LanguageModel, *, name: str, dtype: str, compiled: bool) -> ModelIdentity:
    """The identity of a loaded model, under the name that tables will have."""
    return ModelIdentity(
        name=name,
        revision=lm.revision,
        weights=weights_digest(lm),
        vocabulary=vocabulary_digest(lm),
        dtype=dtype,
        compiled=compiled,
    )


def weights_digest(lm: LanguageModel) -> str:
    """SHA-256 over every weight by name, in the precision it was loaded in.

    What is not saved with a model, such as numbers of positions, is not part of it.
    """
    module: Any = getattr(lm.model, "model", None)
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"{printable(lm.name)} has no torch weights to recognise it by")
    total = hashlib.sha256()
    for name, weight in sorted(module.state_dict().items()):
        total.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        total.update(_bytes(weight))
    return total.hexdigest()


def vocabulary_digest(lm: LanguageModel) -> str:
    """SHA-256 over the tokens in the order of their ids."""
    return sha256(list(lm.support().names))


def _bytes(weight: Tensor) -> bytes:
    flat = weight.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
