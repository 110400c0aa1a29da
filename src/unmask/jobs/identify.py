"""The identity of a loaded model: its weights, configuration and tokenizer."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch

from unmask.errors import ModelError
from unmask.jobs.canonical import sha256
from unmask.jobs.model_identity import ModelIdentity
from unmask.language_model import LanguageModel
from unmask.model.masked_lm import first_blank
from unmask.printable import printable

# names, places, versions, settings of other outputs: not part of what a model computes
_NOT_OF_THE_FUNCTION = {
    *("name_or_path", "architectures", "auto_map", "tokenizer_class", "transformers_version"),
    # the plan has the precision that was requested, and machines choose how to attend
    *("dtype", "torch_dtype", "attn_implementation"),
    *("id2label", "label2id", "problem_type", "finetuning_task", "task_specific_params"),
    *("return_dict", "output_attentions", "output_hidden_states", "use_cache"),
}
# parts of a tokenizer's own JSON that decide what tokens a text has
_TOKENIZING = ("normalizer", "pre_tokenizer", "post_processor", "model", "added_tokens")
# capitals, accents, spaces, numbers, words in pieces, other scripts: what rules may treat otherwise
_SAMPLE = "The naïve  Café re-opened, didn't it?\n42 UNMASKED ½ ﬁsh; 猫が座った. MKTAYIAK"
# longer values (vocabularies, merges, tables of characters) are known by their hash
_LONGEST = 400


def identify(lm: LanguageModel, *, name: str, dtype: str) -> ModelIdentity:
    """The identity of a loaded model, under the name that tables will have."""
    return ModelIdentity(
        name=name,
        revision=lm.revision,
        weights=weights_digest(lm),
        # over the tokens in the order of their ids
        vocabulary=sha256(list(lm.support().names)),
        dtype=dtype,
        config=configuration(lm),
        tokenizer=tokenizer_settings(lm),
    )


def weights_digest(lm: LanguageModel) -> str:
    """SHA-256 over every weight by name, in the precision it was loaded in.

    Tensors that are not saved with a model, such as numbers of positions, are left out.
    """
    module: Any = getattr(lm.model, "model", None)
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"{printable(lm.name)} has no torch weights to recognise it by")
    total = hashlib.sha256()
    for name, weight in sorted(module.state_dict().items()):
        total.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        flat = weight.detach().cpu().contiguous().reshape(-1)
        total.update(flat.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def configuration(lm: LanguageModel) -> dict[str, Any]:
    """The model's settings (heads, activation, epsilons, windows), defaults among them."""
    config: Any = getattr(getattr(lm.model, "model", None), "config", None)
    if not hasattr(config, "to_json_string"):
        return {}
    settings: dict[str, Any] = _settings(_json(config.to_json_string(use_diff=False)))
    return settings


def tokenizer_settings(lm: LanguageModel) -> dict[str, Any]:
    """How texts become tokens: normaliser, pre-tokeniser, the rest of it, and special tokens.

    The tokens of a sample show what no setting names. Texts that are too long are refused.
    """
    tokenizer: Any = lm.tokenizer
    sample = f"{_SAMPLE} {tokenizer.mask_token}"
    special = {
        "max_length": lm.max_length,
        "sample": _brief([int(token) for token in tokenizer(sample, verbose=False)["input_ids"]]),
        "mask_id": lm.model.mask_id,
        "shift": bool(first_blank(lm.model)),
        "time": getattr(lm.model, "time", None),
        "special_ids": sorted(lm.model.special_ids),
        "special_tokens": {
            role: str(token)
            for role, token in getattr(tokenizer, "special_tokens_map", {}).items()
            if isinstance(token, str)
        },
    }
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not hasattr(backend, "to_str"):
        arguments = getattr(tokenizer, "init_kwargs", {})
        plain = {name: v for name, v in arguments.items() if isinstance(v, bool | int | float)}
        return {**special, "given": _settings(plain)}
    parts = _json(backend.to_str())
    if "merges" in parts["model"]:
        # versions write a merge as a text or as a pair
        merges = parts["model"]["merges"]
        parts["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in merges]
    return {**special, **{name: _brief(parts.get(name)) for name in _TOKENIZING}}


def _json(text: str) -> Any:
    # a plan holds no infinities as numbers, and some configurations have one
    return json.loads(text, parse_constant=str)


def _settings(value: Any) -> Any:
    """Only the settings that change the function."""
    if not isinstance(value, Mapping):
        return _brief(value)
    return {
        name: _settings(inner)
        for name, inner in value.items()
        if name not in _NOT_OF_THE_FUNCTION and not name.startswith("_")
    }


def _brief(value: Any) -> Any:
    """The value, or its hash where it is long; names of parts stay."""
    if isinstance(value, Mapping) and len(value) <= _LONGEST // 10:
        return {name: _brief(inner) for name, inner in value.items()}
    return value if len(json.dumps(value)) <= _LONGEST else sha256([value])
