"""Whole texts and pairs of texts scored by a masked language model.

Forward passes of all texts run together, in batches of equal length, so that none is padded. What a
text or a pair gets does not depend on what else is in the call, nor on the batches.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from unmask.errors import ClozeError, MethodError
from unmask.model.row_reader import RowReader
from unmask.names import DRAWS, PAIR_METHODS, TEXT_METHODS
from unmask.printable import quoted
from unmask.queries.joint_model import JointModel
from unmask.sequences.elbo import elbo_scores
from unmask.sequences.paths import Pair, check_drawing, differing_places, path_log_ratios
from unmask.sequences.pll import pseudo_log_likelihoods
from unmask.sequences.scores import LogRatio, TextScore
from unmask.sequences.texts import Given, TokenisedText, contexts, in_context, tokenised
from unmask.sequences.unmasking import DEFAULT_ORDER, ORDERS, unmasking_log_probs
from unmask.settings import Settings
from unmask.text.unknown_tokens import warn_of_special, warn_of_texts


def score_texts(
    lm: JointModel,
    texts: Sequence[str] | Sequence[TokenisedText],
    *,
    method: str = "pll",
    order: str | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    settings: Settings | None = None,
) -> list[TextScore]:
    """`LanguageModel.score` of a list of texts, also of texts that were tokenised before."""
    _check(lm, method, TEXT_METHODS)
    score = _scorer(method, order, draws, seed)
    scores: list[TextScore] = []
    reader = RowReader(lm.model, settings or Settings())
    with reader.counted(method):
        for window in tokenised(lm, texts):
            warn_of_texts(lm.tokenizer, [text.unknown for text in window])
            warn_of_special([text.special for text in window])
            scores += score(reader, window)
    return scores


def log_ratios(
    lm: JointModel,
    pairs: Sequence[tuple[str, str]] | Sequence[Pair],
    *,
    method: str = "hcb-path",
    orders: int = 8,
    draws: int = DRAWS,
    seed: int = 0,
    order: str | None = None,
    settings: Settings | None = None,
) -> list[LogRatio]:
    """`LanguageModel.log_ratios`, also of texts that were tokenised before."""
    _check(lm, method, PAIR_METHODS)
    order = checked_order(order, [method])
    check_drawing(orders=orders)
    score = _scorer(method, order, draws, seed)
    texts = [text for number, pair in enumerate(_as_list(pairs)) for text in _two(pair, number)]
    ratios: list[LogRatio] = []
    reader = RowReader(lm.model, settings or Settings())
    with reader.counted(method):
        for window in tokenised(lm, texts, _name_in_pair):
            warn_of_texts(lm.tokenizer, [text.unknown for text in window])
            warn_of_special([text.special for text in window])
            both = list(zip(window[::2], window[1::2], strict=True))
            if method == "hcb-path":
                ratios += path_log_ratios(reader, both, orders=orders, seed=seed)
            else:
                ratios += _differences(score(reader, window), both)
    return [replace(ratio, method=method, order=order) for ratio in ratios]


def pairs_in_context(
    pairs: Sequence[tuple[str, str]], given: Given | Sequence[Given] | None, separator: str
) -> Sequence[tuple[str, str]]:
    """Pairs with what both texts of each are given; a list has one for each pair."""
    if given is None:
        in_context((), None, separator)
        return pairs
    each = contexts(given, len(_as_list(pairs)), "pairs")
    made = (
        in_context(_two(pair, number), context, separator)
        for number, (pair, context) in enumerate(zip(pairs, each, strict=True))
    )
    return [(first, second) for first, second in made]


Scorer = Callable[[RowReader, Sequence[TokenisedText]], list[TextScore]]


def _scorer(method: str, order: object, draws: int, seed: int) -> Scorer:
    """The function that scores texts by a method, its options checked."""
    check_drawing(draws=draws, seed=seed)
    if unmasking_order := checked_order(order, [method]):
        return partial(unmasking_log_probs, order=unmasking_order)
    if method == "elbo":
        return partial(elbo_scores, draws=draws, seed=seed)
    return partial(pseudo_log_likelihoods, method=method)


def _differences(scores: Sequence[TextScore], pairs: list[Pair]) -> list[LogRatio]:
    """Of the scores of both texts; those by `elbo` have draws, and errors, of their own."""
    return [
        LogRatio(
            first.score - second.score,
            None
            if first.standard_error is None or second.standard_error is None
            else math.hypot(first.standard_error, second.standard_error),
            0,
            differing_places(pair),
            first.forward_passes + second.forward_passes,
        )
        for pair, first, second in zip(pairs, scores[::2], scores[1::2], strict=True)
    ]


# --- what is rejected --------------------------------------------------------------------------


def _check(lm: JointModel, method: object, methods: tuple[str, ...]) -> None:
    if method not in methods:
        raise MethodError(f"no method {quoted(method)}; methods: {', '.join(methods)}")
    if method == "pll-word-l2r" and not lm.tokenizer.is_fast:
        raise MethodError(
            "this tokenizer keeps no character offsets, so pll-word-l2r does not know its words; "
            "use pll"
        )


def checked_order(order: object, methods: Sequence[str]) -> str | None:
    """The order of unmasking, if that is among the methods; an order of another is rejected."""
    if "unmasking" not in methods:
        if order is not None:
            raise MethodError(
                f"an order is for unmasking, not for {', '.join(methods)}; leave it out, or name "
                "unmasking"
            )
        return None
    wanted = DEFAULT_ORDER if order is None else order
    for name in ORDERS:
        if wanted == name:
            return name
    raise MethodError(f"no order {quoted(order)}; orders of unmasking: {', '.join(ORDERS)}")


def _as_list(pairs: object) -> Sequence[object]:
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise ClozeError(f"pairs is a list of two texts each, not {quoted(pairs)}")
    return pairs


def _two(pair: object, number: int) -> Sequence[str]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ClozeError(f"pair {number} is two texts, not {quoted(pair)}")
    return pair


def _name_in_pair(number: int) -> str:
    return f"the {('first', 'second')[number % 2]} text of pair {number // 2}"
