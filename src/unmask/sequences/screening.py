"""Many texts of which a model may not take all: those get a reason, the others their scores."""

from collections.abc import Sequence
from typing import Any

from unmask.errors import ClozeError
from unmask.language_model import LanguageModel
from unmask.printable import quoted
from unmask.sequences.scores import LogRatio, TextScore, Unscored
from unmask.sequences.scoring import log_ratios, score_texts
from unmask.sequences.texts import tokenised


def score_valid_texts(
    lm: LanguageModel, texts: Sequence[str], *, method: str, **options: Any
) -> list[TextScore | Unscored]:
    """`score_texts`, but a text that the model cannot take does not stop the others."""
    reasons = _reasons(lm, [(text,) for text in texts])
    valid = [text for text, why in zip(texts, reasons, strict=True) if why is None]
    scores = iter(score_texts(lm, valid, method=method, **options))
    return [
        next(scores) if why is None else Unscored(text, method, why)
        for text, why in zip(texts, reasons, strict=True)
    ]


def compare_valid_pairs(
    lm: LanguageModel, pairs: Sequence[tuple[str, str]], *, method: str, **options: Any
) -> list[LogRatio]:
    """`log_ratios`, but a pair with a text that the model cannot take does not stop the others."""
    reasons = _reasons(lm, pairs)
    valid = [pair for pair, why in zip(pairs, reasons, strict=True) if why is None]
    ratios = iter(log_ratios(lm, valid, method=method, **options))
    return [
        next(ratios) if why is None else LogRatio(None, None, 0, None, 0, why, method)
        for why in reasons
    ]


def _reasons(lm: LanguageModel, groups: Sequence[tuple[str, ...]]) -> list[str | None]:
    """Why a text of each group cannot be taken, if so; texts one by one only where one cannot."""
    every = list(dict.fromkeys(text for group in groups for text in group))
    if _why_not(lm, every) is None:
        return [None] * len(groups)
    why = {text: _why_not(lm, [text]) for text in every}
    return [next((why[text] for text in group if why[text]), None) for group in groups]


def _why_not(lm: LanguageModel, texts: Sequence[str]) -> str | None:
    try:
        for _ in tokenised(lm, texts):
            pass
    except ClozeError as error:
        # one alone has no number, and stands beside its reason
        said = str(error).removesuffix(f": {quoted(texts[0])}")
        return said.replace("text 0: ", "").replace("text 0 ", "the text ")
    return None
