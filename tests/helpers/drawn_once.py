"""Resamples of so many sentences, which are the same at every call, are drawn once."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pytest

from unmask.resampling import Resampling


@contextmanager
def drawing_once() -> Iterator[None]:
    """A page compares the same sentences by many numbers, and most of its time is drawing."""
    counts = Resampling.counts

    # of 10,000 resamples of 500 sentences each is 40 MB
    @lru_cache(maxsize=4)
    def drawn(resampling: Resampling, count: int) -> tuple[Any, ...]:
        return tuple(counts(resampling, count))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Resampling, "counts", drawn)
        yield
