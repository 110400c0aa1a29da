"""Fills as transformers' fill-mask writes them, with lists where there are several blanks."""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

from unmask.joints.fill import Fill
from unmask.queries.word_targets import WordFill
from unmask.text.cloze import Cloze, Tokenizer


def of_tokens(
    tokenizer: Tokenizer, cloze: Cloze, fills: Sequence[Fill], method: str
) -> list[dict[str, Any]]:
    """Ranked fills of a joint: a token per blank, or a list of them where a blank is wider.

    `method` is the construction of the joint, which the score depends on; `mlm`, the model's own
    distribution, where there is one blank. `score_error` is the standard error of an estimate.
    """
    results = []
    for fill in fills:
        tokens: list[Any] = list(fill.ids)
        if cloze.widths is not None:
            rest = iter(fill.ids)
            tokens = [list(islice(rest, width)) for width in cloze.widths]
        result = _result(tokenizer, cloze, tokens, fill.log_prob, method)
        if fill.error is not None:
            result["score_error"] = fill.probability_error
        results.append(result)
    return results


def of_words(tokenizer: Tokenizer, fills: Sequence[WordFill], method: str) -> list[dict[str, Any]]:
    """Ranked fills by words, with their assumptions beside the score.

    `log_prob` is that of the words given their numbers of pieces, plus that of these numbers.
    """
    if all(len(fill.cloze.positions) == 1 for fill in fills):
        # with one blank there is nothing to construct
        method = "mlm"
    results = []
    for fill in fills:
        ids = [list(word.ids) for word in fill.words]
        tokens = [word[0] if len(word) == 1 else word for word in ids]
        log_prob = fill.log_prob + fill.log_prior
        results.append(
            {
                **_result(tokenizer, fill.cloze, tokens, log_prob, method),
                "word": _single([word.word for word in fill.words]),
                "pieces": _single([len(word) for word in ids]),
                "log_prob_given_pieces": fill.log_prob,
                "log_prior_of_pieces": fill.log_prior,
            }
        )
    return results


def _result(
    tokenizer: Tokenizer, cloze: Cloze, tokens: list[Any], log_prob: float, method: str
) -> dict[str, Any]:
    words = [ids if isinstance(ids, list) else [ids] for ids in tokens]
    filled = cloze.filled([token for ids in words for token in ids])
    return {
        # a probability, which is 0.0 where it is too small for a float
        "score": math.exp(log_prob),
        "token": _single(tokens),
        "token_str": _single([tokenizer.decode(ids) for ids in words]),
        "sequence": tokenizer.decode(filled, skip_special_tokens=True),
        "log_prob": log_prob,
        "method": method,
    }


def _single(each: list[Any]) -> Any:
    return each[0] if len(each) == 1 else each
