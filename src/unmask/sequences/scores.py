"""What is known of a whole text, or of two of them, as values. Knows no model."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class WordScore:
    """One word's part of a score; its surprisal is `-log_prob`.

    `start` and `end` are characters of the text, -1 where the tokenizer keeps no offsets.
    """

    text: str
    start: int
    end: int
    pieces: int
    log_prob: float

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "pieces": self.pieces,
            "log_prob": _number(self.log_prob),
        }


@dataclass(frozen=True)
class TextScore:
    """The score of a text, in nats.

    By `pll` and `pll-word-l2r` it is a score, not a log-probability, and `words` add up to it. By
    `log-pool` it is an estimate of log p(text | its number of tokens), with the log-probability of
    that number added where a length prior was given; then `log_lower` and `log_upper` hold the
    exact value with the confidence that was asked for, infinite where nothing bounds it.

    `forward_passes` are the rows of the model that the text took. What `log-pool` spends on its
    normaliser is `normaliser_passes`: once for all texts of one length. `unknown_tokens` counts the
    tokens that the vocabulary does not know: their part of the score is that of the unknown token.
    """

    text: str
    method: str
    score: float
    tokens: int
    words: tuple[WordScore, ...]
    forward_passes: int
    log_lower: float | None = None
    log_upper: float | None = None
    normaliser_passes: int = 0
    unknown_tokens: int = 0

    @property
    def per_token(self) -> float:
        """The score a token."""
        return self.score / self.tokens

    def to_dict(self) -> dict[str, object]:
        """JSON-ready: what is infinite becomes None, and `unbounded` says so for the interval."""
        found: dict[str, object] = {
            "text": self.text,
            "method": self.method,
            "score": _number(self.score),
            "tokens": self.tokens,
            "unknown_tokens": self.unknown_tokens,
            "forward_passes": self.forward_passes,
        }
        if self.words:
            found["words"] = [word.to_dict() for word in self.words]
        return found | _interval(self.log_lower, self.log_upper, self.normaliser_passes)


@dataclass(frozen=True)
class LogRatio:
    """The logarithm of p(first) / p(second), in nats; by `pll*` a difference of scores.

    `log_ratio` is None where `reason` says why it cannot be had. `standard_error` is that of the
    mean over orders, None with one order. `places` are the positions where the texts differ, None
    where they do not have equally many tokens. Where normalisers were estimated, `log_lower` and
    `log_upper` hold the exact value with the confidence that was asked for, and
    `normaliser_passes` are the rows that they took, once for all texts of these lengths. `method`
    says how the two were compared.
    """

    log_ratio: float | None
    standard_error: float | None
    orders: int
    places: int | None
    forward_passes: int
    reason: str | None = None
    log_lower: float | None = None
    log_upper: float | None = None
    normaliser_passes: int = 0
    method: str | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready: what is infinite becomes None, and `unbounded` says so for the interval."""
        found: dict[str, object] = {
            "method": self.method,
            "log_ratio": _number(self.log_ratio),
            "standard_error": _number(self.standard_error),
            "orders": self.orders,
            "places": self.places,
            "forward_passes": self.forward_passes,
        }
        if self.reason is not None:
            found["reason"] = self.reason
        return found | _interval(self.log_lower, self.log_upper, self.normaliser_passes)


def _interval(lower: float | None, upper: float | None, passes: int) -> dict[str, object]:
    if lower is None or upper is None:
        return {}
    found: dict[str, object] = {
        "log_lower": _number(lower),
        "log_upper": _number(upper),
        "normaliser_passes": passes,
    }
    if not (math.isfinite(lower) and math.isfinite(upper)):
        found["unbounded"] = True
    return found


def _number(value: float | None) -> float | None:
    # JSON has no infinity
    return value if value is not None and math.isfinite(value) else None
