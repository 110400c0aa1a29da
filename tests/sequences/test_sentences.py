"""Pseudo-log-likelihoods against a loop over the model's own logits; words; what is rejected."""

import json
import math
from typing import Any

import pytest
import torch
from tiny_models import build
from tiny_tokenizers import byte_level, tiny_bert, without_unknown, word_piece
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import LanguageModel, Settings
from unmask.sequences.scores import LogRatio, TextScore, WordScore
from unmask.sequences.texts import TokenisedText, tokenised
from unmask.text.words import joined_words

QUIET = Settings(progress=False)

# a text, and its words as numbers of pieces
TEXTS: dict[str, list[tuple[str, dict[str, int]]]] = {
    "bert": [
        ("the cats was on mats.", {"the": 1, "cats": 2, "was": 1, "on": 1, "mats": 2, ".": 1}),
        ("old zebra, ran", {"old": 1, "zebra": 1, ",": 1, "ran": 1}),
    ],
    "roberta": [
        ("the cat in a hat.", {"the": 1, "cat": 1, "in": 3, "a": 2, "hat": 3, ".": 1}),
        (" they on,  it", {"they": 2, "on": 1, ",": 1, " ": 1, "it": 3}),
    ],
    "albert": [
        ("the cat sat on mats.", {"the": 1, "cat": 1, "sat": 1, "on": 1, "mats.": 3}),
        ("a very old car", {"a": 1, "very": 1, "old": 1, "car": 1}),
    ],
    "modernbert": [("the cat hat", {"the": 1, "cat": 1, "hat": 3})],
}


def loop(lm: LanguageModel, text: str, pieces: list[int], *, l2r: bool) -> list[float]:
    """Every token's log-probability, one forward pass each, from the model's own logits."""
    ids = lm.tokenizer(text)["input_ids"]
    ends = [sum(pieces[: w + 1]) for w, count in enumerate(pieces) for _ in range(count)]
    found = []
    for place, end in enumerate(ends, start=1):
        row = list(ids)
        row[place] = lm.tokenizer.mask_token_id
        if l2r:
            row[place : end + 1] = [lm.tokenizer.mask_token_id] * (end + 1 - place)
        with torch.no_grad():
            logits = lm.model.model(input_ids=torch.tensor([row])).logits[0, place].double()
        found.append(float(torch.log_softmax(logits, dim=0)[ids[place]]))
    assert len(found) == len(ids) - 2
    return found


@pytest.fixture(scope="module", params=list(TEXTS))
def named(request: pytest.FixtureRequest) -> tuple[str, LanguageModel]:
    return request.param, unmask.load(build(request.param))


@pytest.mark.parametrize("method", ["pll", "pll-word-l2r"])
def test_scores_are_those_of_the_models_own_logits(named: tuple[str, LanguageModel], method: str):
    name, lm = named
    given = TEXTS[name]
    scores = lm.score([text for text, _ in given], method=method, settings=QUIET)
    for (text, words), score in zip(given, scores, strict=True):
        pieces = list(words.values())
        expected = loop(lm, text, pieces, l2r=method == "pll-word-l2r")
        assert score.score == pytest.approx(math.fsum(expected), abs=1e-5)
        assert (score.text, score.method) == (text, method)
        assert score.tokens == score.forward_passes == sum(pieces)
        starts = [sum(pieces[:i]) for i in range(len(pieces))]
        by_word = [sum(expected[s : s + n]) for s, n in zip(starts, pieces, strict=True)]
        assert [word.log_prob for word in score.words] == pytest.approx(by_word, abs=1e-5)
        assert [(word.text, word.pieces) for word in score.words] == list(words.items())
        assert all(text[word.start : word.end] == word.text for word in score.words)


def one_text(tokenizer: Any, text: str) -> TokenisedText:
    lm = LanguageModel(unmask.load((tiny_bert(), word_piece())).model, tokenizer)
    # a vocabulary of another model: only words are looked at
    lm.model.vocabulary_size = 10**6
    ((found,),) = tokenised(lm, [text])
    return found


@pytest.mark.parametrize(
    ("tokenizer", "text", "words"),
    [
        (word_piece(), "The 日本 man's .", ["The", "日", "本", "man", "'", "s", "."]),
        (
            byte_level(),
            "The 日本 man's  doghouse.",
            ["The", "日本", "man", "'s", "", "doghouse", "."],
        ),
        (byte_level(trim_offsets=False), " a é x", ["a", "é", "x"]),
    ],
)
def test_words_are_what_the_tokenizer_and_spaces_keep_together(
    tokenizer: Any, text: str, words: list[str]
):
    found = one_text(tokenizer, text)
    assert [word.text for word in found.words] == words
    assert [word.first for word in found.words[1:]] == [word.last for word in found.words[:-1]]
    assert (found.words[0].first, found.words[-1].last) == (0, len(found.places))


