"""Which tokens are masked: uniform, the same everywhere, and as in the results published so far."""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from assets import real_data, real_model
from scipy.stats import chisquare
from tiny_tokenizers import tiny_bert, word_piece

import unmask
from unmask.errors import CorpusError
from unmask.evaluation.masks import MASKS, examples
from unmask.records.corpora import CorpusSpec, Sentence, read_corpus

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"

# six tokens between [CLS] and [SEP]
SENTENCE = Sentence("s", "the cat sat on the mat")


def numbered(count: int) -> list[Sentence]:
    words = ("cat", "dog", "man", "woman")
    return [Sentence(f"s:{i}", f"the {words[i % 4]} sat on a mat") for i in range(count)]


def positions(lm: unmask.LanguageModel, **options: Any) -> tuple[int, ...]:
    (pair,) = examples(lm, [SENTENCE], limit=1, **options).pairs
    return pair.cloze.positions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mask", "possible"),
    [
        ("contiguous", [(i, i + 1) for i in range(1, 6)]),
        ("random", list(combinations(range(1, 7), 2))),
    ],
)
def test_every_pair_is_as_likely(mask, possible, lm):
    seeds = 1500
    seen = Counter(positions(lm, mask=mask, seed=seed) for seed in range(seeds))
    assert set(seen) == set(possible)
    # seeds are fixed, so this holds always or never; unequal odds would give far less
    assert chisquare([seen[pair] for pair in possible]).pvalue > 0.01


@pytest.mark.parametrize(
    ("mask", "blanks", "first"),
    [
        ("contiguous", [(4, 5), (4, 5), (4, 5), (3, 4), (4, 5), (2, 3)], "20 10 3 31 29 8"),
        ("random", [(1, 5), (1, 5), (1, 6), (1, 4), (2, 5), (3, 4)], "6 29 17 2 19 10"),
    ],
)
def test_the_derivation_stays_as_it_is(mask, blanks, first, lm):
    assert [positions(lm, mask=mask, seed=seed) for seed in range(6)] == blanks
    found = examples(lm, numbered(40), mask=mask, limit=6).pairs
    assert [pair.sentence_id for pair in found] == [f"s:{i}" for i in first.split()]


@pytest.mark.parametrize("mask", MASKS)
def test_a_longer_list_begins_with_the_shorter_one(mask, lm):
    corpus = numbered(40)
    twenty = examples(lm, corpus, mask=mask, limit=20)
    assert twenty == examples(lm, corpus, mask=mask, limit=20)
    assert examples(lm, corpus, mask=mask, limit=10).pairs == twenty.pairs[:10]
    assert len({pair.id for pair in twenty.pairs}) == 20
    # nor do the order of the corpus and what else is in it matter
    assert examples(lm, corpus[::-1], mask=mask, limit=20) == twenty
    kept = {pair.sentence_id for pair in twenty.pairs[::2]}
    some = examples(lm, [one for one in corpus if one.id in kept], mask=mask, limit=20)
    assert some.pairs == twenty.pairs[::2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cat", "too short"),
        ("\u200b", "too short"),
        ("cat [SEP]", "too short"),
        ("the cat " * 12, "too long"),
        ("the [MASK] sat", "holds a mask token"),
    ],
)
def test_what_cannot_be_an_example_is_refused(text, reason, lm):
    found = examples(lm, [Sentence("bad", text), SENTENCE], mask="random", limit=5)
    assert [pair.sentence_id for pair in found.pairs] == ["s"]
    assert found.refused == {reason: 1}
    assert examples(lm, [Sentence("bad", text)], mask="random", limit=1).pairs == ()


def test_neighbours_are_never_across_a_special_token(lm):
    split = [Sentence("x", "the cat [SEP] sat on")]
    for seed in range(30):
        (pair,) = examples(lm, split, mask="contiguous", limit=1, seed=seed).pairs
        assert pair.cloze.positions in {(1, 2), (4, 5)}
    alone = examples(lm, [Sentence("x", "cat [SEP] sat")], mask="contiguous", limit=1)
    assert alone.refused == {"too short": 1}
    assert examples(lm, [Sentence("x", "cat [SEP] sat")], mask="random", limit=1).pairs


def test_a_model_of_another_tokenizer_is_an_error_and_not_a_refusal():
    model = tiny_bert()
    model.resize_token_embeddings(8)
    with pytest.raises(unmask.UnmaskError, match="do not belong together"):
        examples(unmask.load((model, word_piece())), [SENTENCE], mask="random", limit=1)


@pytest.fixture(scope="module")
def caption_bert() -> unmask.LanguageModel:
    return unmask.load(real_model("caption-bert"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mask": "both"}, "a mask is 'contiguous' or 'random', not 'both'"),
        ({"limit": 0}, "limit is a whole number from 1, not 0"),
        ({"limit": "5"}, "limit is a whole number from 1, not '5'"),
        ({"limit": True}, "limit is a whole number from 1, not True"),
        ({"seed": 1.5}, "seed is a whole number, not 1.5"),
    ],
)
def test_bad_options(options, sentence, lm):
    with pytest.raises(CorpusError) as raised:
        examples(lm, [SENTENCE], **{"mask": "random", "limit": 1, **options})
    assert str(raised.value) == sentence


@pytest.mark.real
@pytest.mark.assets("a corpus, and the model of rows that are published")
@pytest.mark.parametrize("mask", MASKS)
def test_the_examples_of_published_results_come_out_again(mask, caption_bert):
    lines = (RESULTS / "better-joints.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["mask"] == mask]
    sentences = read_corpus(CorpusSpec(str(real_data("snli/test.jsonl")))).sentences
    found = examples(caption_bert, sentences, mask=mask, limit=len(rows)).pairs
    seen = [(pair.sentence_id, list(pair.cloze.positions), len(pair.cloze)) for pair in found]
    assert seen == [(row["id"], row["positions"], row["length"]) for row in rows]
