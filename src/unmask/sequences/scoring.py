"""Whole texts and pairs of texts scored by a masked language model.

Rows of all texts run together, in batches of equal length, so that none is padded. What a text or
a pair gets does not depend on what else is in the call, nor on how rows are batched.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from unmask.errors import ClozeError, MethodError, UnmaskError
from unmask.language_model import LanguageModel
from unmask.printable import quoted
from unmask.sequences.lengths import LengthPrior
from unmask.sequences.order_pool import OrderPool, Sampling
from unmask.sequences.paths import Pair, differing_places, path_log_ratios
from unmask.sequences.pll import pseudo_log_likelihoods
from unmask.sequences.pooled import pooled_log_ratios, pooled_scores
from unmask.sequences.scores import LogRatio, TextScore
from unmask.sequences.texts import tokenised
from unmask.sequences.token_rows import TokenReader, token_reader
from unmask.settings import Settings
from unmask.text.unknown_tokens import warn_of_texts

TEXT_METHODS = ("pll", "pll-word-l2r", "log-pool")
PAIR_METHODS = (*TEXT_METHODS, "hcb-path")

TextScorer = Callable[[Sequence[str]], list[TextScore]]
PairScorer = Callable[[Sequence[tuple[str, str]]], list[LogRatio]]


def score_texts(
    lm: LanguageModel,
    texts: Sequence[str],
    *,
    method: str = "pll",
    orders: int = 8,
    seed: int = 0,
    samples: int = 256,
    confidence: float = 0.95,
    length_prior: LengthPrior | None = None,
    settings: Settings | None = None,
) -> list[TextScore]:
    """The score of every text in nats, in the order given.

    - `pll`: the sum of every token's log-probability given all others, a row a token. A score for
      comparisons, not a log-probability.
    - `pll-word-l2r`: the same, but the later pieces of the token's word are masked with it.
    - `log-pool`: log p(text | its number of tokens) by the geometric mean of `orders` random orders
      of filling it. Its normaliser is estimated from `samples` texts, once a length, about
      orders x length rows each; `confidence` is that of the interval. With a `length_prior` the
      log-probability of the length is added.

    What the vocabulary has no token for is scored as the unknown token, with a warning, and counted
    in `unknown_tokens`.
    """
    how = Sampling(orders, seed, samples, confidence)
    with text_scorer(lm, method, how, length_prior, settings) as score:
        return score(texts)


@contextmanager
def text_scorer(
    lm: LanguageModel,
    method: str,
    how: Sampling,
    length_prior: LengthPrior | None = None,
    settings: Settings | None = None,
) -> Iterator[TextScorer]:
    """What `score_texts` does, for texts that come some at a time: a normaliser is made once."""
    _check(lm, method, TEXT_METHODS)
    _check_prior(method, length_prior)
    with token_reader(lm.model, settings or Settings(), method) as reader:
        pool = OrderPool(reader, how)

        def score(texts: Sequence[str]) -> list[TextScore]:
            found: list[TextScore] = []
            reader.start_anew()
            for window in tokenised(lm, texts):
                warn_of_texts(lm.tokenizer, [text.unknown for text in window])
                if method == "log-pool":
                    scores = pooled_scores(pool, window, length_prior)
                else:
                    scores = pseudo_log_likelihoods(reader, window, method=method)
                found += [
                    replace(score, unknown_tokens=len(text.unknown)) if text.unknown else score
                    for score, text in zip(scores, window, strict=True)
                ]
            return found

        yield score


def log_ratios(
    lm: LanguageModel,
    pairs: Sequence[tuple[str, str]],
    *,
    method: str = "hcb-path",
    orders: int = 8,
    seed: int = 0,
    samples: int = 256,
    confidence: float = 0.95,
    length_prior: LengthPrior | None = None,
    settings: Settings | None = None,
) -> list[LogRatio]:
    """log p(first) / p(second) of every pair, in the order given.

    - `hcb-path`: one row a step along `orders` random orders of the places where the texts differ;
      for texts with equally many tokens.
    - `log-pool`: for equally many tokens a difference that needs no normaliser, so `samples` and
      `confidence` play no part; otherwise it takes a `length_prior`.
    - `pll`, `pll-word-l2r`: the difference of two scores, whatever the lengths: the convention of
      minimal pairs, not a log-ratio of probabilities.
    """
    how = Sampling(orders, seed, samples, confidence)
    with pair_scorer(lm, method, how, length_prior, settings) as compare:
        return compare(pairs)


@contextmanager
def pair_scorer(
    lm: LanguageModel,
    method: str,
    how: Sampling,
    length_prior: LengthPrior | None = None,
    settings: Settings | None = None,
) -> Iterator[PairScorer]:
    """What `log_ratios` does, for pairs that come some at a time."""
    _check(lm, method, PAIR_METHODS)
    _check_prior(method, length_prior)
    with token_reader(lm.model, settings or Settings(), method) as reader:
        pool = OrderPool(reader, how)

        def compare(pairs: Sequence[tuple[str, str]]) -> list[LogRatio]:
            every = enumerate(_as_list(pairs))
            texts = [text for number, pair in every for text in _two(pair, number)]
            found: list[LogRatio] = []
            reader.start_anew()
            for window in tokenised(lm, texts, _name_in_pair):
                warn_of_texts(lm.tokenizer, [text.unknown for text in window])
                both = list(zip(window[::2], window[1::2], strict=True))
                if method == "hcb-path":
                    found += path_log_ratios(reader, both, orders=how.orders, seed=how.seed)
                elif method == "log-pool":
                    found += pooled_log_ratios(pool, both, length_prior)
                else:
                    found += _differences(reader, both, method)
            return [replace(one, method=method) for one in found]

        yield compare


def _differences(reader: TokenReader, pairs: list[Pair], method: str) -> list[LogRatio]:
    scores = pseudo_log_likelihoods(
        reader, [text for pair in pairs for text in pair], method=method
    )
    return [
        LogRatio(
            first.score - second.score,
            None,
            0,
            differing_places(pair),
            first.forward_passes + second.forward_passes,
        )
        for pair, first, second in zip(pairs, scores[::2], scores[1::2], strict=True)
    ]


# --- refusals ----------------------------------------------------------------------------------


def _check(lm: LanguageModel, method: object, methods: tuple[str, ...]) -> None:
    if method not in methods:
        raise MethodError(f"no method {quoted(method)}; methods: {', '.join(methods)}")
    if method == "pll-word-l2r" and not lm.tokenizer.is_fast:
        raise MethodError(
            "this tokenizer keeps no character offsets, so that pll-word-l2r does not know its "
            "words; take pll"
        )


def _check_prior(method: str, prior: object) -> None:
    if prior is None:
        return
    if not isinstance(prior, LengthPrior):
        raise UnmaskError(
            f"length_prior is what read_length_prior gives, or None, not {quoted(prior)}"
        )
    if method.startswith("pll"):
        raise MethodError(f"{method} is no probability and takes no length prior; log-pool does")


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
