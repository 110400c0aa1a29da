"""Random words at random blanks: pieces that spell all of the word, or one line of refusal."""

import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from assets import real_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentence_piece import sentence_piece
from tiny_tokenizers import byte_level, word_piece
from transformers import AutoTokenizer

from unmask import UnmaskError
from unmask.text.cloze import parse_cloze
from unmask.text.word_pieces import pieces_in_context

EXAMPLES = 250

# Latin letters and whole words most of all, so that many have pieces
words = st.lists(
    st.sampled_from(
        (
            *("man", "cat", "happy", "un", "able", "s", "ly", "the", "Man", "ING"),
            *"abcdeghiklmnoprstuvwz",
            *("é", "e\u0301", "ü", "ñ", "ß", "İ", "7", "42", "-", ".", "'", " "),
            *("日", "本", "中", "é", "ﬁ", "Å", "😀", "👩\u200d👧", "\x00", "\u200b", "\u202e"),
        )
    ),
    min_size=1,
    max_size=6,
).map("".join)
START, SPACED, GLUED, BEFORE, BETWEEN = "{} is", "the {} is", "un{} is", "the {}s is", "un{}s"
contexts = st.sampled_from((START, SPACED, GLUED, BEFORE, BETWEEN))


def squeezed(text: str) -> str:
    return "".join(text.split())


def bare(text: str) -> str:
    """Without the accents."""
    apart = unicodedata.normalize("NFD", text)
    return "".join(ch for ch in apart if unicodedata.category(ch) != "Mn")


def without_controls(text: str) -> str:
    """As BERT cleans a text: nothing that Unicode counts as "other"."""
    kept = (ch for ch in text if ch.isspace() or not unicodedata.category(ch).startswith("C"))
    return squeezed("".join(kept))


def plain(text: str) -> str:
    return bare(without_controls(text)).lower()


def compatible(text: str) -> str:
    return squeezed(bare(unicodedata.normalize("NFKD", text))).lower()


def word_piece_text(tokenizer, ids) -> str:
    # with a word before them, pieces that go on lose their marks
    anchor = tokenizer.convert_tokens_to_ids("a")
    return squeezed(tokenizer.decode([anchor, *ids])).removeprefix("a")


def decoded_text(tokenizer, ids) -> str:
    return squeezed(tokenizer.decode(ids))


def check_start(tokenizer, context: str, word: str, first: str) -> None:
    """The first piece is marked as the start of a word exactly where a word starts."""
    if not word[0].isascii() or not word[0].isalpha():
        return
    if tokenizer.backend_tokenizer.decoder.__class__.__name__ == "WordPiece":
        assert first.startswith("##") == context.startswith("un{}")
    elif first[0] in "▁Ġ":
        assert not context.startswith("un{}")
        assert first[0] == "▁" or context.startswith("the ")
    else:
        assert context.startswith("un{}") or (context == START and "▁the" not in tokenizer.vocab)


def check_refusal(error: UnmaskError) -> None:
    assert str(error).isprintable()


def outcome(tokenizer, context: str, word: str, spelled: Callable, normal: Callable) -> str:
    cloze = parse_cloze(context.format(tokenizer.mask_token), tokenizer)
    try:
        (found,) = pieces_in_context(tokenizer, cloze, 0, [word])
    except UnmaskError as error:
        check_refusal(error)
        return "refused"
    ids = list(found.ids)
    assert found.word == word
    assert not set(ids) & set(tokenizer.all_special_ids)
    assert spelled(tokenizer, ids) == normal(word)
    check_start(tokenizer, context, word, tokenizer.convert_ids_to_tokens(ids)[0])
    # nothing grows together across a space: there, it is the tokenised text
    if context in (START, SPACED):
        filled = cloze.with_widths([len(ids)]).filled(ids)
        typed = context.format(word.removeprefix(" ") if context == SPACED else word)
        assert filled == tokenizer(typed)["input_ids"]
    return "one" if len(ids) == 1 else "several"


def check_words(tokenizer, spelled: Callable, normal: Callable, least: dict[str, int]) -> None:
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(contexts, words)
    def check(context, word):
        outcomes[outcome(tokenizer, context, word, spelled, normal)] += 1

    check()
    # every kind of outcome often: otherwise nothing was shown
    assert all(outcomes[kind] >= count for kind, count in least.items()), outcomes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokenizer", "spelled", "normal"),
    [
        (word_piece(), word_piece_text, plain),
        (byte_level(), decoded_text, squeezed),
        (sentence_piece(), decoded_text, compatible),
        (sentence_piece(prepend="first"), decoded_text, compatible),
    ],
    ids=["wordpiece", "byte-level", "sentencepiece", "sentencepiece-first"],
)
def test_words_of_tiny_vocabularies(tokenizer: Any, spelled, normal):
    check_words(tokenizer, spelled, normal, {"refused": 5, "one": 3, "several": 3})


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("tiny-english", without_controls),
        pytest.param(
            "albert-tiny-chinese", plain, marks=pytest.mark.assets("a vocabulary of characters")
        ),
    ],
)
def test_words_of_real_vocabularies(name, normal):
    tokenizer = AutoTokenizer.from_pretrained(real_model(name))
    check_words(tokenizer, word_piece_text, normal, {"refused": 10, "one": 10, "several": 50})
