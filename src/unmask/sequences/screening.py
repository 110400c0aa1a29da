"""Many texts of which a model may not take all: those get a reason, the others their scores."""

from collections.abc import Sequence

from unmask.errors import ClozeError
from unmask.language_model import LanguageModel
from unmask.printable import quoted
from unmask.sequences.outputs import Unscored
from unmask.sequences.scores import LogRatio, TextScore
from unmask.sequences.scoring import PairScorer, TextScorer
from unmask.sequences.texts import tokenised


def score_most(
    lm: LanguageModel, texts: Sequence[str], score: TextScorer, *, method: str
) -> list[TextScore | Unscored]:
    """The scores of texts, but one that the model cannot take does not stop the others."""
    rejected = _rejected(lm, texts)
    taken = [text for text in texts if text not in rejected]
    scores = iter(score(taken) if taken else [])
    return [
        Unscored(text, method, rejected[text]) if text in rejected else next(scores)
        for text in texts
    ]


def compare_most(
    lm: LanguageModel, pairs: Sequence[tuple[str, str]], compare: PairScorer
) -> list[LogRatio]:
    """The log-ratios of pairs; one with a text that the model cannot take is not compared."""
    rejected = _rejected(lm, [text for pair in pairs for text in pair])
    taken = [pair for pair in pairs if not rejected.keys() & set(pair)]
    ratios = iter(compare(taken) if taken else [])
    return [
        LogRatio(None, None, 0, None, 0, _reason(rejected, pair))
        if rejected.keys() & set(pair)
        else next(ratios)
        for pair in pairs
    ]


def _reason(rejected: dict[str, str], pair: tuple[str, str]) -> str:
    return next(rejected[text] for text in pair if text in rejected)


def _rejected(lm: LanguageModel, texts: Sequence[str]) -> dict[str, str]:
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
