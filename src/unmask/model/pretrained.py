"""From a hub name, a folder, or a model and tokenizer in hand, to a masked LM.

Imports transformers only when it is called; beside it only the pipeline does. Safetensors and no
remote code unless the caller allows it; every failure is one sentence.
"""

import inspect
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

from unmask.errors import ModelError, UnmaskError
from unmask.model.hooks import without_gradients
from unmask.model.hugging_face import HuggingFaceMaskedLM, input_size
from unmask.printable import printable, quoted

# a right side that moves a position by so small a part of what the left side does is not read
_NO_EFFECT = 1e-4
# attention that transformers computes itself; None is its own choice
_OWN_ATTENTION = (None, "eager", "sdpa", "flex_attention")
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A masked LM, its tokenizer, and the commit that a hub name stood for; a folder has none."""

    masked_lm: HuggingFaceMaskedLM
    tokenizer: Any
    commit: str | None


def load_pretrained(
    name: str | Path,
    *,
    device: str | torch.device | None,
    dtype: str | torch.dtype,
    revision: str | None,
    trust_remote_code: bool,
    allow_pickle: bool,
) -> Pretrained:
    """Load a model and its tokenizer from the hub or a folder."""
    shown = quoted(str(name), limit=150)
    number, place = _dtype(dtype), _device(device)
    where = _checked_place(str(name), allow_pickle)
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    options = {"revision": revision or "main", "trust_remote_code": trust_remote_code}
    try:
        with _quiet(bars=not os.path.exists(where)):
            # all files of one commit, also if the name moves on meanwhile
            commit = _commit(where, options["revision"])
            options["revision"] = commit or options["revision"]
            if not allow_pickle:
                _require_safe_shards(where, options["revision"], shown)
            model, report = AutoModelForMaskedLM.from_pretrained(
                where,
                config=_config(where, options, shown),
                dtype=number,
                use_safetensors=None if allow_pickle else True,
                output_loading_info=True,
                **options,
            )
    except UnmaskError:
        raise
    except Exception as error:  # libraries fail in many ways; all mean the same to the caller
        raise ModelError(f"cannot load a masked LM from {shown}: {_reason(error)}") from None
    _reject_untrained(model, report, shown)
    try:
        with _quiet(bars=False):
            tokenizer = AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:  # tokenizers fail in many ways; all mean the same to the caller
        raise ModelError(f"cannot load a tokenizer from {shown}: {_reason(error)}") from None
    return Pretrained(*adapt(model.to(place), tokenizer), commit)


def _found(where: str, name: str, revision: Any) -> str | None:
    """The path of a file of a folder or hub name; None where it has none."""
    from transformers.utils.hub import cached_file

    found: str | None = cached_file(
        where,
        name,
        revision=revision,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return found


def _commit(where: str, revision: Any) -> str | None:
    """The commit in the hub's cache that a name and revision stand for."""
    from transformers.utils.hub import extract_commit_hash

    if os.path.exists(where):
        return None
    path = _found(where, "config.json", revision)
    commit: str | None = extract_commit_hash(path, None)
    return commit


def _require_safe_shards(where: str, revision: Any, shown: str) -> None:
    """Reject an index of safetensors that names files of another kind: they would be unpickled."""
    path = _found(where, "model.safetensors.index.json", revision)
    if path is None:
        return
    shards = json.loads(Path(path).read_text(encoding="utf-8"))["weight_map"].values()
    other = next((shard for shard in shards if not str(shard).endswith(".safetensors")), None)
    if other is not None:
        raise ModelError(
            f"the index of {shown} names {quoted(other)}, which is not a safetensors file; convert "
            "the weights, or load with allow_pickle (--allow-pickle) if you trust the file"
        )


