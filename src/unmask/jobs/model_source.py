"""The model of a worker: its place, its identity, and whether it is the one planned for."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tokenizers
import torch
import transformers

from unmask import __version__
from unmask.errors import ModelError
from unmask.jobs.plan import ModelIdentity, model_changes, sha256
from unmask.language_model import LanguageModel
from unmask.loading import load
from unmask.model.masked_lm import first_blank
from unmask.printable import printable

SOFTWARE = (
    f"unmask {__version__}, torch {torch.__version__}, transformers {transformers.__version__}, "
    f"tokenizers {tokenizers.__version__}"
)
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


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """The place of a worker's model, and the way to load it; not part of a plan."""

    place: str
    device: str | None = None
    dtype: str = "float32"
    revision: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    mask_id: int | None = None
    shift: bool | None = None
    time: str | None = None

    def load(self) -> LanguageModel:
        """The model itself."""
        options = asdict(self)
        return load(options.pop("place"), **options)


def check_model(lm: LanguageModel, planned: ModelIdentity) -> None:
    """Reject another model than the planned one: a name or a folder does not prove identity."""
    here = identify(lm, name=planned.name, dtype=planned.dtype)
    for change in model_changes(planned, here):
        raise ModelError(
            f"{printable(lm.name)} is another model here than where the run was planned ({change});"
            " give every machine the same model"
        )


def identify(lm: LanguageModel, *, name: str, dtype: str) -> ModelIdentity:
    """The identity of a loaded model, under the name that tables will have."""
    module: Any = getattr(lm.model, "model", None)
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"{printable(lm.name)} has no torch weights to recognise it by")
    # every weight by name, in the precision it was loaded in; tensors that are not saved with a
    # model, such as numbers of positions, are left out
    weights = hashlib.sha256()
    for weight_name, weight in sorted(module.state_dict().items()):
        weights.update(f"{weight_name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        flat = weight.detach().cpu().contiguous().reshape(-1)
        weights.update(flat.view(torch.uint8).numpy())
    config: Any = getattr(module, "config", None)
    settings = config.to_json_string(use_diff=False) if hasattr(config, "to_json_string") else "{}"
    return ModelIdentity(
        name=name,
        revision=lm.revision,
        weights=weights.hexdigest(),
        # over the tokens in the order of their ids
        vocabulary=sha256(list(lm.support().names)),
        dtype=dtype,
        # heads, activation, epsilons, windows, defaults among them; a plan holds no infinities as
        # numbers, and some configurations have one
        config=_brief(json.loads(settings, parse_constant=str), _NOT_OF_THE_FUNCTION),
        tokenizer=_tokenizer(lm),
    )


def _tokenizer(lm: LanguageModel) -> dict[str, Any]:
    """The tokenizer's settings: normaliser, pre-tokeniser, the rest of it, and special tokens.

    The tokens of a sample show what no setting names. Texts that are too long are refused.
    """
    tokenizer: Any = lm.tokenizer
    sample = tokenizer(f"{_SAMPLE} {tokenizer.mask_token}", verbose=False)["input_ids"]
    special: Mapping[str, Any] = getattr(tokenizer, "special_tokens_map", {})
    settings = {
        "max_length": lm.max_length,
        "sample": _brief([int(token) for token in sample]),
        "mask_id": lm.model.mask_id,
        "shift": bool(first_blank(lm.model)),
        "time": getattr(lm.model, "time", None),
        "special_ids": sorted(lm.model.special_ids),
        "special_tokens": {role: str(t) for role, t in special.items() if isinstance(t, str)},
    }
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not hasattr(backend, "to_str"):
        arguments = getattr(tokenizer, "init_kwargs", {})
        plain = {name: v for name, v in arguments.items() if isinstance(v, bool | int | float)}
        return {**settings, "given": _brief(plain, _NOT_OF_THE_FUNCTION)}
    parts = json.loads(backend.to_str(), parse_constant=str)
    if "merges" in parts["model"]:
        # versions write a merge as a text or as a pair
        merges = parts["model"]["merges"]
        parts["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in merges]
    return {**settings, **{name: _brief(parts.get(name)) for name in _TOKENIZING}}


def _brief(value: Any, left_out: set[str] | None = None) -> Any:
    """The value, or its hash where it is long; names of parts stay.

    Of a configuration some names are left out, and it is never a hash as a whole.
    """
    if isinstance(value, Mapping) and (left_out is not None or len(value) <= _LONGEST // 10):
        names = [n for n in value if left_out is None or not (n in left_out or n.startswith("_"))]
        return {name: _brief(value[name], left_out) for name in names}
    return value if len(json.dumps(value)) <= _LONGEST else sha256([value])
