"""One computation at a time, and quick ones between two batches of an exact one.

Matplotlib's settings belong to one thread at a time, and two forward passes at once are no faster
than one after the other. So a quick question waits for one batch of an exact answer, not for all
of it.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

import unmask

Result = TypeVar("Result")

# seconds until a place that was given up is free: it ends at its next batch
_SOON = 1.0


class FairLock:
    """A lock that is given in the order in which it was requested.

    `threading.Lock` keeps no order: an exact answer that lets go of it between two batches would
    have it back before those that wait.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests = self._ended = 0

    def __enter__(self) -> None:
        """Wait for the turn."""
        with self._changed:
            mine = self._requests
            self._requests += 1
            self._changed.wait_for(lambda: self._ended == mine)

    def __exit__(self, *_: object) -> None:
        """Hand it on."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def let_others_through(self) -> None:
        """Hand it to those that wait now, and go on when they are done."""
        if self._requests > self._ended + 1:
            self.__exit__()
            self.__enter__()


class Scheduler:
    """Computes quick answers at once, and exact ones one after the other, in `places` at most.

    Each kind has one thread that stays: memory is kept per thread, and that of many threads, each
    for one answer, would never be given back.
    """

    def __init__(self, places: int) -> None:
        self.lock = FairLock()
        self.places = threading.BoundedSemaphore(places)
        self._quick = ThreadPoolExecutor(1, "unmask-demo-quick")
        self.exact = ThreadPoolExecutor(1, "unmask-demo-exact")

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of a quick computation."""

        def alone() -> Result:
            with self.lock:
                return work()

        return self._quick.submit(alone).result()

    def begin(self, work: "Callable[[Job[Result]], Result]") -> "Job[Result] | None":
        """An exact computation, behind those that were begun before; None without a free place."""
        return Job(self, work) if self.places.acquire(timeout=_SOON) else None

    def close(self) -> None:
        """Begin nothing more; what runs ends at its next batch if it is cancelled."""
        for executor in (self._quick, self.exact):
            executor.shutdown(wait=False, cancel_futures=True)


class Job(Generic[Result]):
    """An exact computation, which calls `tick` after every batch and frees its place at its end."""

    def __init__(self, scheduler: Scheduler, work: "Callable[[Job[Result]], Result]") -> None:
        self.began: float | None = None
        self.passes_done, self.is_solving = 0, False
        self.passes_expected: int | None = None
        self.is_cancelled = False
        self._lock, self._work = scheduler.lock, work
        self._done_by_piece: dict[str, int] = {}
        self._future = scheduler.exact.submit(self._run)
        self._future.add_done_callback(lambda _: scheduler.places.release())

    def tick(self, progress: unmask.Progress) -> None:
        """Note how much is done, let quick computations through, and end if cancelled."""
        if self.is_cancelled:
            raise CancelledError
        if progress.unit == "row":
            # several pieces of work may have one name, each counted from its start
            before = self._done_by_piece.get(progress.what, 0)
            self.passes_done += progress.done - (before if progress.done > before else 0)
            self._done_by_piece[progress.what] = progress.done
        else:
            self.is_solving = True
        self._lock.let_others_through()

    def has_ended(self, seconds: float) -> bool:
        """Whether it has, after waiting for at most so long."""
        return bool(wait([self._future], seconds).done)

    def cancel(self) -> None:
        """End it at its next tick, or before it begins."""
        self.is_cancelled = True
        self._future.cancel()

    def result(self) -> Result:
        """What was computed, or the exception that ended it."""
        return self._future.result()

    def seconds_left(self) -> float | None:
        """How long the forward passes will still take, at the speed of those so far."""
        if self.began is None or not self.passes_done or not self.passes_expected:
            return None
        spent = time.monotonic() - self.began
        return spent * max(0, self.passes_expected - self.passes_done) / self.passes_done

    def _run(self) -> Result:
        with self._lock:
            if self.is_cancelled:
                raise CancelledError
            self.began = time.monotonic()
            try:
                return self._work(self)
            except Exception as error:
                # without the frames that hold its tables
                raise error.with_traceback(None) from None
