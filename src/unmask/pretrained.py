"""From a hub name, a folder, or a model and tokenizer in hand, to a masked LM.

The only module that imports transformers, and only when it is called. Safetensors and no remote
code unless the caller asks; every failure is one sentence.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from unmask.errors import ModelError, UnmaskError
from unmask.masked_lm import HuggingFaceMaskedLM
from unmask.printable import printable, quoted

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load_pretrained(
    name: str | Path,
    *,
    device: str | torch.device | None,
    dtype: str | torch.dtype,
    revision: str | None,
    trust_remote_code: bool,
    allow_pickle: bool,
) -> tuple[HuggingFaceMaskedLM, Any]:
    """Load a model and its tokenizer from the hub or a folder."""
    shown = quoted(str(name), limit=300)
    number, place = _dtype(dtype), _device(device)
    _check_folder(Path(name), allow_pickle)
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    options = {"revision": revision or "main", "trust_remote_code": trust_remote_code}
    try:
        with _quiet():
            model, report = AutoModelForMaskedLM.from_pretrained(
                str(name),
                dtype=number,
                use_safetensors=None if allow_pickle else True,
                output_loading_info=True,
                **options,
            )
    except Exception as error:  # libraries fail in many ways; all mean the same to the caller
        raise ModelError(f"cannot load a masked LM from {shown}: {_reason(error)}") from None
    _refuse_untrained(model, report, shown)
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(str(name), **options)
    except Exception as error:  # tokenizers fail in many ways; all mean the same to the caller
        raise ModelError(f"cannot load a tokenizer from {shown}: {_reason(error)}") from None
    return adapt(model.to(place), tokenizer)


def adapt(model: Any, tokenizer: Any) -> tuple[HuggingFaceMaskedLM, Any]:
    """Wrap a model and tokenizer that the caller already has."""
    for value, needs in ((model, "get_output_embeddings"), (tokenizer, "convert_ids_to_tokens")):
        if not hasattr(value, needs):
            raise ModelError(
                "load takes a name, a folder or a pair (model, tokenizer), but it got "
                f"{type(value).__name__} in the pair"
            )
    if model.get_output_embeddings() is None:
        raise ModelError(f"{type(model).__name__} has no output layer, so it is not a masked LM")
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise ModelError(
            f"the tokenizer ({type(tokenizer).__name__}) has no mask token, "
            "so this is not a masked LM"
        )
    try:
        return HuggingFaceMaskedLM(
            model, mask_id=tokenizer.mask_token_id, special_ids=tokenizer.all_special_ids
        ), tokenizer
    except UnmaskError:
        raise
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} does not run as a masked LM: {_reason(error)}"
        ) from error


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


def _check_folder(folder: Path, allow_pickle: bool) -> None:
    """Say what a local folder lacks; transformers would go and look on the hub."""
    shown = quoted(str(folder), limit=300)
    looks_local = (
        folder.is_absolute() or str(folder).startswith((".", "~")) or len(folder.parts) > 2
    )
    if not folder.exists():
        if looks_local:
            raise ModelError(f"there is no folder {shown}")
        return
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
            "safetensors, or load with allow_pickle=True if you trust the file"
        )
    if not pickles:
        raise ModelError(f"{shown} has no weights (no *.safetensors file)")


def _refuse_untrained(model: Any, report: Any, shown: str) -> None:
    """A checkpoint without its masked-LM head would load with a random one: refuse it."""
    trunk = f"{model.base_model_prefix}."
    missing = sorted(key for key in report["missing_keys"] if not key.startswith(trunk))
    if missing:
        raise ModelError(
            f"{shown} has no trained masked-LM head: {len(missing)} weights are missing, "
            f"{quoted(missing[0])} among them"
        )


def _reason(error: BaseException) -> str:
    """The first line of what a library said, short enough for one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = printable(lines[0]) if lines else type(error).__name__
    return first if len(first) <= 200 else first[:197] + "..."


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading bars and reports off: what matters of them is raised as an error instead."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
