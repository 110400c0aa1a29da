"""One computation at a time, in the order asked, and long ones that let short ones through.

Matplotlib's settings belong to one thread at a time, and two forward passes at once are no faster
than one after the other. So a visitor who wants a quick look waits for one batch of somebody's long
computation, not for all of it.
"""

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A lock that is given in the order in which it was asked for."""

    def __init__(self) -> None:
        self._waiting: deque[threading.Event] = deque()
        self._guard = threading.Lock()
        self._taken = False

    def __enter__(self) -> "Turns":
        """Wait for the turn."""
        mine = threading.Event()
        with self._guard:
            if not self._taken:
                self._taken = True
                return self
            self._waiting.append(mine)
        mine.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Hand it on."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False

    def let_others_through(self) -> None:
        """Give the turn to those who wait now, and go on when they are done."""
        with self._guard:
            if not self._waiting:
                return
        self.__exit__(None, None, None)
        self.__enter__()


class Room:
    """A bounded number of places; who finds none is told so at once."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._guard = threading.Lock()

    def enter(self) -> bool:
        """Take a place, if there is one."""
        with self._guard:
            if self._free == 0:
                return False
            self._free -= 1
            return True

    def leave(self) -> None:
        """Give the place back."""
        with self._guard:
            self._free += 1
