"""From a hub name, a folder, or a model and tokenizer in hand, to a masked LM.

Imports transformers only when it is called; beside it only the pipeline does. Safetensors and no
remote code unless the caller allows it; every failure is one sentence.
"""

import copy
import difflib
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import linear

from unmask.errors import ModelError, UnmaskError
from unmask.model.checkpoint import Checkpoint
from unmask.model.devices import device_of
from unmask.model.hugging_face import HuggingFaceMaskedLM, input_size
from unmask.model.passes import Pass
from unmask.printable import printable, quoted

# a right side that moves a position by so small a part of what the left side does is not read
_NO_EFFECT = 1e-4
# texts without blanks that tell where a model predicts a token: how many, and their length
_TEXTS, _LENGTH = 6, 11
# the share of tokens predicted one position early above which a model is shifted: trained models
# in place have at most 0.1, and 0.55 to 1 in place; random weights have at most 0.2 anywhere
_SHIFTED = 0.4
# attention that transformers computes itself; None is its own choice
_OWN_ATTENTION = (None, "eager", "sdpa", "flex_attention")
_CAUSAL = (
    "a causal language model: it does not see the text to the right of a blank; unmask needs a "
    "masked one"
)
# a folder with one of these is a model, or something that the message about it names
_MARKS = ("config.json", "adapter_config.json")
# by which the code in a model's repository is loaded; the first that it has
_CLASSES = ("AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModel")
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# what masked-diffusion models do not say of themselves: the mask's id, and whether position i-1
# predicts token i. By class: LLaDA's `model_type` is also that of a mixture of experts with
# another vocabulary
_PRESETS = {"LLaDAModelLM": (126336, False), "DreamModel": (151666, True)}


def load_pretrained(
    name: str | Path,
    *,
    device: str | torch.device | None,
    dtype: str | torch.dtype,
    revision: str | None,
    trust_remote_code: bool,
    allow_pickle: bool,
    mask_id: int | None,
    shift: bool | None,
    time: str | None,
) -> tuple[HuggingFaceMaskedLM, Any, str | None]:
    """A masked LM, its tokenizer, and the commit of a hub name; a folder has none."""
    model_name = quoted(str(name), limit=150)
    number = _DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if number is None or number not in _DTYPES.values():
        raise ModelError(f"dtype is one of {', '.join(_DTYPES)}, not {quoted(str(dtype))}")
    place, where = device_of(device), _checked_place(str(name), revision)
    from transformers import AutoTokenizer

    try:
        with quiet(bars=not os.path.exists(where)):
            # all files of one commit, also if the name moves on meanwhile
            commit = Checkpoint(where, revision or "main").commit()
            files = Checkpoint(where, commit or revision or "main")
            files.check(may_leave=allow_pickle)
            options = {"revision": files.revision, "trust_remote_code": trust_remote_code}
            model, report = _network(files, model_name, number, options, allow_pickle)
    except UnmaskError:
        raise
    except Exception as error:  # libraries fail in many ways; all mean the same to the caller
        raise ModelError(f"cannot load a masked LM from {model_name}: {_reason(error)}") from None
    _reject_untrained(model, report, model_name, time)
    try:
        with quiet(bars=False):
            tokenizer = AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:  # tokenizers fail in many ways; all mean the same to the caller
        raise ModelError(f"cannot load a tokenizer from {model_name}: {_reason(error)}") from None
    return *adapt(model.to(place), tokenizer, mask_id=mask_id, shift=shift, time=time), commit


