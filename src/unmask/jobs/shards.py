"""A share of a job's units: every n-th from the i-th on, so that n processes work side by side."""

from dataclasses import dataclass

from unmask.errors import StoreError
from unmask.printable import quoted

_MOST = 10**6


@dataclass(frozen=True)
class Shard:
    """Share `index` of `count`; each unit is in one share."""

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

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read what `str` wrote."""
        parts = text.split("/")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
            raise StoreError(
                f"a shard is i/n with i from 0 to n - 1, such as 0/4, not {quoted(text)}"
            )
        return cls(int(parts[0]), int(parts[1]))
