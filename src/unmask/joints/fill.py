"""One way to fill the blanks, and the ranking of many without sorting them all."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.printable import quoted


@dataclass(frozen=True)
class Fill:
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


def best_cells(
    tiles: Iterable[tuple[slice, Tensor]], n: int
) -> list[tuple[tuple[int, ...], float]]:
    """The `n` highest cells over tiles of rows: (index along every axis, score), best first."""
    best: list[tuple[float, tuple[int, ...]]] = []
    for rows, tile in tiles:
        floor = best[-1][0] if len(best) == n else -math.inf
        if len(best) == n and float(tile.max()) <= floor:
            continue
        places = _highest(tile.reshape(-1), n)
        for place in places.tolist():
            score = float(tile.reshape(-1)[place])
            if len(best) == n and score <= floor:
                break
            first, *others = map(int, np.unravel_index(place, tile.shape))
            best.append((score, (rows.start + first, *others)))
        # on equal scores the lower index comes first, so the ranking is the same on every machine
        best = sorted(best, key=lambda scored: (-scored[0], scored[1]))[:n]
    return [(cell, score) for score, cell in best]


def _highest(values: Tensor, n: int) -> Tensor:
    """Places of the `n` highest values in order; `topk` alone breaks ties arbitrarily."""
    if n >= values.numel():
        return torch.sort(values, descending=True, stable=True).indices
    lowest = torch.topk(values, n).values[-1]
    above = torch.nonzero(values > lowest)[:, 0]
    level = torch.nonzero(values == lowest)[: n - len(above), 0]
    chosen = torch.cat([above, level])
    return chosen[torch.sort(values[chosen], descending=True, stable=True).indices]
