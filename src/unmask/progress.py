"""How far long work is: a bar on stderr, or a function of the caller's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from tqdm import tqdm

if TYPE_CHECKING:
    # nothing is iterated through it: work is counted as it is done
    Bar: TypeAlias = tqdm[NoReturn]
else:
    # the class takes no parameter when it runs
    Bar = tqdm


@dataclass(frozen=True)
class Progress:
    """How much of a piece of work is done.

    `what` names the piece (a table, a solver), `unit` is a forward pass or a sweep over the tables;
    `total` is None if it is not known, as for a solver that ends when it has converged.
    """

    what: str
    done: int
    total: int | None
    unit: str

    @property
    def fraction(self) -> float | None:
        """The share that is done, from 0 to 1."""
        return None if not self.total else min(1.0, self.done / self.total)


# a bar always, never, on a terminal (None); or a function called after every batch and sweep
Shown: TypeAlias = bool | Callable[[Progress], object] | None

# seconds before a bar appears: short work needs none
_DELAY = 1.0


def bar(
    what: str, *, unit: str, total: int | None = None, shown: Shown, delay: float = _DELAY
) -> Bar:
    """What counts a piece of work: `with bar(...) as counted: counted.update(rows)`.

    An exception that a caller's function raises ends the work, and reaches the caller.
    """
    if callable(shown):
        return CallbackBar(shown, what, unit, total)
    return tqdm(
        total=total,
        desc=what,
        unit=unit,
        disable=None if shown is None else not shown,
        delay=delay,
        leave=False,
    )


class CallbackBar(tqdm):  # type: ignore[type-arg]
    """A bar that is not drawn: it calls a function instead."""

    def __init__(
        self, call: Callable[[Progress], object], what: str, unit: str, total: int | None
    ) -> None:
        super().__init__(total=total, disable=True)
        self._call, self._what, self._unit = call, what, unit

    def update(self, n: float | None = 1) -> None:
        """So much more is done."""
        self.n += n or 0
        total = None if self.total is None else int(self.total)
        self._call(Progress(self._what, int(self.n), total, self._unit))
