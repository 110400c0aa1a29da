"""Odds between two fills of the same blanks, and how far changes do not simply add up.

With wild type w and mutant m, the interaction (epistasis) is log p(m) / p(w) less the sum, over the
blanks, of the log-odds of that change alone, all other blanks at w. For two blanks that is the log
odds ratio p(a'b') p(ab) / (p(a'b) p(ab')). Normalisers cancel in both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import NumericsError, SupportError
from unmask.logspace import row_blocks
from unmask.printable import quoted
from unmask.text.support import Support, Token, place_at_blank


@runtime_checkable
class Distribution(Protocol):
    """What odds are taken of: a `Joint`."""

    @property
    def supports(self) -> tuple[Support, ...]:
        """The tokens of every blank."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many tokens each blank ranges over."""

    def log_prob(self, *tokens: Token) -> float:
        """The log-probability of a fill."""

    def log_rows(self, rows: slice) -> Float[Tensor, " block *others"]:
        """Log-probabilities for some rows of the first axis."""


@dataclass(frozen=True)
class Changes:
    """Log-odds of changes together, and of each alone (0 at a blank that stays), in nats."""

    log_odds: float
    single_log_odds: tuple[float, ...]

    @property
    def interaction(self) -> float:
        """What the changes do together beyond what they do alone."""
        return _defined(self.log_odds - sum(self.single_log_odds))


def log_odds(joint: Distribution, mutant: Sequence[Token], wildtype: Sequence[Token]) -> float:
    """log p(mutant) / p(wildtype), in nats."""
    ids = [_token_ids(joint, name, fill) for name, fill in _named(mutant, wildtype)]
    return _Probabilities(joint).log_odds(*ids)


def changes(joint: Distribution, mutant: Sequence[Token], wildtype: Sequence[Token]) -> Changes:
    """The log-odds of going from one fill to another, at once and one blank at a time."""
    after, before = (_token_ids(joint, name, fill) for name, fill in _named(mutant, wildtype))
    known = _Probabilities(joint)
    alone = [(*before[:k], after[k], *before[k + 1 :]) for k in range(len(before))]
    singles = tuple(known.log_odds(one, before) for one in alone)
    return Changes(known.log_odds(after, before), singles)


def strongest_interaction(
    joint: Distribution, wildtype: Sequence[Token]
) -> tuple[tuple[int, int], float]:
    """The double change of two blanks that interacts most, up or down: its places, its value.

    Of equals, the one with the lower places.
    """
    a, b = (axis.index(token) for axis, token in zip(joint.supports, wildtype, strict=True))
    base = joint.log_rows(slice(a, a + 1))[0]
    best, value = (0, 0), 0.0
    for rows in row_blocks(*joint.shape):
        found = _interactions(joint.log_rows(rows), base, b)
        place = int(found.abs().argmax())
        first, second = divmod(place, found.shape[1])
        if abs(float(found[first, second])) > abs(value):
            best, value = (rows.start + first, second), float(found[first, second])
    return best, value


def _interactions(
    tile: Float[Tensor, "rows b"], base: Float[Tensor, " b"], at: int
) -> Float[Tensor, "rows b"]:
    """Log odds ratios against the base row and its token in the other blank."""
    found = (tile - tile[:, at, None]) - (base - base[at])
    if not bool(torch.isfinite(found).all()):
        raise NumericsError("some fills have probability zero, so that interactions are undefined")
    return found


class _Probabilities:
    """Log-probabilities of fills, each asked for once: a lazy joint pays for every question."""

    def __init__(self, joint: Distribution) -> None:
        self._joint = joint
        self._known: dict[tuple[int, ...], float] = {}

    def log_odds(self, one: tuple[int, ...], other: tuple[int, ...]) -> float:
        # before anything is asked for: a blank that stays costs nothing
        if one == other:
            return 0.0
        return _defined(self._log_prob(one) - self._log_prob(other))

    def _log_prob(self, ids: tuple[int, ...]) -> float:
        if ids not in self._known:
            self._known[ids] = self._joint.log_prob(*ids)
        return self._known[ids]


def _named(
    mutant: Sequence[Token], wildtype: Sequence[Token]
) -> tuple[tuple[str, Sequence[Token]], ...]:
    return ("mutant", mutant), ("wildtype", wildtype)


def _token_ids(joint: Distribution, name: str, fill: Sequence[Token]) -> tuple[int, ...]:
    """Ids, so that a name and an id of the same token are the same."""
    count = len(joint.supports)
    if isinstance(fill, str | bytes) or not isinstance(fill, Sequence) or len(fill) != count:
        raise SupportError(f"{name} is a list of {count} tokens, one per blank, not {quoted(fill)}")
    places = (place_at_blank(joint.supports, blank, token) for blank, token in enumerate(fill))
    return tuple(int(axis.ids[at]) for axis, at in zip(joint.supports, places, strict=True))


def _defined(difference: float) -> float:
    if math.isnan(difference):
        raise NumericsError("the odds of two fills that both have probability zero are undefined")
    return difference
