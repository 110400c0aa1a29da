"""minicons and unmask give the same numbers."""

import itertools
from typing import Any

import pytest
from assets import real_data

from unmask import LanguageModel, Settings
from unmask.sequences.blimp import read_blimp

QUIET = Settings(progress=False)
# what the other tool calls both methods
METRICS = {"pll": "original", "pll-word-l2r": "within_word_l2r"}
TEXTS_AT_ONCE = 8


def minicons_scorer(lm: LanguageModel) -> Any:
    """Its scorer of masked models; minicons 0.3.39 calls what transformers 5 has no more."""
    from minicons.scorer import MaskedLMScorer

    network: Any = lm.model
    tokenizer: Any = lm.tokenizer
    tokenizer.batch_encode_plus = tokenizer.__call__
    return MaskedLMScorer(network.model, "cpu", tokenizer=tokenizer)


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    folder = real_data("blimp/causative.jsonl").parent
    pairs = read_blimp(str(folder), limit=2)
    return [str(pair[side]) for pair in pairs for side in ("sentence_good", "sentence_bad")][:200]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.assets("200 sentences of BLiMP")
@pytest.mark.parametrize("method", METRICS)
@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.long)])
def test_scores_of_sentences_and_tokens(
    tiny_english: LanguageModel, sentences: list[str], method: str, one_in: int
) -> None:
    assert len(set(sentences)) == 200
    sentences = sentences[::one_in]
    other, metric = minicons_scorer(tiny_english), METRICS[method]
    scores = tiny_english.score(sentences, method=method, settings=QUIET)
    split = 0
    for start in range(0, len(sentences), TEXTS_AT_ONCE):
        some = sentences[start : start + TEXTS_AT_ONCE]
        sums = other.sequence_score(some, reduction=lambda x: x.sum(0).item(), PLL_metric=metric)
        tokens = other.token_score(some, PLL_metric=metric)
        for text, total, by_token in zip(some, sums, tokens, strict=True):
            score = scores[sentences.index(text)]
            assert score.score == pytest.approx(total, abs=3e-5)
            assert score.tokens == len(by_token)
            ends = list(itertools.accumulate((word.pieces for word in score.words), initial=0))
            for word, (low, high) in zip(score.words, itertools.pairwise(ends), strict=True):
                own = sum(value for _, value in by_token[low:high])
                assert word.log_prob == pytest.approx(own, abs=3e-5), (text, word.text)
                split += word.pieces > 1
    # otherwise both methods were the same
    assert split > 50 // one_in


@pytest.mark.real
def test_a_continuation_is_a_conditional_score(tiny_english: LanguageModel) -> None:
    other, total = minicons_scorer(tiny_english), {"reduction": lambda x: x.sum(0).item()}
    items = [("Two dogs are", "running fast .", "They are black."), ("A man", "sleeps", "today .")]
    for method, metric in METRICS.items():
        for item in items:
            prefix, text, suffix = item
            for given, parts in ((prefix, item[:2]), ((prefix, suffix), item)):
                score = tiny_english.score(text, given=given, separator=" ", method=method)
                columns: Any = [[part] for part in parts]
                (value,) = other.conditional_score(*columns, PLL_metric=metric, **total)
                assert score.score == pytest.approx(value, abs=3e-5)
