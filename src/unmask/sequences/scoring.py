"""Whole texts and pairs of texts scored by a masked language model.

Forward passes of all texts run together, in batches of equal length, so that none is padded. What a
text or a pair gets does not depend on what else is in the call, nor on the batches.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from unmask.arguments import as_list, check_numbers
from unmask.errors import ClozeError, MethodError
from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.names import DRAWS, ORDERS_OF_PATHS, PAIR_METHODS, TEXT_METHODS
from unmask.printable import quoted
from unmask.queries.joint_model import JointModel
from unmask.sequences.elbo import elbo_scores
from unmask.sequences.paths import Pair, differing_places, path_log_ratios
from unmask.sequences.pll import pseudo_log_likelihoods
from unmask.sequences.scores import LogRatio, TextScore
from unmask.sequences.texts import Given, TokenisedText, contexts, in_context, tokenised
from unmask.sequences.unmasking import DEFAULT_ORDER, ORDERS, unmasking_log_probs
from unmask.settings import Settings
from unmask.text.unknown_tokens import warn_of_texts


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
    if method not in TEXT_METHODS:
        raise MethodError(f"no method {quoted(method)}; methods: {', '.join(TEXT_METHODS)}")
    if method == "pll-word-l2r" and not lm.tokenizer.is_fast:
        raise MethodError(
            "this tokenizer keeps no character offsets, so pll-word-l2r does not know its words; "
            "use pll"
        )
    check_numbers(draws=draws, seed=seed)
    order = checked_order(order, [method])
    reader, scores = RowReader(lm.model, Settings.of(settings)), list[TextScore]()
    score: Callable[[list[TokenisedText]], list[TextScore]]
    if order is not None:
        score = partial(unmasking_log_probs, reader, order=order)
    elif method == "elbo":
        score = partial(elbo_scores, reader, draws=draws, seed=seed)
    else:
        score = partial(pseudo_log_likelihoods, reader, method=method)
    with reader.counted(method):
        for window in tokenised(lm, texts):
            unknown = [text.unknown for text in window]
            warn_of_texts(lm.tokenizer, unknown, [text.special for text in window])
            scores += run_by_shape(
                reader,
                window,
                lambda text: Shape(
                    length=len(text.ids),
                    rows=draws if method == "elbo" else len(text.places),
                    numbers=len(text.places),
                    alike=(len(text.places),),
                ),
                score,
            )
    return scores


def log_ratios(
    lm: JointModel,
    pairs: Sequence[tuple[str, str]] | Sequence[Pair],
    *,
    method: str = "hcb-path",
    order: str | None = None,
    draws: int | None = None,
    seed: int = 0,
    given: Given | Sequence[Given] | None = None,
    separator: str = "",
    settings: Settings | None = None,
) -> list[LogRatio]:
    """`LanguageModel.log_ratios`, also of texts that were tokenised before."""
    if method not in PAIR_METHODS:
        raise MethodError(f"no method {quoted(method)}; methods: {', '.join(PAIR_METHODS)}")
    if draws is None:
        draws = ORDERS_OF_PATHS if method == "hcb-path" else DRAWS
    check_numbers(draws=draws, seed=seed)
    order = checked_order(order, [method])
    pairs = as_list(pairs)
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise ClozeError(f"pairs is a list of two texts each, not {quoted(pairs)}")
    every = None if given is None else contexts(given, len(pairs), "pairs")
    # both texts of a pair have one context
    each = every and [context for context in every for _ in range(2)]
    texts: list[Any] = []
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ClozeError(
                f"pair {number} is two texts, not {quoted(pair)}; give a list of pairs: "
                "lm.log_ratios([(first, second)])"
            )
        texts += pair
    ratios: list[LogRatio] = []
    for window in tokenised(lm, in_context(texts, each, separator), _name_in_pair):
        text_pairs = list(zip(window[::2], window[1::2], strict=True))
        if method == "hcb-path":
            ratios += path_log_ratios(lm, text_pairs, orders=draws, seed=seed, settings=settings)
        else:
            scores = score_texts(
                lm, window, method=method, order=order, draws=draws, seed=seed, settings=settings
            )
            ratios += _differences(scores, text_pairs)
    return [replace(ratio, method=method, order=order) for ratio in ratios]


def _differences(scores: Sequence[TextScore], pairs: list[Pair]) -> list[LogRatio]:
    """Differences of both texts' scores; scores by `elbo` have independent draws and errors."""
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
    if not isinstance(wanted, str) or wanted not in ORDERS:
        raise MethodError(f"no order {quoted(order)}; orders of unmasking: {', '.join(ORDERS)}")
    return wanted


def _name_in_pair(number: int) -> str:
    return f"the {('first', 'second')[number % 2]} text of pair {number // 2}"
