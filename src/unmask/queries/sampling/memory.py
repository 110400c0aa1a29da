"""The things used last, by a key, up to so many bytes."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Recent(Generic[Thing]):
    """Keeps what was asked for last; the newest stays even if it alone is too large."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._total = most_bytes, 0
        self._kept: OrderedDict[Hashable, tuple[Thing, int]] = OrderedDict()

    def __len__(self) -> int:
        """How many things are kept."""
        return len(self._kept)

    def get(self, key: Hashable) -> Thing | None:
        """What was kept under a key, if it still is."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def keep(self, key: Hashable, thing: Thing, nbytes: int) -> None:
        """Keep one more, and let go of those not asked for the longest."""
        _, before = self._kept.pop(key, (None, 0))
        self._kept[key] = (thing, nbytes)
        self._total += nbytes - before
        while self._total > self._most and len(self._kept) > 1:
            _, (_, freed) = self._kept.popitem(last=False)
            self._total -= freed
