"""The run that trains a small masked LM: it learns, resumes to the same weights, and loads."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import unmask
from unmask.corpora.corpus import Sentence

sys.path.insert(0, str(Path(__file__).parents[2] / "runs"))

import small_mlm_data as data_making
import train_small_mlm as run

SHAPE = run.Shape(vocabulary=150, layers=1, hidden=32, heads=2, positions=16)
PLAN = run.Plan(steps=40, seed=3, corpus="made up", cells=256, peak=1e-2, shape=SHAPE)


def sentences() -> list[Sentence]:
    """200 different ones, so few words that their order can be learnt."""
    who, does, what = ("man", "woman", "dog", "girl"), ("sees", "has", "likes"), ("hat", "car")
    texts = [
        f"A {a} {does[n % 3]} the {b} number {n} ." for n in range(25) for a in who for b in what
    ]
    return [Sentence(str(n), text) for n, text in enumerate(texts)]


@pytest.fixture(scope="module")
def data() -> run.Data:
    assert len(sentences()) == 200
    return run.prepare(sentences(), SHAPE)


@pytest.fixture(scope="module")
def folder(data: run.Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    place = tmp_path_factory.mktemp("whole")
    losses = run.train(data, PLAN, place)
    assert losses[-1] < 0.7 * losses[0]
    return place


def test_a_resumed_run_ends_in_the_same_weights(
    data: run.Data, folder: Path, tmp_path: Path
) -> None:
    run.train(data, PLAN, tmp_path, until=17)
    assert not (tmp_path / "model.safetensors").exists()
    run.train(data, PLAN, tmp_path)
    one, other = (load_file(place / "model.safetensors") for place in (folder, tmp_path))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_seed_ends_elsewhere_and_another_plan_is_refused(
    data: run.Data, folder: Path, tmp_path: Path
) -> None:
    plan = run.replace(PLAN, seed=4, steps=2)
    run.train(data, plan, tmp_path)
    one, other = (load_file(place / "model.safetensors") for place in (folder, tmp_path))
    assert not all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(unmask.UnmaskError, match="its steps is 2, not 40"):
        run.train(data, run.replace(PLAN, seed=4), tmp_path)


def test_the_folder_loads_and_fills(folder: Path) -> None:
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "config.json",
        "model.safetensors",
        "state.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    lm = unmask.load(folder)
    assert lm.max_length == SHAPE.positions
    (best,) = lm.joint("A man [MASK] the [MASK] number 3 .").top(1)
    assert best.tokens[0] in {"sees", "has", "likes"}
    assert best.tokens[1] in {"hat", "car"}


def test_a_tokenizer_is_the_same_every_time() -> None:
    # without fixed numbers for its pieces, ties fall differently from one training to the next
    texts = [f"{word}ed un{word} {word}ing" for word in ("walk", "talk", "stalk", "chalk")]
    made = [data_making.train_tokenizer(texts, 60, 16) for _ in range(4)]
    assert all(one.get_vocab() == made[0].get_vocab() for one in made)
    assert made[0].convert_ids_to_tokens([0, 1, 2, 3, 4]) == data_making.SPECIAL
    assert sorted(made[0].all_special_ids) == [0, 1, 2, 3, 4]
    assert made[0].convert_ids_to_tokens(made[0]("Walk")["input_ids"]) == [
        *("[CLS]", "[UNK]", "[SEP]")
    ]


def test_batches_hold_every_sentence_once() -> None:
    encoded = [[2, *[5 + n] * (1 + n % 9), 3] for n in range(100)]
    made = data_making.batches(encoded, 40, data_making.generator(0))
    rows = [tuple(token for token in row if token) for one in made for row in one.tolist()]
    assert Counter(rows) == Counter(map(tuple, encoded))
    assert all(one.numel() <= 40 for one in made)
    again = data_making.batches(encoded, 40, data_making.generator(1))
    assert len(again) == len(made)
    assert any(
        a.shape != b.shape or not torch.equal(a, b) for a, b in zip(made, again, strict=True)
    )


def test_hidden_tokens_are_as_many_as_bert_hides() -> None:
    ids = torch.randint(5, 1000, (400, 50), generator=data_making.generator("ids"))
    ids[:, 0], ids[:, -1] = 2, 0
    batch = data_making.hide(ids, 1000, data_making.generator("masks"))
    chosen = batch.chosen
    assert not chosen[:, 0].any()
    assert not chosen[:, -1].any()
    assert batch.attention[:, -1].sum() == 0
    assert torch.equal(batch.ids[~chosen], ids[~chosen])
    assert torch.equal(batch.targets, ids[chosen])
    assert float(chosen[:, 1:-1].float().mean()) == pytest.approx(0.15, abs=0.01)
    assert float((batch.ids[chosen] == 4).float().mean()) == pytest.approx(0.8, abs=0.03)
    assert float((batch.ids[chosen] == ids[chosen]).float().mean()) == pytest.approx(0.1, abs=0.03)


def test_the_rate_rises_and_falls() -> None:
    rates = [PLAN.learning_rate(step) for step in range(PLAN.steps)]
    assert max(rates) == pytest.approx(PLAN.peak)
    assert rates.index(max(rates)) in (1, 2)
    assert 0 < rates[-1] < 0.1 * PLAN.peak


def test_bad_options_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "out")
    (tmp_path / "few.txt").write_text("One sentence.\n", encoding="utf-8")
    for options, said in (
        (["--corpus", str(tmp_path / "none.txt")], "there is no file"),
        (["--corpus", str(tmp_path / "few.txt")], "too few"),
        (["--corpus", str(tmp_path / "few.txt"), "--steps", "-1"], "--steps takes"),
    ):
        assert run.main([*options, "--output", output, "--threads", "1"]) == 2
        shown = capsys.readouterr().err
        assert said in shown
        assert shown.count("\n") == 1
