"""Tuning from end to end on tiny models: it learns, counts, survives kills, and leaves a model."""

import itertools
import json
import os
import random
import re
import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import killable
import pytest
import tiny_models
import torch
from damage import files_up_to
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM

import unmask
from unmask.training import Tuned, Tuning, tune
from unmask.training.folder import TuningFolder
from unmask.training.masking import Vocabulary
from unmask.training.network import Network
from unmask.training.pairs import choose_pairs, measure_pairs
from unmask.training.run import Stopped, TrainingRun
from unmask.training.texts import Batch, generator, ordinary_tokens, padded, read_texts

WHO, DOES, WHERE = ("cat", "dog", "man", "woman"), ("sat", "ran", "is"), ("mat", "hat", "car")
# two words of every sentence go together: what is at its end follows from who is in it
TEXTS = [
    f"the {size} {who} {does} {where} the {old} {WHERE[WHO.index(who) % 3]} ."
    for size in ("big", "small", "young")
    for who in WHO
    for does in DOES
    for where in ("on", "in", "at")
    for old in ("red", "old", "new")
]
# the same two go together more or less often
_COMBINED = list(
    itertools.product(
        ("big", "small", "young"), WHO, DOES, ("on", "in", "at"), ("red", "old", "new"), WHERE
    )
)
_DRAW = random.Random(0)
SOFT = [
    f"the {size} {who} {does} {where} the {old} {what} ."
    for size, who, does, where, old, what in _COMBINED
    if _DRAW.random() < (0.9 if WHERE.index(what) == WHO.index(who) % 3 else 0.3)
]
PROBES = list(itertools.product(("big", "small"), ("on", "in"), ("red", "old")))
FAST: dict[str, Any] = {"learning_rate": 3e-3, "batch_tokens": 256, "evaluations": 4}


@pytest.fixture(scope="module")
def lm() -> unmask.LanguageModel:
    """An untrained BERT, with dropout."""
    _, tokenizer = tiny_models.build("bert")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=24,
    )
    return unmask.load((BertForMaskedLM(config).eval(), tokenizer))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, other: Path) -> bool:
    mine, its = weights(one), weights(other)
    assert mine.keys() == its.keys()
    return all(torch.equal(mine[name], its[name]) for name in mine)


@pytest.fixture(scope="module")
def plan() -> Tuning:
    return Tuning(passes=900, compatibility=0.3, marginals=0.3, tokens=4, **FAST)


@pytest.fixture(scope="module")
def whole(lm, plan, tmp_path_factory) -> Tuned:
    """A run without a break."""
    return tune(lm, TEXTS, tmp_path_factory.mktemp("tuned") / "whole", plan, corpora=["made up"])


@pytest.mark.slow
def test_it_learns_and_the_folder_is_an_ordinary_one(whole: Tuned) -> None:
    first, last = whole.evaluations[0], whole.evaluations[-1]
    assert last.loss < 0.8 * first.loss
    assert whole.kept.objective == min(one.objective for one in whole.evaluations)
    assert sorted(path.name for path in whole.folder.iterdir()) == [
        *("README.md", "config.json", "model.safetensors", "tokenizer.json"),
        *("tokenizer_config.json", "tuning.json"),
    ]
    found = unmask.load(whole.folder)
    best = found.joint("the big cat [MASK] on the red [MASK] .", support="vocabulary").top(1)[0]
    assert best.tokens[0] in DOES
    said = json.loads((whole.folder / "tuning.json").read_text())
    assert said["plan"]["tuning"]["tokens"] == 4
    assert said["plan"]["corpora"] == ["made up"]
    assert said["kept"] == asdict(whole.kept)
    card = (whole.folder / "README.md").read_text()
    assert f"{whole.kept.loss:.4f}" in card
    # one blank is easier than several
    assert whole.kept.single_blanks is not None
    assert whole.kept.single_blanks < whole.kept.loss
    assert f"{whole.kept.single_blanks:.4f}" in card


@pytest.mark.slow
def test_the_callers_model_is_not_changed(lm, whole: Tuned) -> None:
    torch.manual_seed(0)
    fresh = BertForMaskedLM(lm.model.model.config)
    mine = lm.model.model.state_dict()
    assert all(torch.equal(mine[name], value) for name, value in fresh.state_dict().items())
    assert not lm.model.model.training


