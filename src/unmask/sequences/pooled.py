"""Scores and log-ratios by a pool of orders: log-probabilities given the number of tokens."""

import math
from collections.abc import Sequence

from unmask.sequences.lengths import LengthPrior
from unmask.sequences.order_pool import Normaliser, OrderPool
from unmask.sequences.paths import Pair, differing_places
from unmask.sequences.scores import LogRatio, TextScore
from unmask.sequences.texts import TokenisedText


def pooled_scores(
    pool: OrderPool, texts: Sequence[TokenisedText], prior: LengthPrior | None
) -> list[TextScore]:
    """log p(text | its length), and the length's log-probability where there is a prior."""
    found = []
    for text, log_mean in zip(texts, pool.log_means(texts), strict=True):
        tokens, scale = len(text.places), _normaliser(pool, text)
        log_length = prior.log_prob(tokens) if prior else 0.0
        log_joint = log_mean + log_length
        lower, upper = scale.interval()
        found.append(
            TextScore(
                text.text,
                "log-pool",
                # no text is likelier than its length, whatever the samples say
                min(log_joint - scale.log_z, log_length),
                tokens,
                (),
                pool.walks(tokens).rows,
                log_lower=log_joint - upper,
                # minus infinity for a length that cannot occur, even where nothing bounds Z
                log_upper=_upper(log_joint, lower, log_length),
                normaliser_passes=scale.forward_passes,
            )
        )
    return found


def _upper(log_joint: float, log_z: float, log_length: float) -> float:
    """Where samples bound Z, the text's length bounds the text too; where not, nothing is said."""
    if log_joint == -math.inf:
        return log_joint
    return math.inf if log_z == -math.inf else min(log_joint - log_z, log_length)


def pooled_log_ratios(
    pool: OrderPool, pairs: Sequence[Pair], prior: LengthPrior | None
) -> list[LogRatio]:
    """Log-ratios of pairs; texts of one length share a normaliser, which cancels."""
    reasons = [_why_no_ratio(pair, prior) for pair in pairs]
    asked = [
        text for pair, reason in zip(pairs, reasons, strict=True) if not reason for text in pair
    ]
    log_means = iter(pool.log_means(asked))
    found = []
    for pair, reason in zip(pairs, reasons, strict=True):
        if reason:
            found.append(LogRatio(None, None, 0, differing_places(pair), 0, reason))
        else:
            log_ratio = next(log_means) - next(log_means)
            found.append(_log_ratio(pool, pair, log_ratio, prior))
    return found


def _log_ratio(
    pool: OrderPool, pair: Pair, log_ratio: float, prior: LengthPrior | None
) -> LogRatio:
    lengths = [len(text.places) for text in pair]
    walks = [pool.walks(tokens) for tokens in lengths]
    passes = sum(walk.rows for walk in walks)
    if lengths[0] == lengths[1] or prior is None:
        return LogRatio(log_ratio, None, len(walks[0].orders), differing_places(pair), passes)
    log_ratio += prior.log_prob(lengths[0]) - prior.log_prob(lengths[1])
    first, second = (_normaliser(pool, text) for text in pair)
    # both must hold at once: each may fail half as often
    each = 1 - (1 - pool.how.confidence) / 2
    (low_first, high_first), (low_second, high_second) = first.interval(each), second.interval(each)
    return LogRatio(
        log_ratio - first.log_z + second.log_z,
        None,
        pool.how.orders,
        None,
        passes,
        log_lower=log_ratio - high_first + low_second,
        log_upper=log_ratio - low_first + high_second,
        normaliser_passes=first.forward_passes + second.forward_passes,
    )


def _why_no_ratio(pair: Pair, prior: LengthPrior | None) -> str | None:
    lengths = [len(text.places) for text in pair]
    if lengths[0] == lengths[1]:
        if pair[0].template(-1) != pair[1].template(-1):
            return "the texts hold different special tokens; log-pool compares texts with the same"
        return None
    if prior is None:
        return (
            f"the texts have {lengths[0]} and {lengths[1]} tokens; log-pool compares different "
            "lengths only with a length prior"
        )
    never = next((tokens for tokens in lengths if prior.log_prob(tokens) == -math.inf), None)
    if never is None:
        return None
    return f"a text has {never} tokens, which have no probability under the prior {prior.spec}"


def _normaliser(pool: OrderPool, text: TokenisedText) -> Normaliser:
    return pool.normaliser(text.template(pool.reader.mask_id))
