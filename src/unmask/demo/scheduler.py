"""One thread computes: exact answers in their order, and quick ones between two of their batches.

Matplotlib's settings belong to one thread at a time, two forward passes at once are no faster than
one after the other, and memory is kept per thread: that of many, each for one answer, would never
be given back. So a quick question waits for one batch of an exact answer, not for all of it.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

import unmask

Result = TypeVar("Result")

# seconds until a place that was given up is free: it ends at its next batch
_SOON = 1.0


class Scheduler:
    """Computes quick answers at once, and exact ones one after the other, in `places` at most."""

    def __init__(self, places: int) -> None:
        self.places = threading.BoundedSemaphore(places)
        self.thread = ThreadPoolExecutor(1, "unmask-demo")
        self._quick: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of a quick computation."""
        future: Future[Result] = Future()
        self._quick.put((future, work))
        # by whichever comes first: this, or the next batch of an exact answer
        self.thread.submit(self.run_quick)
        return future.result()

    def run_quick(self) -> None:
        """Compute what waits now; what comes meanwhile waits for the next batch."""
        for _ in range(self._quick.qsize()):
            future, work = self._quick.get()
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

    def begin(self, work: "Callable[[Job], Any]") -> "Job | None":
        """An exact computation, behind those that were begun before; None without a free place."""
        return Job(self, work) if self.places.acquire(timeout=_SOON) else None

    def close(self) -> None:
        """Begin nothing more; what runs ends at its next batch if it is cancelled."""
        self.thread.shutdown(wait=False)


class Job:
    """An exact computation, which calls `tick` after every batch and frees its place at its end."""

    def __init__(self, scheduler: Scheduler, work: "Callable[[Job], Any]") -> None:
        self.began: float | None = None
        self.passes_done, self.is_solving = 0, False
        self.passes_expected: int | None = None
        self.is_cancelled = False
        self._done_by_piece: dict[str, int] = {}
        self._run_quick = scheduler.run_quick
        self.future = scheduler.thread.submit(self._run, work)
        self.future.add_done_callback(lambda _: scheduler.places.release())

    def tick(self, progress: unmask.Progress) -> None:
        """Note how much is done, run quick computations, and end if cancelled."""
        if self.is_cancelled:
            raise CancelledError
        if progress.unit == "row":
            # several pieces of work may have one name, each counted from its start
            before = self._done_by_piece.get(progress.what, 0)
            self.passes_done += progress.done - (before if progress.done > before else 0)
            self._done_by_piece[progress.what] = progress.done
        else:
            self.is_solving = True
        self._run_quick()

    def cancel(self) -> None:
        """End it at its next tick, or before it begins."""
        self.is_cancelled = True
        self.future.cancel()

    def seconds_left(self) -> float | None:
        """How long the forward passes will still take, at the speed of those so far."""
        if self.began is None or not self.passes_done or not self.passes_expected:
            return None
        spent = time.monotonic() - self.began
        return spent * max(0, self.passes_expected - self.passes_done) / self.passes_done

    def _run(self, work: "Callable[[Job], Any]") -> Any:
        self._run_quick()
        self.began = time.monotonic()
        try:
            return work(self)
        except Exception as error:
            # without the frames that hold its tables
            raise error.with_traceback(None) from None