def _network(
    files: Checkpoint,
    model_name: str,
    dtype: torch.dtype,
    options: dict[str, Any],
    allow_pickle: bool,
) -> Any:
    """The network with its weights, and what transformers reports about them."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(files.where, **options)
    kind: Any = transformers.AutoModelForMaskedLM._model_mapping.get(type(config), None)
    # masked-diffusion models have code of their own and no class of a masked LM; that is looked
    # for in code that may run
    auto_map, is_trusted = getattr(config, "auto_map", None) or {}, options["trust_remote_code"]
    own_code = next((c for c in (_CLASSES if is_trusted else _CLASSES[:1]) if c in auto_map), None)
    if kind is None and own_code is None:
        why = "and transformers has no masked language model of that kind; unmask needs one, such "
        why += "as BERT or RoBERTa"
        if type(config) in transformers.AutoModelForCausalLM._model_mapping:
            why = _CAUSAL
        raise ModelError(f"{model_name} is a {printable(config.model_type)} model, {why}")
    if config._attn_implementation not in _OWN_ATTENTION and not is_trusted:
        # any other name may be fetched from the hub as compiled code
        config._attn_implementation = None
    load_options: dict[str, Any] = {"config": config, "dtype": dtype, "output_loading_info": True}
    if kind is not None and not allow_pickle and not (is_trusted and own_code):
        return kind.from_pretrained(None, state_dict=files.weights(config), **load_options)
    # trusted code reads its weights itself; code that is not trusted is refused before
    loader = getattr(transformers, own_code if is_trusted and own_code else _CLASSES[0])
    safe = None if allow_pickle else True
    return loader.from_pretrained(files.where, use_safetensors=safe, **load_options, **options)


def adapt(
    model: Any,
    tokenizer: Any,
    *,
    mask_id: int | None = None,
    shift: bool | None = None,
    time: str | None = None,
) -> tuple[HuggingFaceMaskedLM, Any]:
    """Wrap a model and tokenizer that the caller already has."""
    for value, needs in ((model, "get_output_embeddings"), (tokenizer, "convert_ids_to_tokens")):
        if not hasattr(value, needs):
            raise ModelError(
                "load takes a name, a folder or a pair (model, tokenizer) of transformers, but it "
                f"got {type(value).__name__} in the pair; a model of another kind goes to "
                "unmask.LanguageModel(model, tokenizer), once it has what "
                "unmask.model.masked_lm.MaskedLM asks for (docs/how-to/own-model.md)"
            )
    if time is not None and time not in inspect.signature(model.forward).parameters:
        raise ModelError(
            f"{type(model).__name__} has no argument {quoted(time)}; time is the name of the one "
            "that gets the share of masks"
        )
    try:
        usual_mask, shifted = _PRESETS.get(type(model).__name__, (None, False))
        configured = getattr(getattr(model, "config", None), "mask_token_id", None)
        usual_mask = configured if isinstance(configured, int) else usual_mask
        tokenizer = _with_mask(tokenizer, mask_id, usual_mask)
        _reject_other_tokenizer(model, tokenizer)
        masked_lm = HuggingFaceMaskedLM(
            model,
            mask_id=tokenizer.mask_token_id,
            special_ids=tokenizer.all_special_ids,
            shift=shifted if shift is None else shift,
            time=time,
        )
        _reject_other_kinds(masked_lm)
        return masked_lm, tokenizer
    except UnmaskError:
        raise
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} does not run as a masked LM: {_reason(error)}"
        ) from error


def _with_mask(tokenizer: Any, wanted: int | None, usual: int | None) -> Any:
    """The tokenizer, or a copy whose mask token has the given id, or the known one if it has none.

    An id that follows the last of the tokenizer's becomes a token named [MASK].
    """
    present = getattr(tokenizer, "mask_token_id", None)
    mask_id = next((number for number in (wanted, present, usual) if number is not None), None)
    if mask_id is None:
        raise ModelError(
            f"the tokenizer ({type(tokenizer).__name__}) has no mask token; if the model is a "
            "masked LM, give mask_id=, the id that stands for a blank"
        )
    if mask_id == present:
        return tokenizer
    names = {token: name for name, token in tokenizer.get_vocab().items()}
    name = names.get(mask_id, "[MASK]")
    other = copy.deepcopy(tokenizer)
    if mask_id in names or mask_id == 1 + max(names):
        other.add_special_tokens({"mask_token": name})
    if other.mask_token_id != mask_id:
        raise ModelError(
            f"the tokenizer ({type(tokenizer).__name__}) has no token of id {mask_id}, so a blank "
            f"cannot be written: it knows ids 0 to {max(names)}; add the token to it"
        )
    return other


def _reject_other_tokenizer(model: Any, tokenizer: Any) -> None:
    """Reject a tokenizer that is not the model's, or tells more than tokens."""
    name = type(model).__name__
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ModelError(
            f"the tokenizer of {quoted(tokenizer.name_or_path, limit=150)} knows special tokens "
            "only; its vocabulary files are missing"
        )
    # RoCBERT reads shapes and sounds too
    extra = set(tokenizer(tokenizer.mask_token)) - {"input_ids", "attention_mask", "token_type_ids"}
    if others := sorted(extra & set(inspect.signature(model.forward).parameters)):
        raise ModelError(
            f"{name} reads {' and '.join(others)} in addition to tokens, which unmask does not "
            "provide, so its answers would be wrong"
        )
    if tokenizer.mask_token_id >= input_size(model):
        raise ModelError(
            f"the tokenizer's mask token {quoted(tokenizer.mask_token)} has id "
            f"{tokenizer.mask_token_id}, but {name} reads ids 0 to {input_size(model) - 1}: they "
            "do not belong together, or the model was not resized and trained when the token was "
            "added"
        )


