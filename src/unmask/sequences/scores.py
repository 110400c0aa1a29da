"""Results for a whole text, or for two of them, as values. Knows no model."""

from dataclasses import dataclass

from unmask.results import ModelResult


@dataclass(frozen=True)
class WordScore(ModelResult):
    """One word's part of a score; its surprisal is `-log_prob`.

    `start` and `end` are characters of the text, -1 where the tokenizer keeps no offsets. A word
    that `is_unknown` has a part that the vocabulary has no token for: its `log_prob` is that of the
    unknown token there.

    Examples:
        >>> word = lm.score("Two dogs are running.").words[1]
        >>> word.text, word.start, word.pieces
        ('dogs', 4, 1)
    """

    text: str
    start: int
    end: int
    pieces: int
    log_prob: float
    is_unknown: bool = False


@dataclass(frozen=True)
class TextScore(ModelResult):
    """The score of a text, in nats, to which its `words` add up.

    By `unmasking` it is a log-probability, and `order` the order of the tokens; by the other
    methods it is not, and `order` is None. By `elbo` it is an estimate, and `standard_error` that
    of its mean over draws; None with one draw, and by the other methods. `unknown_tokens` counts
    the tokens that the vocabulary does not know: their part of the score is that of the unknown
    token. `special_tokens` counts special tokens that are written in the text: the model reads them
    as such, and all but the unknown token have no part of the score. `likeliest_tokens` counts
    those that no other token beat where they were scored; None by `elbo`.

    Examples:
        >>> score = lm.score("Two dogs are running.")
        >>> score.tokens, round(score.per_token, 2), score.likeliest_tokens
        (5, -0.95, 3)
    """

    text: str
    method: str
    score: float
    tokens: int
    words: tuple[WordScore, ...]
    forward_passes: int
    unknown_tokens: int = 0
    order: str | None = None
    standard_error: float | None = None
    likeliest_tokens: int | None = None
    special_tokens: int = 0

    @property
    def per_token(self) -> float:
        """The score per token."""
        return self.score / self.tokens


@dataclass(frozen=True)
class LogRatio(ModelResult):
    """The logarithm of p(first) / p(second), in nats; by `pll*` and `elbo` a difference of scores.

    `log_ratio` is None if there is none, and `reason` then explains why. `standard_error` is that
    of the mean over orders or draws, None with one, and by methods without. `places` are the
    positions where the texts differ, None if they have different numbers of tokens. `method` is how
    the two were compared, `order` the order of the tokens by `unmasking`.

    Examples:
        >>> (ratio,) = lm.log_ratios([("Two dogs run.", "Two dogs are running.")])
        >>> ratio.reason
        'the texts have 4 and 5 tokens; hcb-path compares texts with equally many'
    """

    log_ratio: float | None
    standard_error: float | None
    orders: int
    places: int | None
    forward_passes: int
    reason: str | None = None
    method: str | None = None
    order: str | None = None
