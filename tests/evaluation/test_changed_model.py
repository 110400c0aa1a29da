"""A run that was begun goes on with the same model only: same weights are not the same function.

A tiny BERT is evaluated for some examples, something is changed, and the same command starts again.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from plans import MODEL
from tiny_models import ARCHITECTURES, build
from tiny_tokenizers import save_bert

import unmask
from unmask.cli import main
from unmask.evaluation.kind import Evaluate
from unmask.evaluation.run import read_run
from unmask.jobs.model_source import check_model, identify
from unmask.jobs.plan import FUNCTION, ModelIdentity, canonical, model_changes

WORDS = ("cat", "dog", "man", "woman")
TEXTS = [f"the {WORDS[i % 4]} sat on a {WORDS[i // 4 % 4]}" for i in range(16)]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a corpus, and a run of two examples of four."""
    folder = tmp_path_factory.mktemp("original")
    save_bert(folder / "tiny")
    (folder / "cats.txt").write_text("\n".join(TEXTS) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        _stop_after(2, patch)
        assert main(_command(folder)) == 130
    assert len(read_run(folder / "run").rows) == 2
    return folder


@pytest.fixture
def begun(original: Path, tmp_path: Path) -> Path:
    """The same for one test alone."""
    return Path(shutil.copytree(original, tmp_path / "begun"))


def _command(folder: Path) -> list[str]:
    return [
        *("evaluate", str(folder / "cats.txt"), "-m", str(folder / "tiny")),
        *("-o", str(folder / "run"), "--examples", "4", "--mask", "contiguous", "--method", "mlm"),
        *("--batch-size", "8", "--quiet", "--rows-per-unit", "1"),
    ]


def _stop_after(count: int, patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after so many examples."""
    measured, measure = [], Evaluate.measure

    def stopped(*arguments: Any) -> Any:
        if len(measured) == count:
            raise KeyboardInterrupt
        measured.append(1)
        return measure(*arguments)

    patch.setattr(Evaluate, "measure", stopped)


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def _set(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda values: values.update({name: value})


CONFIG, TOKENIZER = "config.json", "tokenizer.json"
CHANGED = {
    "heads": (CONFIG, _set("num_attention_heads", 4), "config.num_attention_heads is '2' there"),
    "activation": (CONFIG, _set("hidden_act", "relu"), "config.hidden_act is 'gelu' there, 'relu'"),
    "epsilon": (CONFIG, _set("layer_norm_eps", 1e-6), "model.config.layer_norm_eps is "),
    "a default, now named": (CONFIG, _set("chunk_size_feed_forward", 1), "chunk_size_feed_forward"),
    "normaliser": (
        TOKENIZER,
        lambda values: values["normalizer"].update(strip_accents=False),
        "model.tokenizer.normalizer.strip_accents is 'null' there, 'false' here",
    ),
    "pre-tokeniser": (
        TOKENIZER,
        _set("pre_tokenizer", {"type": "Whitespace"}),
        "model.tokenizer.pre_tokenizer.type is 'BertPreTokenizer' there, 'Whitespace' here",
    ),
    "pieces": (
        TOKENIZER,
        lambda values: values["model"].update(max_input_chars_per_word=90),
        "model.tokenizer.model.max_input_chars_per_word is '100' there, '90' here",
    ),
    "special tokens": (
        TOKENIZER,
        lambda values: values["added_tokens"][-1].update(lstrip=True),
        "model.tokenizer.added_tokens is ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_model_is_rejected_in_one_line(begun: Path, capsys, name: str) -> None:
    file, changed, said = CHANGED[name]
    _edit(begun / "tiny" / file, changed)
    before = read_run(begun / "run")
    assert main(_command(begun)) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"unmask: '{begun / 'run'}' holds the rows of another job: ")
    assert said in err
    assert err.count("\n") == 1
    assert read_run(begun / "run") == before


@pytest.mark.slow
def test_what_does_not_change_the_function_is_the_same_model(begun: Path, capsys) -> None:
    plan = (begun / "run/_plan.json").read_text()
    assert str(begun) not in plan
    assert "transformers_version" not in plan

    def renamed(values: dict[str, Any]) -> None:
        values.update(_name_or_path="elsewhere", transformers_version="4.0.0", architectures=["X"])
        values.update(id2label={"0": "no", "1": "yes"}, label2id={"no": 0, "yes": 1})
        values.update(unheard_of=1, output_attentions=True)

    _edit(begun / "tiny" / CONFIG, renamed)
    _edit(begun / "tiny" / TOKENIZER, lambda values: values["decoder"].update(cleanup=False))
    assert main(_command(begun)) == 0
    assert capsys.readouterr().err == ""
    assert read_run(begun / "run").missing == 0


def test_workers_check_the_same_things(begun: Path) -> None:
    plan = read_run(begun / "run").plan
    check_model(unmask.load(str(begun / "tiny")), plan.model)
    _edit(begun / "tiny" / CONFIG, _set("num_attention_heads", 4))
    with pytest.raises(
        unmask.errors.ModelError, match=r"is another model here .*num_attention_heads"
    ):
        check_model(unmask.load(str(begun / "tiny")), plan.model)
    _edit(begun / "tiny" / CONFIG, _set("num_attention_heads", 2))
    _edit(begun / "tiny" / TOKENIZER, _set("pre_tokenizer", {"type": "Whitespace"}))
    with pytest.raises(unmask.errors.ModelError, match=r"is another model here .*pre_tokenizer"):
        check_model(unmask.load(str(begun / "tiny")), plan.model)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_has_an_identity_that_shows_another_weight(name: str) -> None:
    lm = unmask.load(build(name))
    found = _identity(lm)
    assert ModelIdentity(**json.loads(canonical(vars(found)))) == found
    assert list(model_changes(found, _identity(lm))) == []
    with torch.no_grad():
        next(lm.model.model.parameters()).mul_(1.05)
    (change,) = model_changes(found, _identity(lm))
    assert change.startswith("model.weights is ")


def _identity(lm: unmask.LanguageModel) -> ModelIdentity:
    return identify(lm, name="m", dtype="float32")


def whole(**changes: object) -> ModelIdentity:
    known = {
        "config": {"heads": 2, "rope": {"theta": 1.0, "kind": "default"}},
        "tokenizer": {"normalizer": None},
    }
    return replace(MODEL, **{**known, **changes})


def test_runs_of_two_functions_are_not_averaged() -> None:
    # as far as it is known
    for same in (whole(), MODEL, whole(name="n")):
        assert not list(model_changes(whole(), same, FUNCTION))
    for other in (
        whole(config={"heads": 4}),
        whole(tokenizer={"normalizer": "lower"}),
        whole(weights="e" * 64),
    ):
        assert list(model_changes(whole(), other, FUNCTION))
