"""Odds between two fills of the same blanks, and how far changes do not simply add up.

With wild type w and mutant m, the interaction (epistasis) is log p(m) / p(w) minus the sum, over
the blanks, of the log-odds of that change alone, all other blanks at w. For two blanks that is the
log odds ratio p(a'b') p(ab) / (p(a'b) p(ab')). Normalisers cancel in both.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

from unmask.errors import NumericsError, SupportError
from unmask.printable import quoted
from unmask.text.support import Support, Token, place_at_blank

Supports = Sequence[Support]
# token ids of a fill, and its log-probability
FillIds = tuple[int, ...]
LogProb = Callable[..., float]


def log_odds(log_prob: LogProb, one: FillIds, other: FillIds) -> float:
    """log p(one) / p(other), in nats; a fill against itself is not looked up."""
    return 0.0 if one == other else defined(log_prob(*one) - log_prob(*other))


def interaction(log_prob: LogProb, mutant: FillIds, wildtype: FillIds) -> float:
    """The effect of all changes together beyond the sum of each alone, in nats."""
    # a lazy joint runs the model for every fill
    cached = cache(log_prob)
    alone = [(*wildtype[:k], mutant[k], *wildtype[k + 1 :]) for k in range(len(wildtype))]
    singles = sum(log_odds(cached, single, wildtype) for single in alone)
    return defined(log_odds(cached, mutant, wildtype) - singles)


def fill_ids(supports: Supports, fill: Sequence[Token], name: str) -> FillIds:
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