@pytest.mark.slow
def test_random_numbers_of_the_caller_are_not_used(lm, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tune(lm, TEXTS, tmp_path / "tuned", Tuning(passes=60, **FAST))
    assert torch.equal(torch.rand(3), expected)


# --- passes ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "arm",
    [
        {"masks": "plain"},
        {"masks": "any"},
        {},
        {"compatibility": 1.0},
        {"compatibility": 1.0, "tokens": 3, "every": 1},
        {"marginals": 1.0},
    ],
)
def test_every_arm_uses_as_many_passes_as_the_model_sees_rows(lm, arm, tmp_path, monkeypatch):
    seen = {True: 0, False: 0}
    original = BertForMaskedLM.forward

    def forward(self, input_ids=None, **options):
        # the held-out texts are measured without gradients throughout; tokens are drawn without too
        seen[steps[-1]] += len(input_ids)
        return original(self, input_ids=input_ids, **options)

    steps, step = [False], TrainingRun._step

    def counted(self):
        steps.append(True)
        step(self)
        steps.append(False)

    monkeypatch.setattr(BertForMaskedLM, "forward", forward)
    monkeypatch.setattr(TrainingRun, "_step", counted)
    tuning, lines = Tuning(passes=333, patience=0, **FAST, **arm), list[str]()
    found = tune(lm, TEXTS, tmp_path / "tuned", tuning, say=lines.append)
    assert found.passes == seen[True] == 333
    said = re.fullmatch(
        r"training: 333 forward passes on [\d,]+ sentences, and ([\d,]+) on [\d,]+ held-out ones "
        r"at each of at most 5 evaluations",
        lines[0],
    )
    assert said is not None
    held_out = json.loads((tmp_path / "tuned/tuning.json").read_text())["record"]["held_out_passes"]
    assert held_out <= seen[False]
    assert held_out == int(said[1].replace(",", "")) * len(found.evaluations)
    if "tokens" in arm or "compatibility" in arm or "marginals" in arm:
        per_pair = 2 * arm.get("tokens", 8) + 1
        assert found.pair_passes >= 2 * per_pair
        assert found.pair_passes % per_pair == 0
    else:
        assert found.pair_passes == 0


@pytest.mark.slow
def test_passes_are_three_per_text_by_default(lm, tmp_path: Path) -> None:
    found = tune(lm, TEXTS[:41], tmp_path / "tuned", Tuning(**FAST))
    assert found.passes == 3 * (41 - 2)


def test_the_rate_rises_and_falls() -> None:
    tuning = Tuning(passes=1000, learning_rate=0.5)
    rates = [tuning.learning_rate_at(done, done + 10) for done in range(0, 1000, 10)]
    assert rates[0] == pytest.approx(0.5 / 6)
    assert max(rates) == rates[5] == 0.5
    assert rates[-1] == pytest.approx(0.5 * 10 / 940)


# --- kills -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_that_was_stopped_ends_in_the_same_weights(lm, plan, whole, tmp_path: Path) -> None:
    folder, stops = tmp_path / "stopped", []
    for _ in range(40):
        left = iter([False] * 5)
        try:
            found = tune(
                lm,
                TEXTS,
                folder,
                plan,
                corpora=["made up"],
                stop=lambda left=left: next(left, True),
            )
            break
        except Stopped as error:
            stops.append(str(error))
    assert len(stops) > 3
    assert all("repeat the command to continue" in said for said in stops)
    assert same(folder, whole.folder)
    assert found.evaluations == whole.evaluations
    assert not (folder / "training").exists()


@pytest.mark.slow
def test_a_run_that_was_killed_ends_in_the_same_weights(tmp_path: Path) -> None:
    """Killed with no warning, wherever it is; checkpoints come at every step."""
    model, tokenizer = tiny_models.build("bert")
    model.save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    command = ["tune", str(tmp_path / "bert"), str(tmp_path / "texts.txt")]
    command += ["--passes", "1500", "--compatibility", "0.5", "--tokens", "4"]
    command += ["--learning-rate", "1e-3", "--batch-tokens", "256", "--device", "cpu"]
    assert killable.finish([*command, "-o", str(tmp_path / "whole")], tmp_path / "log") == 0
    output, kills = tmp_path / "killed", 0
    for _ in range(60):
        given = ([*command, "-o", str(output)], str(tmp_path / "log"), dict(os.environ))
        process = killable._CONTEXT.Process(target=_saving_always, args=given, daemon=True)
        process.start()
        before = _checkpoint(output)
        while process.exitcode is None and _checkpoint(output) == before:
            time.sleep(0.05)
        # somewhere in a step, an evaluation or the next checkpoint
        process.join(0.13 * (kills % 4))
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        if (output / "tuning.json").exists():
            break
        if kills == 3:
            assert killable.finish([*command, "-o", str(output)], tmp_path / "log") == 0
            break
    assert kills >= 3, (tmp_path / "log").read_text()
    assert "continuing after" in (tmp_path / "log").read_text()
    assert same(output, tmp_path / "whole")
    assert not (output / "training").exists()


