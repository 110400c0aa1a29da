"""The parts of the tables that a construction needs, and so how many rows of the model."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class Needs:
    """The parts of the tables that a construction reads.

    `masked` is every blank with all of them masked, one forward pass. `whole` names the blanks that
    are read in every context of the others, `some` is the number of additional single contexts in
    which each blank is read, and `between` the number of forward passes in which only some of the
    others are filled.

    Examples:
        >>> unmask.Needs(masked=True, whole=(0,)).whole
        (0,)
    """

    masked: bool = False
    whole: tuple[int, ...] = ()
    some: tuple[int, ...] = ()
    between: int = 0

    def only_contexts(self) -> bool:
        """True if the contexts that are read depend on the fills in question."""
        return any(self.some) and not self.whole

    def rows(self, shape: Sequence[int]) -> int:
        """The number of forward passes; contexts of a whole table cost nothing more."""
        contexts = (*self.some, *[0] * (len(shape) - len(self.some)))
        cells = math.prod(shape)
        each = (cells // n if t in self.whole else contexts[t] for t, n in enumerate(shape))
        return self.masked + self.between + sum(each)


def every_table(blanks: int, *, masked: bool = True) -> Needs:
    """The whole table of every blank."""
    return Needs(masked=masked, whole=tuple(range(blanks)))


def together(each: Iterable[Needs]) -> Needs:
    """The needs of several constructions together."""
    needs = list(each)
    return Needs(
        any(need.masked for need in needs),
        tuple(sorted({blank for need in needs for blank in need.whole})),
        tuple(map(sum, zip_longest(*(need.some for need in needs), fillvalue=0))),
        max((need.between for need in needs), default=0),
    )
