"""Every way in which loading can fail is one sentence that names the thing; success is silent."""

import inspect
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from tiny_models import build
from transformers.utils import logging

import unmask


@pytest.fixture(scope="session")
def saved_bert(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "bert"
    model, tokenizer = build("bert")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved_bert: Path, tmp_path: Path, monkeypatch) -> Path:
    """A copy to break, called `toy` from here."""
    shutil.copytree(saved_bert, tmp_path / "toy")
    monkeypatch.chdir(tmp_path)
    return Path("toy")


def refusal(model, **options) -> str:
    """What loading says when it refuses: one line."""
    # unwrapped: the checks of annotations, which users do not have, would answer before `load` does
    load = inspect.unwrap(unmask.load)
    with pytest.raises(unmask.errors.ModelError) as caught:
        load(model, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 400
    return said


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def pickled(folder: Path) -> Path:
    """Turn the weights into a pickle."""
    torch.save(build("bert")[0].state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


# --- folders -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "../nowhere", "~/nowhere-at-all"])
def test_a_missing_folder_is_not_looked_for_on_the_hub(name: str):
    assert re.search(f"no folder.*{name.strip('./~')}", refusal(name))


def test_a_mistyped_folder_is_not_looked_for_on_the_hub_either(folder, monkeypatch):
    Path("models").mkdir()
    folder.rename("models/toy-english")
    for name in ("models/toy", "./models/toy", "models/toi-english"):
        assert re.search(r"^there is no folder '.*; beside it is 'toy-english'", refusal(name))
    # what may be a name of the Hub can be looked for there
    assert "revision='main'" in refusal("models/toy")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal("models/toy", revision="main").startswith("cannot load a masked LM from")
    # and so is any name whose first part is a folder without models
    Path("someone").mkdir()
    assert refusal("someone/toy").startswith("cannot load a masked LM from 'someone/toy'")


def without(pattern: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.unlink()

    return change


def written(name: str, content: str | bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )


def cut_in_half(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def headless(kind: type) -> Callable[[Path], None]:
    return lambda folder: kind(build("bert")[0].config).save_pretrained(folder)


GIT_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 17190104\n"
# what is done to a good folder, and what the refusal holds
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (without("config.json"), "^'toy' has no config.json"),
    "no weights": (without("model.safetensors"), "^'toy' has no safetensors weights"),
    # transformers would make one up that knows the special tokens only
    "no tokenizer": (without("tokenizer*"), "tokenizer.*'toy'|'toy'.*tokenizer"),
    "tokenizer cut": (written("tokenizer.json", "{"), "tokenizer from 'toy'"),
    "tokenizer emptied": (written("tokenizer.json", "{}"), "tokenizer from 'toy': .* is missing"),
    "config cut": (written("config.json", "{"), "'toy'"),
    "config of a list": (written("config.json", "[]"), "'toy'"),
    "config of nothing": (written("config.json", "{}"), "'toy'"),
    "config of no kind": (written("config.json", '{"model_type": "zork"}'), "'toy'"),
    "no number": (lambda folder: change_config(folder, vocab_size="x"), "'toy'"),
    "weights cut": (cut_in_half, "'toy'"),
    "weights empty": (written("model.safetensors", b""), "'toy'"),
    "a pointer": (written("model.safetensors", GIT_LFS_POINTER), "'toy'"),
    "another shape": (lambda folder: change_config(folder, intermediate_size=50), "'toy'"),
    "another layer": (lambda folder: change_config(folder, num_hidden_layers=3), "'toy'"),
    "unknown activation": (
        lambda folder: change_config(folder, hidden_act="nope"),
        "'nope' is missing from its files, or unknown to transformers$",
    ),
    # what lacks is not made up at random
    "classifier": (
        headless(transformers.BertForSequenceClassification),
        "^'toy' is not a whole masked LM.*cls.predictions",
    ),
    "trunk": (headless(transformers.BertModel), "^'toy' is not a whole masked LM.*cls.predictions"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_named(folder, name: str):
    change, pattern = BROKEN[name]
    change(folder)
    assert re.search(pattern, refusal(folder))


def test_paths_that_are_no_folder(folder, tmp_path):
    assert "my-model" in refusal(tmp_path / ("deep" * 20) / "my-model")
    assert "xxx" in refusal("x" * 300)
    assert "'toy/config.json' is a file" in refusal(folder / "config.json")


# --- what must not run; more of it in `test_checkpoint_files` ------------------------------------


class Intruder:
    """A pickle that leaves a trace when it is opened by the plain unpickler."""

    def __reduce__(self):
        return (Path.touch, (Path("intruded"),))


@pytest.mark.parametrize("allow_pickle", [False, True])
def test_a_hostile_pickle_never_runs(folder, allow_pickle: bool):
    payload = pickle.dumps({"cls.predictions.bias": Intruder()}, protocol=2)
    (pickled(folder) / "pytorch_model.bin").write_bytes(payload)
    assert "'toy'" in refusal(folder, allow_pickle=allow_pickle)
    assert not Path("intruded").exists()
    pickle.loads(payload)
    assert Path("intruded").exists(), "the trap does not work"


# --- what is not a masked LM -------------------------------------------------------------------


def test_gpt2_is_not_a_masked_lm(folder):
    config = transformers.GPT2Config(
        vocab_size=46, n_embd=32, n_layer=1, n_head=2, bos_token_id=2, eos_token_id=3
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    assert refusal(folder).startswith("'toy' is a gpt2 model, a causal language model: it does not")
    # the name of code of its own changes nothing, unless it is code of a masked LM
    change_config(folder, auto_map={"AutoModelForCausalLM": "modeling.Other"})
    assert refusal(folder).startswith("'toy' is a gpt2 model, a causal language model: it does not")


def test_t5_has_no_masked_lm(folder):
    sizes = {"vocab_size": 46, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1}
    config = transformers.T5Config(**sizes, num_heads=4)
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    assert refusal(folder).startswith(
        "'toy' is a t5 model, and transformers has no masked language model of that kind"
    )


def test_a_tokenizer_without_a_mask_is_refused(folder):
    model, tokenizer = build("bert")
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder)
    assert "no mask token" in refusal(folder)
    assert "no mask token" in refusal((model, tokenizer))


def test_a_pair_must_be_a_model_and_a_tokenizer():
    model, tokenizer = build("bert")
    assert "not 1" in refusal((model,))
    assert "not 3" in refusal((model, tokenizer, tokenizer))
    assert "NoneType" in refusal((None, tokenizer))
    assert "NoneType" in refusal((model, None))
    assert "str" in refusal(("bert-base-cased", tokenizer))
    assert type(tokenizer).__name__ in refusal((tokenizer, model))
    assert "BertModel gives no logits" in refusal((model.bert, tokenizer))
    wrapped = refusal((torch.nn.Sequential(model), tokenizer))
    way_in = r"Sequential in the pair; .* unmask\.LanguageModel\(model, tokenizer\)"
    assert re.search(way_in, wrapped)


def test_a_mask_that_the_model_has_no_embedding_of_is_refused():
    model, tokenizer = build("bert")
    tokenizer.add_special_tokens({"mask_token": "<blank>"})
    said = refusal((model, tokenizer))
    assert "mask token '<blank>' has id 46, but BertForMaskedLM reads ids 0 to 45" in said


@pytest.mark.parametrize("value", [None, "", 7, b"bert"])
def test_what_is_no_name_at_all_is_refused(value: object):
    assert repr(value) in refusal(value)
    # nor is a list a pair, or printed whole
    assert "pair (model, tokenizer)" in refusal(list(build("bert")))


def test_a_tokenizer_without_offsets_answers_or_says_why_not(tmp_path):
    for part in build("esm"):
        part.save_pretrained(tmp_path)
    lm = unmask.load(tmp_path)
    assert not lm.tokenizer.is_fast
    assert lm.fill("M K <mask> L <mask> A", top=1)[0]["sequence"].startswith("M K ")
    assert [score.tokens for score in lm.score(["MKLA"])] == [4]
    assert lm.dependence("MKLA", support="amino-acids").values.shape == (4, 4)
    said = "this tokenizer keeps no character offsets"
    assert next(iter(lm.pairs([("M K L A", "K", "L")]))).reason.startswith(said)
    with pytest.raises(unmask.UnmaskError, match=said):
        lm.fill("M K L A", blanks=["K"])


# --- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float63", "double", torch.int8, torch.float64])
def test_an_unknown_dtype_is_named_with_the_known_ones(folder, dtype: object):
    said = refusal(folder, dtype=dtype)
    assert f"'{dtype}'" in said
    assert "float32, float16, bfloat16" in said


@pytest.mark.parametrize(
    ("device", "why"),
    [("gpu", "a GPU is 'cuda', or 'mps' on a Mac"), ("cuda:99", ".*"), ("", ".*")],
)
def test_an_unknown_device_is_named(folder, device: str, why: str):
    pattern = rf"^no device '{device}' here \({why}\); use 'cpu'"
    assert re.search(pattern, refusal(folder, device=device))


# --- success -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["folder", "text", "pair"])
def test_a_good_load_prints_nothing(folder, capfd, source: str):
    model = {"folder": folder, "text": str(folder), "pair": build("bert")}[source]
    capfd.readouterr()
    lm = unmask.load(model)
    assert capfd.readouterr() == ("", "")
    assert lm.model.vocabulary_size == 46


@pytest.mark.parametrize("good", [True, False])
def test_loading_leaves_the_logging_of_transformers_alone(folder, good: bool):
    logging.set_verbosity_info()
    logging.enable_progress_bar()
    try:
        if good:
            unmask.load(folder)
        else:
            change_config(folder, intermediate_size=50)
            refusal(folder)
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity_warning()


# --- what a checkpoint may not bring ------------------------------------------------------------


@pytest.mark.parametrize("named", ["someone/a-kernel", "flash_attention_2", "kernels-community/x"])
def test_attention_that_a_checkpoint_names_is_not_fetched(folder, named: str):
    expected = unmask.load(folder).joint("the [MASK] sat.").top(1)
    change_config(folder, attn_implementation=named)
    lm = unmask.load(folder)
    assert lm.model.model.config._attn_implementation in ("sdpa", "eager")
    assert lm.joint("the [MASK] sat.").top(1) == expected
    change_config(folder, attn_implementation="eager")
    assert unmask.load(folder).model.model.config._attn_implementation == "eager"
