"""Many texts of which a model may not take all: those get a reason, the others their scores."""

from collections.abc import Sequence
from typing import Any

from unmask.errors import ClozeError, UnmaskError
from unmask.language_model import LanguageModel
from unmask.printable import quoted
from unmask.sentences.outputs import Unscored
from unmask.sentences.scores import LogRatio, TextScore
from unmask.sentences.scoring import log_ratios, score_texts
from unmask.sentences.texts import tokenised


def score_most(
    lm: LanguageModel, texts: Sequence[str], *, method: str, **how: Any
) -> list[TextScore | Unscored]:
    """As `score_texts`, but a text that the model cannot take does not stop the others.

    Where it takes none, the first reason is an error.
    """
    refused = _refused(lm, texts)
    taken = [text for text in texts if text not in refused]
    if not taken:
        raise UnmaskError(f"none of the texts ({len(texts)}) can be scored: {refused[texts[0]]}")
    scores = iter(score_texts(lm, taken, method=method, **how))
    return [
        Unscored(text, method, refused[text]) if text in refused else next(scores) for text in texts
    ]


def compare_most(
    lm: LanguageModel, pairs: Sequence[tuple[str, str]], *, method: str, **how: Any
) -> list[LogRatio]:
    """As `log_ratios`, but a text that the model cannot take has its pair not compared."""
    refused = _refused(lm, [text for pair in pairs for text in pair])
    taken = [pair for pair in pairs if not refused.keys() & set(pair)]
    ratios = iter(log_ratios(lm, taken, method=method, **how) if taken else [])
    return [
        LogRatio(None, None, 0, None, 0, _reason(refused, pair))
        if refused.keys() & set(pair)
        else next(ratios)
        for pair in pairs
    ]


def _reason(refused: dict[str, str], pair: tuple[str, str]) -> str:
    return next(refused[text] for text in pair if text in refused)


def _refused(lm: LanguageModel, texts: Sequence[str]) -> dict[str, str]:
    """The texts that this model cannot take, and why; one by one only where there are some."""
    if _why_not(lm, texts) is None:
        return {}
    reasons = {text: _why_not(lm, [text]) for text in dict.fromkeys(texts)}
    return {text: why for text, why in reasons.items() if why is not None}


def _why_not(lm: LanguageModel, texts: Sequence[str]) -> str | None:
    try:
        for _ in tokenised(lm, texts):
            pass
    except ClozeError as error:
        # one alone has no number, and stands beside its reason
        said = str(error).removesuffix(f": {quoted(texts[0])}")
        return said.replace("text 0: ", "").replace("text 0 ", "the text ")
    return None