def _reject_other_kinds(masked_lm: HuggingFaceMaskedLM) -> None:
    """Reject a model that reads no context, or none to the right, or is shifted unsaid.

    In a text without blanks a trained model finds each token likeliest at one position of all: its
    own, or the one before if it is shifted. With random weights that is any position, which says
    nothing.
    """
    name, shift = type(masked_lm.model).__name__, masked_lm.shift
    size = min(masked_lm.vocabulary_size, input_size(masked_lm.model))
    ordinary = torch.tensor([i for i in range(size) if i not in masked_lm.special_ids])
    length = min(_LENGTH, masked_lm.max_length or _LENGTH)
    if length < 3 or not len(ordinary):
        return
    middle = length // 2
    rows = ordinary[torch.arange(length) % len(ordinary)].repeat(3, 1)
    # unchanged, then with all tokens masked on the left, and on the right
    rows[:, middle] = rows[1, :middle] = rows[2, middle:] = masked_lm.mask_id
    generator = torch.Generator().manual_seed(0)
    # no token twice in a text
    picks = [torch.randperm(len(ordinary), generator=generator)[:_LENGTH] for _ in range(_TEXTS)]
    is_enough = min(length, len(ordinary)) == _LENGTH
    texts = ordinary[torch.stack(picks)] if is_enough else rows[:0]
    # with a shift at all positions but the last
    readouts = masked_lm.readouts(torch.cat([rows, texts]), range(int(shift), length))
    at_blank = readouts[:3, middle - int(shift)]
    left, right = (float((row - at_blank[0]).abs().max()) for row in at_blank[1:])
    if left == right == 0:
        raise ModelError(
            f"{name} does not read its context: no other token of a text changes its prediction "
            "for a blank; some kinds of attention work only on a GPU"
        )
    if right < _NO_EFFECT * left:
        raise ModelError(f"{name} is {_CAUSAL}")
    layer = masked_lm.output_embedding
    logits = readouts[3:]
    if layer is not None:
        logits = linear(logits, layer.weight, layer.bias)
    log_probs = torch.log_softmax(logits, dim=-1)
    # where each token of a text is likeliest, of all positions that were read
    tokens = texts.to(logits.device)[:, None].expand(-1, log_probs.shape[1], -1)
    likeliest = log_probs.gather(2, tokens).argmax(1)
    # of the tokens that can be predicted in both ways: the other way than the model was loaded for
    likeliest = likeliest[:, :-1] if shift else likeliest[:, 1:]
    other = likeliest == torch.arange(length - 1, device=logits.device)
    if int(other.sum()) > _SHIFTED * other.numel():
        share = f"({int(other.sum())} of {other.numel()} tokens of texts without blanks)"
        where, so = f"i-1 {share}", "as Dream and MNTP models do; load it with shift=True"
        if shift:
            where, so = f"i {share}", "so its logits are not shifted; load it with shift=False"
        raise ModelError(f"{name} predicts token i at position {where}, {so}")


def _checked_place(name: str, revision: str | None) -> str:
    """Name what a local folder lacks; transformers would look on the hub."""
    folder_name, place = quoted(name, limit=150), os.path.expanduser(name)
    # not Path.exists, which raises on names that no file system takes
    if os.path.isdir(place):
        if not any(os.path.exists(os.path.join(place, file)) for file in _MARKS):
            raise ModelError(f"{folder_name} has no config.json, so it is not a model folder")
        return place
    if os.path.exists(place):
        raise ModelError(
            f"{folder_name} is a file; give the folder that holds config.json and the weights"
        )
    folder = os.path.dirname(place)
    paths = Path(folder).iterdir() if folder and os.path.isdir(folder) else ()
    beside = sorted(path.name for path in paths if (path / "config.json").is_file())
    wanted = os.path.basename(name.rstrip("/"))
    near = difflib.get_close_matches(wanted, beside, n=3, cutoff=0.4) or beside[:3]
    there = f"there is no folder {folder_name}"
    if near:
        there += f"; beside it is {' and '.join(map(quoted, near))}"
    if name.startswith((".", "~", "/")) or name.count("/") > 1 or "\\" in name:
        raise ModelError(there)
    if beside and revision is None and Checkpoint(name, "main").commit(cached=True) is None:
        raise ModelError(
            f"{there}; for a model of that name on the Hub, give its revision, such as "
            "revision='main'"
        )
    return name


def _reject_untrained(model: Any, report: Any, model_name: str, time: str | None) -> None:
    """Reject a checkpoint that lacks weights on which the logits depend: they would be random.

    Whether they do is tried out, not guessed from names: some checkpoints rightly leave out
    weights that the model holds and never uses.
    """
    state = model.state_dict()
    missing = sorted(key for key in report["missing_keys"] if key in state)
    if not missing:
        return
    ids = torch.arange(min(8, input_size(model)))[None]
    options = {} if time is None else {time: torch.zeros(1)}

    model.eval()
    before = Pass(model).run(input_ids=ids, **options).logits
    for key in missing:
        # uneven, so that no normalisation or softmax cancels the change
        state[key].add_(torch.linspace(0.5, 1.5, state[key].numel()).reshape(state[key].shape))
    if not torch.equal(Pass(model).run(input_ids=ids, **options).logits, before):
        raise ModelError(
            f"{model_name} is not a whole masked LM: {len(missing)} trained weights are missing, "
            f"{quoted(missing[0], limit=100)} among them"
        )


def _reason(error: BaseException) -> str:
    """The first line of the error of a library, shortened."""
    if "above report" in str(error):
        # transformers points at a report that is switched off here
        return "its weights do not fit its config.json"
    if isinstance(error, KeyError):
        return f"{printable(str(error))} is missing from its files, or unknown to transformers"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = printable(lines[0]) if lines else type(error).__name__
    return first if len(first) <= 200 else first[:197] + "..."


@contextmanager
def quiet(*, bars: bool) -> Iterator[None]:
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
