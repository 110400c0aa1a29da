"""One way to fill the blanks."""

import math
from dataclasses import dataclass

from unmask.printable import quoted
from unmask.results import ModelResult


@dataclass(frozen=True)
class Fill(ModelResult):
    """Tokens that fill the blanks together, with their log-probability.

    `error` is its standard error, in nats, if it was estimated from a sketch.

    Examples:
        >>> fill = joint.top(1)[0]
        >>> fill.tokens, round(fill.probability, 4)
        (('people', 'outside'), 0.0376)
    """

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    log_prob: float
    error: float | None = None

    def __repr__(self) -> str:
        """The tokens and their probability, on one line."""
        text = f"{self.probability:.4g}"
        if self.probability_error is not None:
            text += f" +- {self.probability_error:.2g}"
        return f"Fill({' '.join(map(quoted, self.tokens))}, probability={text})"

    @property
    def probability(self) -> float:
        """The probability itself; 0.0 if it is too small for a float."""
        return math.exp(self.log_prob)

    @property
    def probability_error(self) -> float | None:
        """The standard error of the probability, if it was estimated."""
        return None if self.error is None else self.probability * self.error

    def written(self, digits: int = 4) -> str:
        """The probability with so many decimals, if it shows, and its standard error."""
        text, error = f"{self.probability:.{digits}f}", self.probability_error
        if not float(text):
            text = f"{self.probability:.2g}"
        return text if error is None else f"{text} +- {error:.1g}"

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "tokens": list(self.tokens),
            "ids": list(self.ids),
            "log_prob": self.log_prob,
            "probability": self.probability,
            **({} if self.error is None else {"standard_error": self.error}),
        }