def _config(where: str, options: dict[str, Any], shown: str) -> Any:
    """The configuration of a masked LM, with attention of the library's own."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    config = AutoConfig.from_pretrained(where, **options)
    known = type(config) in AutoModelForMaskedLM._model_mapping
    if not known and "AutoModelForMaskedLM" not in getattr(config, "auto_map", {}):
        kind = f"{shown} is a {printable(config.model_type)} model"
        if type(config) in AutoModelForCausalLM._model_mapping:
            raise ModelError(
                f"{kind}, a causal language model: it does not see the text to the right of a "
                "blank; "
                "unmask needs a masked one"
            )
        raise ModelError(
            f"{kind}, and transformers has no masked language model of that kind; unmask needs "
            "one, such as BERT or RoBERTa"
        )
    if config._attn_implementation not in _OWN_ATTENTION and not options["trust_remote_code"]:
        # any other name may be fetched from the hub as compiled code
        config._attn_implementation = None
    return config


def adapt(model: Any, tokenizer: Any) -> tuple[HuggingFaceMaskedLM, Any]:
    """Wrap a model and tokenizer that the caller already has."""
    for value, needs in ((model, "get_output_embeddings"), (tokenizer, "convert_ids_to_tokens")):
        if not hasattr(value, needs):
            raise ModelError(
                "load takes a name, a folder or a pair (model, tokenizer), but it got "
                f"{type(value).__name__} in the pair"
            )
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise ModelError(
            f"the tokenizer ({type(tokenizer).__name__}) has no mask token, "
            "so this is not a masked LM"
        )
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ModelError(
            f"the tokenizer of {quoted(tokenizer.name_or_path, limit=150)} knows special tokens "
            "only; its vocabulary files are missing"
        )
    _require_ids_alone(model, tokenizer)
    try:
        masked_lm = HuggingFaceMaskedLM(
            model, mask_id=tokenizer.mask_token_id, special_ids=tokenizer.all_special_ids
        )
        _reject_causal(masked_lm)
        return masked_lm, tokenizer
    except UnmaskError:
        raise
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} does not run as a masked LM: {_reason(error)}"
        ) from error


def _require_ids_alone(model: Any, tokenizer: Any) -> None:
    """Reject a model that reads more than tokens (RoCBERT: their shapes and sounds)."""
    given = set(tokenizer(tokenizer.mask_token)) - {"input_ids", "attention_mask", "token_type_ids"}
    others = sorted(given & set(inspect.signature(model.forward).parameters))
    if others:
        raise ModelError(
            f"{type(model).__name__} reads {' and '.join(others)} in addition to tokens, which "
            "unmask does not provide, so its answers would be wrong"
        )


def _reject_causal(masked_lm: HuggingFaceMaskedLM) -> None:
    """Reject a model that reads nothing to the right of a position, or no other token at all."""
    length = min(7, masked_lm.max_length or 7)
    if length < 3:
        return
    middle, every = length // 2, range(masked_lm.vocabulary_size)
    ordinary = islice((i for i in every if i not in masked_lm.special_ids), length)
    ids = torch.tensor(list(islice(cycle(ordinary), length))).repeat(3, 1)
    # as it is, then with all masked on the left, and on the right
    ids[:, middle] = ids[1, :middle] = ids[2, middle:] = masked_lm.mask_id
    found = masked_lm.readouts(ids, [middle])
    left, right = (float((row - found[0]).abs().max()) for row in found[1:])
    if left == right == 0:
        raise ModelError(
            f"{type(masked_lm.model).__name__} does not read its context: no other token of a "
            "text changes its prediction for a blank; some kinds of attention work only on a GPU"
        )
    if right < _NO_EFFECT * left:
        raise ModelError(
            f"{type(masked_lm.model).__name__} is a causal language model: it does not see the "
            "text to the right of a blank; unmask needs a masked one"
        )


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    number = _DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if number is None or number not in _DTYPES.values():
        raise ModelError(f"dtype is one of {', '.join(_DTYPES)}, not {quoted(str(dtype))}")
    return number


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelError(f"no device {quoted(str(device))} here: {_reason(error)}") from None
    return place


def _checked_place(name: str, allow_pickle: bool) -> str:
    """Say what a local folder lacks; transformers would go and look on the hub."""
    shown = quoted(name, limit=150)
    looks_local = name.startswith((".", "~", "/")) or name.count("/") > 1 or "\\" in name
    place = os.path.expanduser(name)
    # not Path.exists, which raises on names that no file system takes
    if not os.path.exists(place):
        if looks_local:
            raise ModelError(f"there is no folder {shown}")
        return name
    _check_folder(Path(place), shown, allow_pickle)
    return place


def _check_folder(folder: Path, shown: str, allow_pickle: bool) -> None:
    if not folder.is_dir():
        raise ModelError(
            f"{shown} is a file; give the folder that holds config.json and the weights"
        )
    if not (folder / "config.json").exists():
        raise ModelError(f"{shown} has no config.json, so it is not a model folder")
    if any(folder.glob("*.safetensors")):
        return
    pickles = [*folder.glob("*.bin"), *folder.glob("*.pt")]
    if pickles and not allow_pickle:
        raise ModelError(
            f"{shown} has weights only as {quoted(pickles[0].name)}, a pickle; convert them to "
            "safetensors, or load with allow_pickle (--allow-pickle) if you trust the file"
        )
    if not pickles:
        raise ModelError(f"{shown} has no weights (no *.safetensors file)")


@without_gradients
def _reject_untrained(model: Any, report: Any, shown: str) -> None:
    """Reject a checkpoint that lacks weights on which the logits depend: they would be random.

    Whether they do is tried out, not guessed from names: some checkpoints rightly leave out
    weights that the model holds and never uses.
    """
    state = model.state_dict()
    missing = sorted(key for key in report["missing_keys"] if key in state)
    if not missing:
        return
    ids = torch.arange(min(8, input_size(model)))[None]
    model.eval()
    logits = model(input_ids=ids).logits
    for key in missing:
        # uneven, so that no normalisation or softmax cancels the change
        state[key].add_(torch.linspace(0.5, 1.5, state[key].numel()).reshape(state[key].shape))
    if not torch.equal(model(input_ids=ids).logits, logits):
        raise ModelError(
            f"{shown} is not a whole masked LM: {len(missing)} trained weights are missing, "
            f"{quoted(missing[0], limit=100)} among them"
        )


def _reason(error: BaseException) -> str:
    """The first line of what a library said, short enough for one line."""
    if "above report" in str(error):
        # transformers points at a report that is switched off here
        return "its weights do not fit its config.json"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = printable(lines[0]) if lines else type(error).__name__
    return first if len(first) <= 200 else first[:197] + "..."


@contextmanager
def _quiet(*, bars: bool) -> Iterator[None]:
    """Reports off: what matters of them is raised as an error instead. Bars only for downloads."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar and not bars:
            logging.enable_progress_bar()
