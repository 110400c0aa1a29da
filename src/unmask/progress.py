"""The progress of long work: a bar on stderr, or a function of the caller's."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias
from weakref import WeakSet

from tqdm import tqdm


@dataclass(frozen=True)
class Progress:
    """The progress of a piece of work.

    `what` names the piece (a table, a law), `unit` is a forward pass or a sweep over the tables;
    `total` is None if it is not known, as for an iteration that ends when it has converged.
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


def bar(what: str, *, unit: str, total: int | None = None, shown: Shown) -> "Bar":
    """A counter of a piece of work: `with bar(...) as counted: counted.update(rows)`.

    An exception that a caller's function raises ends the work, and reaches the caller.
    """
    if callable(shown):
        return CallbackBar(total, call=shown, what=what, unit=unit)
    on_a_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (on_a_terminal if shown is None else shown):
        return HiddenBar(total)
    return DrawnBar(total=total, desc=what, unit=unit, delay=_DELAY, leave=False)


@dataclass(eq=False)
class HiddenBar(AbstractContextManager["HiddenBar"]):
    """A bar that is not drawn: it only counts."""

    # as tqdm declares them
    total: float | None = None
    n: float = 0

    def update(self, n: float | None = 1) -> None:
        """So much more is done."""
        self.n += n or 0

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(eq=False, kw_only=True)
class CallbackBar(HiddenBar):
    """A bar that is not drawn: it calls a function instead."""

    call: Callable[[Progress], object]
    what: str
    unit: str

    def update(self, n: float | None = 1) -> None:
        """Report progress to the function."""
        super().update(n)
        total = None if self.total is None else int(self.total)
        self.call(Progress(self.what, int(self.n), total, self.unit))


class _NoLock(nullcontext[None]):
    """A lock for tqdm, for which nobody ever waits."""

    def acquire(self, *_: Any, **__: Any) -> bool:
        return True

    def release(self) -> None:
        pass


class DrawnBar(tqdm):  # type: ignore[type-arg]
    """A bar on stderr, drawn without a lock.

    An interrupt can leave tqdm's own lock held, and a fork can copy it held: every other thread or
    the child would then wait for ever. Without it, threads that draw at the same moment can at
    worst write over each other's line, until the next update.
    """

    _lock = _NoLock()
    # not shared with the caller's bars, which lock theirs; nor is there a thread that watches them
    _instances: ClassVar[WeakSet[Any]] = WeakSet()
    monitor_interval = 0

    def __init__(self, **options: Any) -> None:
        # below every bar that is open, this one not counted
        below = len(getattr(tqdm, "_instances", ())) + len(self._instances) - 1
        # by time alone: pieces of work differ too much in cost for a guess by their number
        super().__init__(position=below, miniters=1, **options)

    def __del__(self) -> None:
        """Draw nothing: one that an interrupt left half made has nothing to close."""

    @classmethod
    def _decr_instances(cls, instance: Any) -> None:
        """Forget a bar; tqdm would look through all others, while another thread adds one."""
        cls._instances.discard(instance)


Bar: TypeAlias = HiddenBar | DrawnBar


def say(line: str) -> None:
    """Print a line on stderr, above the bars that are drawn."""
    DrawnBar.write(line, file=sys.stderr)
