"""Odds between two fills of the same blanks, and how far changes do not simply add up.

With wild type w and mutant m, the interaction (epistasis) is log p(m) / p(w) minus the sum, over
the blanks, of the log-odds of that change alone, all other blanks at w. For two blanks that is the
log odds ratio p(a'b') p(ab) / (p(a'b) p(ab')). Normalisers cancel in both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from unmask.errors import NumericsError, SupportError
from unmask.printable import quoted
from unmask.text.support import Support, Token, place_at_blank

Supports = Sequence[Support]
# the log-probability of a fill, by its token ids
LogProb = Callable[..., float]


@dataclass(frozen=True)
class Changes:
    """Log-odds of changes together, and of each alone (0 at a blank that stays), in nats."""

    log_odds: float
    single_log_odds: tuple[float, ...]

    @property
    def interaction(self) -> float:
        """What the changes do together beyond what they do alone."""
        return defined(self.log_odds - sum(self.single_log_odds))


def changes(
    supports: Supports, log_prob: LogProb, mutant: Sequence[Token], wildtype: Sequence[Token]
) -> Changes:
    """The log-odds of going from one fill to another, at once and one blank at a time."""
    after, before = fill_ids(supports, mutant, "mutant"), fill_ids(supports, wildtype, "wildtype")
    # a lazy joint runs the model for every fill
    cached = cache(log_prob)
    alone = [(*before[:k], after[k], *before[k + 1 :]) for k in range(len(before))]
    singles = tuple(log_odds(cached, one, before) for one in alone)
    return Changes(log_odds(cached, after, before), singles)


def log_odds(log_prob: LogProb, one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """log p(one) / p(other), in nats; a fill against itself is not looked up."""
    return 0.0 if one == other else defined(log_prob(*one) - log_prob(*other))


def fill_ids(supports: Supports, fill: Sequence[Token], name: str) -> tuple[int, ...]:
    """Ids, so that a name and an id of the same token are the same; errors call the fill `name`."""
    count = len(supports)
    if isinstance(fill, str | bytes) or not isinstance(fill, Sequence) or len(fill) != count:
        raise SupportError(f"{name} is a list of {count} tokens, one per blank, not {quoted(fill)}")
    places = (place_at_blank(supports, blank, token) for blank, token in enumerate(fill))
    return tuple(int(axis.ids[at]) for axis, at in zip(supports, places, strict=True))


def defined(difference: float) -> float:
    """A difference of log-probabilities, unless both are of probability zero."""
    if math.isnan(difference):
        raise NumericsError("the odds of two fills that both have probability zero are undefined")
    return difference