def test_a_tokenizer_that_splits_nothing_is_split_at_spaces():
    words = joined_words("a bc d", [0, 1, 2, 3], [0, 0, 0, 0], [(0, 1), (1, 3), (3, 4), (4, 6)])
    assert [(word.text, word.first, word.last) for word in words] == [
        ("a", 0, 1),
        ("bc", 1, 3),
        ("d", 3, 4),
    ]


def test_special_tokens_are_not_scored_and_unknown_words_are():
    text = one_text(word_piece(), "the [SEP] zebra sat")
    names = word_piece().convert_ids_to_tokens(list(text.tokens))
    assert names == ["the", "[UNK]", "sat"]
    assert [text.words[number].text for number in text.unknown_words] == ["zebra"]
    # the unknown token itself, written on purpose, is what the model reads
    assert one_text(word_piece(), "the [UNK] zebra sat").unknown_words == (2,)


def test_without_offsets_every_token_is_a_word():
    lm = unmask.load(build("esm"))
    (score,) = lm.score(["M K J A"], settings=QUIET)
    assert [word.text for word in score.words] == ["M", "K", "<unk>", "A"]
    assert {(word.start, word.end) for word in score.words} == {(-1, -1)}
    with pytest.raises(unmask.errors.MethodError, match=r"keeps no character offsets.*use pll"):
        lm.score(["M K"], method="pll-word-l2r")


# --- values ------------------------------------------------------------------------------------


def test_scores_are_ready_for_json():
    score = TextScore("x", "pll", -2.0, 1, (WordScore("x", 0, 1, 1, -2.0),), 1, 1)
    said = json.loads(json.dumps(score.to_dict()))
    word = {"text": "x", "start": 0, "end": 1, "pieces": 1, "log_prob": -2.0, "is_unknown": False}
    assert said["words"] == [word]
    assert (said["score"], said["tokens"], said["unknown_tokens"]) == (-2.0, 1, 1)
    assert score.per_token == -2.0
    ratio = LogRatio(None, None, 0, None, 0, "why", "hcb-path").to_dict()
    assert (ratio["log_ratio"], ratio["reason"], ratio["method"]) == (None, "why", "hcb-path")


# --- what is rejected --------------------------------------------------------------------------

REJECTED_TEXTS = [
    ([""], "text 0: the text is empty"),
    (["he ran", " \n"], "text 1: the text is empty"),
    (["he ran", "he [MASK] ran"], r"text 1: the text holds \[MASK\]; a whole text has no blanks"),
    (["he ran", "the " * 30], "text 1: the text has 32 tokens; this model takes at most 24"),
    (["[SEP]"], "text 0: the text has no token to score"),
    (["he ran", "\ud800"], "text 1: .*surrogate"),
    (7, "texts is a text or a list of texts, not 7"),
    ("", "^the text is empty"),
    ("the " * 30, "^the text has 32 tokens; this model takes at most 24"),
]


@pytest.mark.parametrize(("texts", "said"), REJECTED_TEXTS)
def test_texts_that_cannot_be_scored_are_named(bert: LanguageModel, texts: Any, said: str):
    with pytest.raises(unmask.UnmaskError, match=said) as error:
        bert.score(texts)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def bert() -> LanguageModel:
    return unmask.load(build("bert"))


def test_pairs_that_cannot_be_scored_are_named(bert: LanguageModel):
    with pytest.raises(unmask.UnmaskError, match="the second text of pair 1: the text is empty"):
        bert.log_ratios([("he ran", "she ran"), ("he ran", "")])
    with pytest.raises(unmask.UnmaskError, match="first text of pair 0: the text holds"):
        bert.log_ratios([("he [MASK]", "she ran")], method="pll")


def test_ids_beyond_the_model_are_rejected():
    lm = LanguageModel(ToyMaskedLM(toy_joint(3, 3)), ToyTokenizer(3))
    lm.tokenizer.names.append("t9")
    with pytest.raises(
        unmask.errors.ClozeError,
        match="text 1: the tokenizer gives token id 4, but the model knows 3",
    ):
        lm.score(["t0 t1", "t0 t9"])


def test_a_word_that_a_tokenizer_cannot_read_is_rejected_with_its_text(bert: LanguageModel):
    lm = LanguageModel(bert.model, without_unknown())
    with pytest.raises(unmask.errors.ClozeError, match="text 2: the tokenizer cannot read it"):
        lm.score(["cat", "cat", "dog"])


def test_nothing_is_scored_of_no_texts(bert: LanguageModel):
    assert bert.score([]) == []
    assert bert.log_ratios([]) == []


# --- a real model ------------------------------------------------------------------------------


@pytest.mark.real
def test_a_real_model_is_scored_as_its_own_logits_say(tiny_english: LanguageModel):
    texts = ["A man is skateboarding in the park.", "Two dogs run, antidisestablished!"]
    for method in ("pll", "pll-word-l2r"):
        for score in tiny_english.score(texts, method=method, settings=QUIET):
            pieces = [word.pieces for word in score.words]
            expected = loop(tiny_english, score.text, pieces, l2r=method != "pll")
            assert score.score == pytest.approx(math.fsum(expected), abs=1e-5)
    assert max(pieces) > 2
