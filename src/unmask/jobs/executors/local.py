"""Where jobs are done: jobs in, the outcome of each out, in whatever order.

An executor never raises for a job: what fails becomes an outcome that says why. It may raise when
it cannot go on at all. Here also the plainest one; the other is in `ray_cluster`.
"""

import ctypes
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from unmask.jobs.executors.task import OverlappedIO, Task
from unmask.language_model import LanguageModel

T = TypeVar("T")
# a model runs Python between operations that take less than a millisecond: with Python's own 5 ms
# it would wait for the thread that reads longer than it computes
_SECONDS_PER_TURN = 2e-4


class Executor(Protocol):
    """A place with the model."""

    def run(self, task: Task, jobs: Iterable[Any]) -> Generator[Any, None, None]:
        """The outcome of every job, as they come; jobs are taken as there is room."""


class LocalExecutor:
    """This process, with a model that is loaded already."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm

    def run(self, task: Task, jobs: Iterable[Any]) -> Generator[Any, None, None]:
        """The outcomes in the order of the jobs."""
        if task.overlapped is None:
            return (task.run(self._lm, job) for job in jobs)
        return _overlapped(task, task.overlapped, self._lm, jobs)


def _overlapped(
    task: Task, overlapped: OverlappedIO, lm: LanguageModel, jobs: Iterable[Any]
) -> Generator[Any, None, None]:
    """The model runs in this thread, where an interruption reaches it.

    Meanwhile another thread reads the next job, and a third one writes the last.
    """
    with (
        _switch_interval(_SECONDS_PER_TURN),
        ThreadPoolExecutor(1) as reader,
        ThreadPoolExecutor(1) as writer,
    ):
        written: deque[Future[Any]] = deque()
        read = ((job, reader.submit(overlapped.read, lm, job)) for job in jobs)
        for job, content in _one_ahead(read):
            result = task.run(lm, content.result())
            while written:
                yield written.popleft().result()
            written.append(writer.submit(overlapped.write, job, result))
            _release_memory()
        while written:
            yield written.popleft().result()


def _release_memory() -> None:
    """Return free memory to the system: over many jobs in threads, glibc keeps ever more."""
    if sys.platform == "linux":
        # other C libraries do not have it
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _switch_interval(seconds: float) -> Iterator[None]:
    """How long a thread may keep the others from running Python, and as before afterwards."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(seconds, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The same, but each is taken when the one before it is given."""
    source = iter(items)
    for before in source:
        for after in source:
            yield before
            before = after
        yield before
