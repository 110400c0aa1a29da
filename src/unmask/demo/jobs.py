"""Long computations beside the page: how far each is, and an end when nobody waits for it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import unmask
from unmask.demo.turns import Room, Turns

Result = TypeVar("Result")


class CancelledError(Exception):
    """Nobody waits for the computation any more."""


class Desk:
    """Where computations are done: short ones at once, long ones one after the other.

    Each kind has one thread that stays: memory is kept by thread, and that of many threads, each
    for one answer, would never be given back. `long_places` is how many long ones may be there,
    running or waiting.
    """

    def __init__(self, long_places: int) -> None:
        self.turns = Turns()
        self.room = Room(long_places)
        self._short = ThreadPoolExecutor(1, "unmask-demo-short")
        self.long = ThreadPoolExecutor(1, "unmask-demo-long")

    def at_once(self, work: Callable[[], Result]) -> Result:
        """Do a short computation, between two batches of a long one."""

        def in_turn() -> Result:
            with self.turns:
                return work()

        return self._short.submit(in_turn).result()

    def close(self) -> None:
        """Begin nothing more; what runs ends at its next tick if it is cancelled."""
        for executor in (self._short, self.long):
            executor.shutdown(wait=False, cancel_futures=True)


class Job(Generic[Result]):
    """A long computation.

    It calls `tick` often: there it lets short ones through, and ends when it is cancelled. Its
    place in the room is free again when it has ended.
    """

    def __init__(self, desk: Desk, work: "Callable[[Job[Result]], Result]") -> None:
        self.running = False
        self.rows_done, self.passes_done = 0, 0
        self.rows_expected: int | None = None
        self._desk, self._work = desk, work
        self._began = time.monotonic()
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._ended, self._cancelled = threading.Event(), threading.Event()
        self._rows_by_piece: dict[str, int] = {}
        desk.long.submit(self._run)

    def tick(self, progress: unmask.Progress) -> None:
        """Note how far the work is; let others through; end it if it is not wanted."""
        if self._cancelled.is_set():
            raise CancelledError
        if progress.unit == "row":
            # several pieces of work may have one name, each counted from its start
            before = self._rows_by_piece.get(progress.what, 0)
            self.rows_done += progress.done - (before if progress.done > before else 0)
            self._rows_by_piece[progress.what] = progress.done
        else:
            self.passes_done += 1
        self._desk.turns.let_others_through()

    def wait(self, seconds: float) -> bool:
        """Whether the work has ended, after at most so long."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """End the work at its next tick."""
        self._cancelled.set()

    def is_cancelled(self) -> bool:
        """Whether somebody has."""
        return self._cancelled.is_set()

    def result(self) -> Result:
        """What the work gave, or its exception."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def seconds_left(self) -> float | None:
        """How long the forward passes will still take, at the speed of those so far."""
        if not self.rows_done or not self.rows_expected:
            return None
        spent = time.monotonic() - self._began
        return spent * max(0, self.rows_expected - self.rows_done) / self.rows_done

    def _run(self) -> None:
        try:
            with self._desk.turns:
                if self._cancelled.is_set():
                    raise CancelledError
                self._began, self.running = time.monotonic(), True
                self._result = self._work(self)
        except BaseException as error:
            # handed to whoever waits for the result, without the frames that hold its tables
            self._error = error.with_traceback(None)
        finally:
            self._desk.room.leave()
            self._ended.set()