def _saving_always(*given: Any) -> None:
    from unmask.training import run

    run._CHECKPOINT_SECONDS, run._SAVING_SHARE = 0.0, 1e9
    killable._run(*given)


def _checkpoint(output: Path) -> int:
    try:
        return (output / "training/state.safetensors").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.mark.slow
def test_what_is_kept_is_what_was_measured_with_its_weights(
    lm, plan, tmp_path, monkeypatch
) -> None:
    """A run that was killed may not repeat itself: the best weights know whose they are."""
    from unmask.training import work

    real = work.load_state

    def of_an_earlier_run(path: Path, *given: Any) -> dict[str, Any]:
        about = real(path, *given)
        return {"evaluation": {**about["evaluation"], "loss": 0.123}}

    monkeypatch.setattr(work, "load_state", of_an_earlier_run)
    found = tune(lm, TEXTS, tmp_path / "tuned", plan)
    assert found.kept.loss == 0.123
    assert "0.1230" in (tmp_path / "tuned/README.md").read_text()


@pytest.mark.slow
def test_a_complete_folder_is_returned_as_it_is(lm, plan, whole: Tuned) -> None:
    before = (whole.folder / "model.safetensors").stat().st_mtime_ns
    again = tune(lm, TEXTS, whole.folder, plan, corpora=["made up"])
    assert again == whole
    assert (whole.folder / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_kill_while_the_model_is_put_in_place_is_made_up_for(
    lm, plan, whole, tmp_path, monkeypatch
) -> None:
    from unmask.training import folder as module

    moved = []

    def fail(unfinished: Path, path: Path) -> None:
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(path)
        os.replace(unfinished, path)

    with monkeypatch.context() as patch:
        patch.setattr(module, "put_in_place", fail)
        with pytest.raises(KeyboardInterrupt):
            tune(lm, TEXTS, tmp_path / "tuned", plan, corpora=["made up"])
    assert not (tmp_path / "tuned/tuning.json").exists()
    tune(lm, TEXTS, tmp_path / "tuned", plan, corpora=["made up"])
    assert same(tmp_path / "tuned", whole.folder)


@pytest.mark.slow
def test_another_plan_or_a_folder_of_something_else_is_rejected(lm, plan, whole, tmp_path) -> None:
    with pytest.raises(unmask.StoreError, match=r"another tuning: tuning\.seed is '0' there, '1'"):
        tune(lm, TEXTS, whole.folder, Tuning(**{**asdict(plan), "seed": 1}), corpora=["made up"])
    with pytest.raises(unmask.StoreError, match=r"another tuning: texts\.digest"):
        tune(lm, TEXTS[1:], whole.folder, plan, corpora=["made up"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("precious")
    with pytest.raises(unmask.StoreError, match=r"'thesis\.txt' is there"):
        tune(lm, TEXTS, tmp_path / "mine", plan)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    with pytest.raises(unmask.StoreError, match="give a folder"):
        tune(lm, TEXTS, tmp_path / "mine/thesis.txt", plan)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/tuning.json").write_text("not JSON")
    with pytest.raises(unmask.StoreError, match="cannot be read"):
        tune(lm, TEXTS, tmp_path / "odd", plan)


@pytest.mark.slow
def test_a_folder_of_another_machine_is_the_same_tuning(whole: Tuned, tmp_path: Path) -> None:
    """What a model says of the same tokens may differ by rounding, and by no more."""
    stored = json.loads((whole.folder / "tuning.json").read_text())["plan"]
    (tmp_path / "begun/training").mkdir(parents=True)
    (tmp_path / "begun/training/plan.json").write_text(json.dumps(stored))

    def moved(by: float) -> dict[str, Any]:
        probe = [p + by for p in stored["model"]["probe"]]
        return {**stored, "model": {**stored["model"], "probe": probe, "revision": "x"}}

    for folder, complete in ((whole.folder, True), (tmp_path / "begun", False)):
        assert TuningFolder(folder).is_complete(moved(1e-6)) is complete
        with pytest.raises(unmask.StoreError, match=r"up to 0\.5 nats apart"):
            TuningFolder(folder).is_complete(moved(0.5))


@pytest.mark.slow
def test_a_full_disk_is_one_line_that_names_the_file(lm, tmp_path: Path, monkeypatch) -> None:
    few = Tuning(passes=60, **FAST)
    said = "File too large.*what was saved before is safe: .* repeat the command"
    with (
        files_up_to(20_000),
        pytest.raises(unmask.StoreError, match=f"best.safetensors': .*{said}"),
    ):
        tune(lm, TEXTS, tmp_path / "tuned", few)
    # a checkpoint is larger than the model: what is written last has its own limit
    save = Network.save

    def limited(*arguments: Any) -> None:
        with files_up_to(20_000):
            save(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Network, "save", limited)
        with pytest.raises(unmask.StoreError, match=f"cannot write '{tmp_path}/tuned': .*{said}"):
            tune(lm, TEXTS, tmp_path / "tuned", few)
    tune(lm, TEXTS, tmp_path / "tuned", few)
    assert same(tmp_path / "tuned", tune(lm, TEXTS, tmp_path / "other", few).folder)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_one_line(lm, plan, tmp_path: Path) -> None:
    left = iter([False] * 12)
    with pytest.raises(Stopped):
        tune(lm, TEXTS, tmp_path / "tuned", plan, stop=lambda: next(left, True))
    state = tmp_path / "tuned/training/state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(unmask.StoreError, match="is damaged or of another model"):
        tune(lm, TEXTS, tmp_path / "tuned", plan)


@pytest.mark.slow
def test_one_process_at_a_time(lm, plan, tmp_path: Path) -> None:
    def second() -> bool:
        with pytest.raises(unmask.StoreError, match="another process trains in"):
            tune(lm, TEXTS, tmp_path / "tuned", plan)
        return True

    with pytest.raises(Stopped):
        tune(lm, TEXTS, tmp_path / "tuned", plan, stop=second)


# --- the held-out texts ------------------------------------------------------------------------


def test_which_texts_are_held_out_depends_on_the_texts_alone(lm) -> None:
    found, turned = read_texts(lm, TEXTS), read_texts(lm, TEXTS[::-1])
    assert len(found.held_out) == len(TEXTS) // 20
    assert found == turned
    fewer = read_texts(lm, TEXTS[: len(TEXTS) // 2])
    # both are the first in one order
    some = {tuple(ids) for ids in [*fewer.training, *fewer.held_out]}
    of_all = {tuple(ids) for ids in found.held_out} & some
    of_fewer = {tuple(ids) for ids in fewer.held_out}
    assert of_all <= of_fewer or of_fewer <= of_all


@pytest.mark.slow
def test_training_stops_when_nothing_improves(lm, tmp_path: Path) -> None:
    # a rate so high that it can only harm
    tuning = Tuning(passes=4000, learning_rate=1.0, batch_tokens=256, patience=2, evaluations=20)
    lines: list[str] = []
    found = tune(lm, TEXTS, tmp_path / "tuned", tuning, say=lines.append)
    assert found.stopped_early
    assert found.passes < 4000
    assert found.kept == found.evaluations[-3]
    assert len(lines) == 1 + len(found.evaluations)
    last = tune(lm, TEXTS, tmp_path / "last", Tuning(**{**asdict(tuning), "keep": "last"}))
    assert last.kept == last.evaluations[-1] == found.evaluations[-1]
    assert not same(tmp_path / "tuned", tmp_path / "last")


def test_texts_to_be_left_out_are_compared_without_case_and_punctuation(lm) -> None:
    found = read_texts(lm, TEXTS, [TEXTS[3].upper().replace(".", "!?")])
    assert found.left_out == {"in the corpora to be left out": 1}
    assert len(found.training) + len(found.held_out) == len(TEXTS) - 1


def test_texts_that_cannot_be_used_are_counted(lm) -> None:
    odd = ["", "  ", TEXTS[0], "the [MASK] sat", " ".join(["cat"] * 30), "xyzzy"]
    found = read_texts(lm, [*TEXTS, *odd])
    assert found.left_out == {
        "empty": 2,
        "repeated": 1,
        "with a mask token": 1,
        "longer than the model takes": 1,
        "without a known token": 1,
    }
    with pytest.raises(unmask.CorpusError, match=r"0 of 2 texts .* 1 without a known token"):
        read_texts(lm, ["xyzzy", "the [MASK] sat"])


# --- what it is for ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_penalty_lowers_incompatibility(tmp_path: Path) -> None:
    """J of pairs of blanks, against a control with as many forward passes from the same model."""
    lm = unmask.load(tiny_models.build("bert"))
    first = tune(lm, SOFT, tmp_path / "first", Tuning(passes=8000, patience=0, **FAST))
    base = unmask.load(first.folder)
    probes = [f"the {size} [MASK] sat {where} the {old} [MASK] ." for size, where, old in PROBES]

    def bits(folder: Path) -> float:
        one = unmask.load(folder)
        joints = [one.joint(text, support="vocabulary") for text in probes]
        return sum(joint.incompatibility() for joint in joints) / len(probes)

    arms = {"control": 0.0, "compatible": 10.0}
    found = {}
    for name, weight in arms.items():
        how = {**FAST, "learning_rate": 1e-3, "patience": 0, "keep": "last"}
        tuning = Tuning(passes=4000, compatibility=weight, **how)
        found[name] = tune(base, SOFT, tmp_path / name, tuning)
    control, compatible = found["control"], found["compatible"]
    assert control.passes == compatible.passes == 4000
    assert compatible.kept.compatibility < 0.5 * control.kept.compatibility
    assert bits(compatible.folder) < 0.5 * bits(control.folder)
    # what it costs: fewer passes for the texts themselves, and a further aim
    assert compatible.kept.loss < control.kept.loss + 0.2
    assert compatible.kept.single_blanks < control.kept.single_blanks + 0.2


@pytest.mark.slow
def test_the_marginal_term_makes_masked_answers_fit_the_conditionals(lm, whole: Tuned) -> None:
    """By itself, from samples of four tokens; judged with every token."""
    network, vocabulary = Network(lm), Vocabulary(lm.model.mask_id, ordinary_tokens(lm))
    batch = padded(read_texts(lm, TEXTS).training[:40], network.padding)
    pairs = choose_pairs(batch, vocabulary, 40, generator("pairs"))
    assert pairs is not None
    every = int(vocabulary.ordinary.sum())

    def exact() -> float:
        with torch.no_grad():
            terms = measure_pairs(network, pairs, vocabulary, every, generator(0))
        return float(terms.marginals.mean())

    with torch.no_grad():
        # sharp answers, far from each other's means
        for name, parameter in network.parameters().items():
            if "predictions.bias" not in name:
                parameter.mul_(3.0 if parameter.ndim > 1 else 1.0)
    before = exact()
    optimizer = torch.optim.Adam(network.parameters().values(), lr=1e-3)
    for step in range(40):
        optimizer.zero_grad()
        terms = measure_pairs(
            network, pairs, vocabulary, 4, generator(1, step), compatibility=False
        )
        terms.marginals.mean().backward()
        optimizer.step()
    assert exact() < 0.5 * before


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny_models.ARCHITECTURES)
def test_every_architecture_can_be_tuned(name: str, tmp_path: Path) -> None:
    lm = unmask.load(tiny_models.build(name))
    if name == "esm":
        texts = ["M K L L A V G", "M A L K", "G G A V L K S", "S E R T", "M K T A Y I A K Q R"]
    else:
        texts = ["the cat sat on the mat.", "the mat", "the cat sat", "cat on the mat", "the the"]
    tuning = Tuning(
        passes=80, compatibility=0.1, marginals=0.1, tokens=3, learning_rate=1e-3, batch_tokens=64
    )
    found = tune(lm, texts, tmp_path / "tuned", tuning)
    assert found.passes == 80 or found.stopped_early
    again = unmask.load(found.folder)
    assert again.model.vocabulary_size == lm.model.vocabulary_size
    mine, its = again.model.model.state_dict(), lm.model.model.state_dict()
    assert found.kept.passes == 0 or any(not torch.equal(mine[key], its[key]) for key in its)


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny_models.ARCHITECTURES)
def test_logits_are_the_models_own(name: str) -> None:
    """At chosen places, with padding, and with a gradient."""
    lm = unmask.load(tiny_models.build(name))
    network = Network(lm)
    ordinary = ordinary_tokens(lm).nonzero().flatten().tolist()
    rows = [[ordinary[(3 * i + j) % len(ordinary)] for j in range(4 + 2 * i)] for i in range(3)]
    batch = padded(rows, network.padding)
    chosen = batch.attention.bool() & (torch.arange(8) % 2 == 1)
    found = network.logits(batch, chosen)
    assert found.requires_grad
    own = [
        lm.model.model(input_ids=torch.tensor([row])).logits[0, place]
        for row, some in zip(rows, chosen, strict=True)
        for place in some.nonzero().flatten().tolist()
    ]
    torch.testing.assert_close(found, torch.stack(own), rtol=1e-4, atol=2e-4)
    assert network.passes == 3
    assert network.tokens == 18
    found.sum().backward()
    assert all(p.grad is None for p in lm.model.model.parameters())
    assert any(p.grad is not None for p in network.parameters().values())


def test_a_head_that_is_not_called_on_some_places_gives_the_same_logits(lm, monkeypatch) -> None:
    batch = Batch(torch.tensor([[2, 9, 10, 3]]), torch.ones((1, 4), dtype=torch.long))
    chosen = torch.tensor([[False, True, False, True]])
    narrow = Network(lm).logits(batch, chosen)
    monkeypatch.setattr(Network, "_can_narrow", lambda self, lm: False)
    torch.testing.assert_close(Network(lm).logits(batch, chosen), narrow)


@pytest.mark.slow
def test_bfloat16_runs(lm, tmp_path: Path) -> None:
    found = tune(lm, TEXTS, tmp_path / "tuned", Tuning(passes=200, bfloat16=True, **FAST))
    assert {one.dtype for one in weights(found.folder).values()} == {torch.float32}


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"masks": "none"}, "masks is one of blanks, plain, any, not 'none'"),
        ({"keep": 3}, "keep is one of best, last, not 3"),
        ({"compatibility": -1.0}, "compatibility is a finite number from 0, not -1.0"),
        ({"compatibility": float("nan")}, "compatibility is a finite number from 0, not nan"),
        ({"marginals": float("inf")}, "marginals is a finite number from 0, not inf"),
        ({"learning_rate": 0}, "learning_rate is a finite number above 0, not 0"),
        ({"tokens": 1}, "tokens is a whole number from 2, not 1"),
        ({"passes": 0}, "passes is a whole number from 1, not 0"),
        ({"passes": 1.5}, "passes is a whole number from 1, not 1.5"),
        ({"every": 0}, "every is a whole number from 1, not 0"),
        ({"seed": "x"}, "seed is a whole number, not 'x'"),
        ({"bfloat16": 1}, "bfloat16 is True or False, not 1"),
    ],
)
def test_options_that_mean_nothing_are_one_line(options, said: str) -> None:
    with pytest.raises(unmask.UnmaskError) as error:
        Tuning(**options)
    assert str(error.value) == said


@pytest.mark.slow
def test_more_tokens_than_there_are_is_one_line(lm, tmp_path: Path) -> None:
    with pytest.raises(unmask.ModelError, match="tokens is at most 4"):
        tune(lm, TEXTS, tmp_path / "tuned", Tuning(compatibility=1.0, tokens=500))
    # without a penalty the number has no effect
    tune(lm, TEXTS[:30], tmp_path / "tuned", Tuning(tokens=500, passes=20, **FAST))


@pytest.mark.slow
def test_a_loss_that_is_not_finite_is_one_line(lm, tmp_path: Path) -> None:
    broken = unmask.load((lm.model.model, lm.tokenizer))
    tuning = Tuning(passes=3000, learning_rate=1e30, batch_tokens=256)
    with pytest.raises(unmask.NumericsError, match="give a lower learning rate"):
        tune(broken, TEXTS, tmp_path / "tuned", tuning)


@pytest.mark.slow
def test_frozen_and_foreign_models_are_one_line(lm, tmp_path: Path) -> None:
    model, tokenizer = tiny_models.build("bert")
    model.requires_grad_(False)
    with pytest.raises(unmask.ModelError, match="all are frozen"):
        tune(unmask.load((model, tokenizer)), TEXTS, tmp_path / "tuned")
