"""A share of a run's examples: the i-th of n, so that n processes can work side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from unmask.errors import StoreError
from unmask.printable import quoted

_T = TypeVar("_T")
_MOST = 10**6


@dataclass(frozen=True)
class Shard:
    """Share `index` of `count`; each thing is in one share, and each kind of thing in all."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        """Reject a share that does not exist."""
        if not (1 <= self.count <= _MOST and 0 <= self.index < self.count):
            raise StoreError(
                f"a shard is i/n with i from 0 to n - 1, not {self.index}/{self.count}"
            )

    def __str__(self) -> str:
        """As it is given."""
        return f"{self.index}/{self.count}"

    @property
    def folder(self) -> str:
        """As folders and locks are named."""
        return f"{self.index}-of-{self.count}"

    def of(self, everything: Sequence[_T], kind: Callable[[_T], str] = lambda _: "") -> list[_T]:
        """Its share, in the same order: every `count`-th thing of each kind."""
        by_kind = sorted(range(len(everything)), key=lambda place: kind(everything[place]))
        return [everything[place] for place in sorted(by_kind[self.index :: self.count])]

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read what `str` wrote."""
        parts = text.split("/")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
            raise StoreError(
                f"a shard is i/n with i from 0 to n - 1, such as 0/4, not {quoted(text)}"
            )
        return cls(int(parts[0]), int(parts[1]))
