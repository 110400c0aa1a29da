"""Example texts in the language of the model."""

import math
from collections.abc import Sequence

import unmask
from unmask.demo.question import DemoQuestion
from unmask.demo.words import pieces


def _example(text: str, *words: str) -> DemoQuestion:
    """The text with these words blank, each the first of its kind."""
    texts = [piece.text for piece in pieces(text, "[MASK]")]
    return DemoQuestion(text, tuple(sorted(texts.index(word) for word in words)))


_LANGUAGES = (
    (
        _example("Two men are playing football on the beach.", "men", "football"),
        _example("A woman in a red dress is sitting on a bench.", "woman", "dress"),
        _example("The dog is running in the snow.", "dog", "running", "snow"),
    ),
    (
        _example("今天天氣很好，我們去公園玩。", "公", "園"),
        _example("我喜歡在家裡看電影。", "電", "影"),
        _example("他是一个很好的老师。", "老", "师"),
    ),
    (
        _example("E V Q L V E S G G G L V Q P G G S L R L S C A A S G F", "E", "S"),
        _example("M K T A Y I A K Q R Q I S F V K S H F S R Q", "K", "Y"),
    ),
)


def label(example: DemoQuestion) -> str:
    """The text as a button shows it."""
    # blanks beside each other stay two
    shown = " ".join(example.blanked(" ____ ").text.split())
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def examples_for(lm: unmask.LanguageModel) -> Sequence[DemoQuestion]:
    """The examples that this model reads best: no unknown tokens, and the fewest per word."""
    return min(_LANGUAGES, key=lambda examples: _strangeness(lm, examples[0].text))


def _strangeness(lm: unmask.LanguageModel, text: str) -> float:
    """Tokens per word or mark of punctuation, unknown ones counted tenfold; infinite if none."""
    ids = [int(token) for token in lm.tokenizer(text)["input_ids"]]
    unknown = sum(token == lm.tokenizer.unk_token_id for token in ids)
    ordinary = sum(token not in lm.tokenizer.all_special_ids for token in ids)
    words = sum(bool(piece.text.strip()) for piece in pieces(text, "[MASK]"))
    return (ordinary + 10 * unknown) / words if ordinary else math.inf
