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
from plans import a_job, a_plan
from tiny_models import ARCHITECTURES, build
from tiny_tokenizers import save_bert

import unmask
from unmask.cli import main
from unmask.evaluation import kind
from unmask.evaluation.run import read_run
from unmask.jobs.canonical import canonical
from unmask.jobs.identify import identify
from unmask.jobs.model_identity import (
    ModelIdentity,
    model_changes,
    reconciled,
    same_function,
)
from unmask.jobs.model_source import check_model
from unmask.jobs.plan import check_same
from unmask.jobs.software import change, differing, versions

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
        *("--batch-size", "8", "--quiet"),
    ]


def _stop_after(count: int, patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after so many examples."""
    measured, measure = [], kind.measure

    def stopped(*arguments: Any) -> Any:
        if len(measured) == count:
            raise KeyboardInterrupt
        measured.append(1)
        return measure(*arguments)

    patch.setattr(kind, "measure", stopped)


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


def test_another_function_of_the_same_settings_is_rejected(
    begun: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a library might change what it computes: config and weights are the same."""
    load = unmask.evaluation.ModelSource.load

    def loaded(source: unmask.evaluation.ModelSource) -> Any:
        lm = load(source)
        for layer in lm.model.model.bert.encoder.layer:
            layer.intermediate.intermediate_act_fn = torch.nn.ReLU()
        return lm

    monkeypatch.setattr(unmask.evaluation.ModelSource, "load", loaded)
    assert main(_command(begun)) == 2
    err = capsys.readouterr().err
    assert "its probabilities for the same tokens are up to " in err
    assert " nats apart there and here" in err
    assert err.count("\n") == 1


def test_workers_check_the_same_things(begun: Path) -> None:
    plan = read_run(begun / "run").plan
    check_model(unmask.load(str(begun / "tiny")), plan.model)
    _edit(begun / "tiny" / CONFIG, _set("num_attention_heads", 4))
    with pytest.raises(unmask.ModelError, match=r"has other settings here .*num_attention_heads"):
        check_model(unmask.load(str(begun / "tiny")), plan.model)
    _edit(begun / "tiny" / CONFIG, _set("num_attention_heads", 2))
    _edit(begun / "tiny" / TOKENIZER, _set("pre_tokenizer", {"type": "Whitespace"}))
    with pytest.raises(unmask.ModelError, match="has other rules for tokens here"):
        check_model(unmask.load(str(begun / "tiny")), plan.model)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_has_an_identity_that_shows_another_function(name: str) -> None:
    lm = unmask.load(build(name))
    found = _identity(lm)
    assert ModelIdentity.from_dict(json.loads(canonical(found.to_dict()))) == found
    torch.set_num_threads(2)
    try:
        assert model_changes(found, _identity(lm)) == {}
    finally:
        torch.set_num_threads(1)
    for module in lm.model.model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.register_forward_hook(lambda *arguments: arguments[-1] * 1.05)
    assert list(model_changes(found, _identity(lm))) == ["model.probe"]


def _identity(lm: unmask.LanguageModel) -> ModelIdentity:
    return identify(lm, name="m", dtype="float32")


def whole(**changes: object) -> ModelIdentity:
    known = {
        "config": {"heads": 2, "rope": {"theta": 1.0, "kind": "default"}},
        "tokenizer": {"normalizer": None},
        "probe": (-1.0, -20.0, -3.5),
    }
    return replace(a_plan().model, **{**known, **changes})


def moved(by: float) -> ModelIdentity:
    return whole(probe=tuple(value + by for value in whole().probe or ()))


@pytest.mark.parametrize(
    ("dtype", "noise", "another"),
    [("float32", 3e-4, 0.02), ("float16", 5e-3, 0.5), ("bfloat16", 5e-2, 2.0)],
)
def test_probes_may_differ_by_rounding(dtype: str, noise: float, another: float) -> None:
    stored = replace(whole(), dtype=dtype)
    assert model_changes(stored, replace(moved(noise), dtype=dtype)) == {}
    assert list(model_changes(stored, replace(moved(another), dtype=dtype))) == ["model.probe"]


@pytest.mark.parametrize("probe", [None, (), (-1.0,), (float("nan"), -20.0, -3.5)])
def test_a_probe_that_is_none_does_not_pass(probe: tuple[float, ...] | None) -> None:
    assert reconciled(whole(), whole(probe=probe)).probe is probe


def test_settings_that_one_version_alone_knows_are_passed_over() -> None:
    newer = whole(
        config={"heads": 2, "rope": {"theta": 1.0, "factor": 1.0}, "more": 1},
        tokenizer={"normalizer": None, "more": 1},
    )
    assert model_changes(whole(), newer) == {}
    assert model_changes(newer, whole()) == {}
    other = whole(config={"heads": 2, "rope": {"theta": 2.0}})
    assert list(model_changes(whole(), other)) == ["model.config.rope.theta"]


def test_runs_of_two_functions_are_not_averaged() -> None:
    assert same_function(whole(), moved(1e-5))
    assert same_function(whole(), a_plan().model), "as far as it is known"
    assert not same_function(whole(), moved(1.0))
    assert not same_function(whole(), whole(config={"heads": 4}))
    assert not same_function(whole(), replace(whole(), weights="e" * 64))


def test_the_stored_plan_counts_and_not_its_repetition() -> None:
    stored = a_plan(model=whole())
    check_same(a_job(stored), a_job(a_plan(model=moved(1e-5))), "it")


def test_versions_are_compared_by_package() -> None:
    old = "unmask 0.1.0, torch 2.1, no pyarrow"
    new = "unmask 0.1.0, torch 2.1, tokenizers 1, pyarrow 3"
    assert versions(old) == {"unmask": "0.1.0", "torch": "2.1", "pyarrow": "none"}
    assert differing([old, new]) == {"pyarrow": ["3", "none"]}
    assert change([], new) is None
    assert change([new], new) is None
    assert change([old.replace(", no pyarrow", "")], new) is None, "it did not say more"
    assert "(pyarrow none there, 3 here)" in (change([old], new) or "")
