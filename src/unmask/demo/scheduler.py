"""One thread computes, one answer after the other.

Two forward passes at once are no faster than one after the other, and memory is kept per thread:
that of many, each for one answer, would never be given back.
"""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import unmask

# seconds until a place that was given up is free: it ends at its next batch
_SOON = 1.0


class Scheduler:
    """Computes answers in the order of their questions, in `places` at most."""

    def __init__(self, places: int) -> None:
        self.places = threading.BoundedSemaphore(places)
        self.thread = ThreadPoolExecutor(1, "unmask-demo")

    def begin(self, work: "Callable[[Computation], Any]") -> "Computation | None":
        """A computation, behind those that were begun before; None without a free place."""
        return Computation(self, work) if self.places.acquire(timeout=_SOON) else None

    def close(self) -> None:
        """Begin nothing more; what runs ends at its next batch if it is cancelled."""
        self.thread.shutdown(wait=False)


class Computation:
    """A computation, which calls `tick` after every batch and frees its place at its end."""

    def __init__(self, scheduler: Scheduler, work: "Callable[[Computation], Any]") -> None:
        self.has_begun, self.is_cancelled = False, False
        self.passes_done, self.passes_expected = 0, 0
        self._done_by_piece: dict[str, int] = {}
        self._places = scheduler.places
        self.future = scheduler.thread.submit(self._run, work)
        self.future.add_done_callback(self._ended)

    def tick(self, progress: unmask.Progress) -> None:
        """Note how much is done, and end if cancelled."""
        if self.is_cancelled:
            raise CancelledError
        if progress.unit == "row":
            # several pieces of work may have one name, each counted from its start
            before = self._done_by_piece.get(progress.what, 0)
            self.passes_done += progress.done - (before if progress.done > before else 0)
            is_whole = progress.done == progress.total
            self._done_by_piece[progress.what] = 0 if is_whole else progress.done

    def cancel(self) -> None:
        """End it at its next tick, or before it begins."""
        self.is_cancelled = True
        self.future.cancel()

    def _run(self, work: "Callable[[Computation], Any]") -> Any:
        self.has_begun = True
        try:
            return work(self)
        except Exception as error:
            # without the frames that hold its tables
            raise error.with_traceback(None) from None

    def _ended(self, _: object) -> None:
        # estimates are cycles of objects, whose tables would stay for some answers more
        gc.collect()
        self._places.release()
