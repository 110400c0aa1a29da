"""The run that trains a small masked LM: it learns, repeats, and loads."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import measure_mlm as measuring
import pytest
import small_mlm_data as data_making
import torch
import train_small_mlm as run
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

import unmask
from unmask.records.corpora import Sentence

WORDS = re.compile("[A-Za-z]+")
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
    return run.prepare([sentences()], SHAPE)


@pytest.fixture(scope="module")
def folder(data: run.Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run."""
    place = tmp_path_factory.mktemp("whole")
    losses = run.train(data, PLAN, place)
    assert losses[-1] < 0.7 * losses[0]
    return place


@pytest.mark.slow
def test_the_weights_depend_on_the_seed_alone(data: run.Data, folder: Path, tmp_path: Path) -> None:
    for name, seed in (("same", PLAN.seed), ("other", 4)):
        run.train(data, replace(PLAN, seed=seed), tmp_path / name)
    weights, same, other = (
        load_file(place / "model.safetensors")
        for place in (folder, tmp_path / "same", tmp_path / "other")
    )
    assert weights.keys() == same.keys()
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert not all(torch.equal(weights[name], other[name]) for name in weights)


@pytest.mark.slow
def test_the_folder_loads_and_fills(folder: Path) -> None:
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert {one.dtype for one in load_file(folder / "model.safetensors").values()} == {
        torch.float16
    }
    assert AutoModelForMaskedLM.from_pretrained(folder).dtype == torch.float32
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
    batch = data_making.hide(ids, 1000, data_making.generator("masks"), few=0.0)
    chosen = batch.chosen
    assert not chosen[:, 0].any()
    assert not chosen[:, -1].any()
    assert batch.attention[:, -1].sum() == 0
    assert torch.equal(batch.ids[~chosen], ids[~chosen])
    assert torch.equal(batch.targets, ids[chosen])
    assert float(chosen[:, 1:-1].float().mean()) == pytest.approx(0.15, abs=0.01)
    assert float((batch.ids[chosen] == 4).float().mean()) == pytest.approx(0.8, abs=0.03)
    assert float((batch.ids[chosen] == ids[chosen]).float().mean()) == pytest.approx(0.1, abs=0.03)


def test_few_blanks_are_one_or_two_adjacent_ones() -> None:
    ids = torch.randint(5, 1000, (3000, 9), generator=data_making.generator("ids"))
    # [CLS] and padding at the ends, an [UNK] in the middle, and rows of a single word
    ids[:, 0], ids[:, -1], ids[:, 4] = 2, 0, 1
    ids[:100, 2:] = 0
    batch = data_making.hide(ids, 1000, data_making.generator("masks"), few=1.0)
    chosen = batch.chosen
    assert torch.equal(batch.ids == 4, chosen)
    assert torch.equal(batch.targets, ids[chosen])
    assert not chosen[:, [0, 4, 8]].any()
    assert torch.equal(chosen[:100].sum(1), torch.ones(100))
    places = Counter(tuple(row.nonzero().flatten().tolist()) for row in chosen[100:])
    singles = [(place,) for place in (1, 2, 3, 5, 6, 7)]
    pairs = [(1, 2), (2, 3), (5, 6), (6, 7)]
    assert places.keys() == {*singles, *pairs}
    for which in (singles, pairs):
        expected = 2900 / 2 / len(which)
        assert all(places[place] == pytest.approx(expected, rel=0.25) for place in which)


def test_corpora_hold_no_sentence_twice_and_none_that_is_left_out(tmp_path: Path) -> None:
    for name, lines in (
        ("one.txt", ["A man sleeps.", "A dog runs.", "Hello there you"]),
        ("two.txt", ["a dog RUNS", "A cat sits."]),
        ("test.txt", ["Hello, there: you!"]),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    places = [str(tmp_path / name) for name in ("one.txt", "two.txt")]
    corpora, digest = run.read_corpora(places, [str(tmp_path / "test.txt")])
    assert [[one.text for one in corpus] for corpus in corpora] == [
        ["A man sleeps.", "A dog runs."],
        ["A cat sits."],
    ]
    assert digest.count(" and ") == digest.count(" less ") == 1


@pytest.mark.slow
def test_measured_perplexities(folder: Path, tmp_path: Path) -> None:
    """Against one forward pass per sentence; words are the same for both models."""
    texts = [one.text for one in sentences()[::10]]
    (tmp_path / "some.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    output = tmp_path / "rows.jsonl"
    corpus = ["--corpus", f"some={tmp_path / 'some.txt'}", "--output", str(output)]
    assert measuring.main(["--model", str(folder), "--model", str(folder), *corpus]) == 0
    token, word, *again = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [token["blank"], word["blank"]] == ["token", "word"]
    assert again == [token, word]
    model = measuring.Model(str(folder))
    losses = []
    for text in texts:
        found = measuring.token_blank(model, text)
        ids, place = list(found[0]), found[1]
        assert ids[place] not in model.tokenizer.all_special_ids
        gold, ids[place] = ids[place], model.tokenizer.mask_token_id
        logits = model.model(torch.tensor([ids])).logits[0, place].double()
        losses.append(-float(logits.log_softmax(-1)[gold].detach()))
    assert token["examples"] == len(texts)
    assert token["nll"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    ((ids, place),) = measuring.word_blanks([model], texts[0]) or []
    assert WORDS.fullmatch(model.tokenizer.convert_ids_to_tokens(ids)[place])
