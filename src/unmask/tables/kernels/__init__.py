"""One read of both tables per pass, compiled: the sums of the plain passes, many times faster.

Needs numba (the extra `fast`); without it, or off the CPU, callers fall back on torch. This module
can be imported without it, the others cannot. Work is cut into a fixed number of bands, so that
results do not depend on the number of threads.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
# float32, or bfloat16 seen as unsigned integers
Table = NDArray[np.float32] | NDArray[np.uint16]

# compiling takes seconds: tables of fewer cells are read sooner by plain passes
FEWEST_CELLS = 2**20
# the same where a process ends with one text, and what was compiled with it
_FEWEST_CELLS_OF_ONE_TEXT = 2**26
# rows that a kernel takes at once: they share what is read of the columns, and one division
GROUP = 4
_BANDS = 16
# kernels divide once for four sums of two exponentials: their product must stay within float64,
# also where the largest is a marginal and not one
_LEAST_LOG = -150.0


@cache
def available() -> bool:
    """Whether numba is installed."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def worthwhile(tile: torch.Tensor, cells: int | None = None) -> bool:
    """Whether compiled passes can and should read this, all or a part of a table of `cells`."""
    large = (cells or tile.numel()) >= FEWEST_CELLS
    is_supported = tile.dtype in (torch.float32, torch.bfloat16)
    plain = tile.device.type == "cpu" and is_supported and tile.is_contiguous()
    return large and plain and available()


@contextmanager
def for_one_text() -> Iterator[None]:
    """While a process answers its only text: compile where that text alone pays for it."""
    global FEWEST_CELLS
    before, FEWEST_CELLS = FEWEST_CELLS, _FEWEST_CELLS_OF_ONE_TEXT
    try:
        yield
    finally:
        FEWEST_CELLS = before


def in_range(log_a: Vector, log_b: Vector) -> bool:
    """Whether kernels may work with the exponentials of these."""
    highest = max(log_a.max(), log_b.max())
    return bool(max(log_a.min(), log_b.min()) - highest > _LEAST_LOG)


@cache
def bands(rows: int) -> tuple[tuple[int, int], ...]:
    """The row ranges that are summed apart, then together: whole groups, except the last."""
    groups = -(-rows // GROUP)
    edges = [min(rows, GROUP * (groups * k // _BANDS)) for k in range(_BANDS + 1)]
    return tuple((start, stop) for start, stop in pairwise(edges) if start < stop)


def each_band(rows: int, run: Callable[[int, int, int], None]) -> None:
    """Run every band, on as many threads as torch uses; numba lets go of the interpreter."""
    # shared: a thread that is done takes the next band, without waking another
    left = iter([(number, *ends) for number, ends in enumerate(bands(rows))])

    def work() -> None:
        for band in left:
            run(*band)

    helpers = torch.get_num_threads() - 1
    others = [_pool(helpers).submit(work) for _ in range(helpers)]
    work()
    for other in others:
        other.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="unmask")


if hasattr(os, "register_at_fork"):
    # a forked process has the pool but not its threads, and would wait for them for ever
    os.register_at_fork(after_in_child=_pool.cache_clear)
