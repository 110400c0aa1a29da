"""Draws of all blanks together, their frequencies, and how far to trust these."""

import math
from collections import Counter
from dataclasses import dataclass

from unmask.arguments import whole_number
from unmask.errors import SupportError
from unmask.lazy import Guessable
from unmask.printable import columns, printable, quoted
from unmask.queries.sampling.convergence import Mixing, finite_or_none

# Vehtari et al. (2021): chains agree below this, and each should be worth so many draws
R_HAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
_REMEDY = "draw more, or raise warm_up and thin"


@dataclass(frozen=True)
class Draw:
    """Tokens that fill the blanks together."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]

    def __repr__(self) -> str:
        """The tokens, on one line."""
        return f"Draw({' '.join(map(quoted, self.tokens))})"

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {"tokens": list(self.tokens), "ids": list(self.ids)}


@dataclass(frozen=True)
class Frequency:
    """How often something was drawn, and the Monte Carlo standard error of that share.

    The error is sqrt(p (1 - p) / ESS): zero where p is 0 or 1, which only means that nothing else
    was seen.
    """

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    count: int
    frequency: float
    standard_error: float

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {**vars(self), "tokens": list(self.tokens), "ids": list(self.ids)}


@dataclass(frozen=True, repr=False)
class Samples(Guessable):
    """Draws of the blanks of one text, in the order drawn, chain after chain.

    `independent` draws (one or two blanks) are exact and involve no chains: R-hat is 1 and every
    draw counts. Otherwise `mixing` holds R-hat and effective sample size of everything that was
    monitored. `updates` are those of one chain, `forward_passes` those of all. `unsolved` counts
    pair joints whose solver did not converge. `unknown_tokens` are the parts of the text that the
    vocabulary has no token for.

    Examples:
        >>> samples = lm.sample("Two [MASK] are [MASK].", 100, support=20)
        >>> samples.independent, samples.ess
        (True, 100.0)
    """

    fills: tuple[Draw, ...]
    mixing: tuple[Mixing, ...]
    independent: bool
    method: str
    seed: int
    chains: int
    warm_up: int
    thin: int
    updates: int
    forward_passes: int
    unsolved: int = 0
    unknown_tokens: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many draws."""
        return len(self.fills)

    @property
    def r_hat(self) -> float:
        """The worst R-hat of everything that was monitored."""
        return max((m.r_hat for m in self.mixing), default=1.0)

    @property
    def ess(self) -> float:
        """The smallest effective sample size of all that was monitored, at most the draws."""
        return min([float(len(self)), *(m.ess for m in self.mixing)])

    @property
    def converged(self) -> bool:
        """Whether R-hat is below 1.01 and each chain is worth 100 draws; true if independent."""
        enough = self.ess >= ESS_PER_CHAIN * self.chains
        return self.independent or (self.r_hat < R_HAT_LIMIT and enough)

    def counts(self) -> Counter[tuple[str, ...]]:
        """How often each fill was drawn, by its tokens."""
        return Counter(draw.tokens for draw in self.fills)

    def frequencies(self, blank: int | None = None) -> list[Frequency]:
        """Every fill that was drawn, or token of one blank, most frequent first.

        Args:
            blank: A blank, from 0. Default: all of them together.
        Returns:
            Shares with their Monte Carlo standard errors.
        Raises:
            SupportError: There is no such blank.
        Examples:
            >>> samples = lm.sample("Two [MASK] are [MASK].", 100, support=20)
            >>> sum(one.count for one in samples.frequencies(0))
            100
        """
        if blank is None:
            seen = Counter((draw.tokens, draw.ids) for draw in self.fills)
        else:
            at = self._checked(blank)
            seen = Counter(((draw.tokens[at],), (draw.ids[at],)) for draw in self.fills)
        ranked = sorted(seen.items(), key=lambda item: (-item[1], item[0][1]))
        return [self._frequency(tokens, ids, count) for (tokens, ids), count in ranked]

    def to_dict(self, n: int = 10) -> dict[str, object]:
        """The most frequent fills and what was measured, ready for JSON."""
        return {
            "method": self.method,
            "draws": len(self),
            "independent": self.independent,
            "fills": [frequency.to_dict() for frequency in self.frequencies()[:n]],
            "converged": self.converged,
            # infinity, which JSON has no word for, is None
            "r_hat": finite_or_none(self.r_hat),
            "ess": self.ess,
            "mixing": [m.to_dict() for m in self.mixing],
            "chains": self.chains,
            "warm_up": self.warm_up,
            "thin": self.thin,
            "updates": self.updates,
            "forward_passes": self.forward_passes,
            "unsolved": self.unsolved,
            "seed": self.seed,
            "unknown_tokens": list(self.unknown_tokens),
        }

    def __repr__(self) -> str:
        """The most frequent fills with their errors, and a word of warning where one is due."""
        chains = f"{self.chains} chain{'s' * (self.chains != 1)}, R-hat {self.r_hat:.3f}"
        kind = "independent" if self.independent else chains
        count = len(self.fills[0].ids)
        head = f"Samples of {count} blank{'s' * (count != 1)} by {self.method}"
        lines = [f"<{head}: {len(self):,} draws, {kind}, ESS {self.ess:.0f}>"]
        table = [
            [f"{f.frequency:.4f}", f"± {f.standard_error:.4f}", *map(printable, f.tokens)]
            for f in self.frequencies()[:5]
        ]
        return "\n".join([*lines, columns(table), *self._warnings()])

    def _warnings(self) -> list[str]:
        notes = []
        if not self.converged:
            notes.append(f"not to be trusted: {' and '.join(self._shortcomings())}; {_REMEDY}")
        if self.unknown_tokens:
            parts = ", ".join(map(quoted, self.unknown_tokens))
            notes.append(f"the vocabulary has no token for {parts} of the text")
        if self.unsolved:
            notes.append(
                f"{self.unsolved} joints of a pair come from solvers that did not converge"
            )
        return notes

    def _shortcomings(self) -> list[str]:
        shortcomings = []
        if self.r_hat >= R_HAT_LIMIT:
            worst = max(self.mixing, key=lambda m: m.r_hat)
            shortcomings.append(f"R-hat {self.r_hat:.3f} ({worst.of}) is not below {R_HAT_LIMIT}")
        if self.ess < ESS_PER_CHAIN * self.chains:
            least = min(self.mixing, key=lambda m: m.ess)
            needed = ESS_PER_CHAIN * self.chains
            shortcomings.append(f"ESS {self.ess:.0f} ({least.of}) is below {needed}")
        return shortcomings

    def _frequency(self, tokens: tuple[str, ...], ids: tuple[int, ...], count: int) -> Frequency:
        part = count / len(self)
        return Frequency(tokens, ids, count, part, math.sqrt(part * (1 - part) / self.ess))

    def _checked(self, blank: object) -> int:
        count = len(self.fills[0].ids)
        place = whole_number(blank)
        if place is None or not 0 <= place < count:
            raise SupportError(
                f"there is no blank {quoted(blank)}; blanks count from 0 to {count - 1}"
            )
        return place
