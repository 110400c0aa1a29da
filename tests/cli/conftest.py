"""Commands are run many times with the same few models, which can be read once."""

from collections.abc import Iterator

import pytest
from read_once import reading_once


@pytest.fixture(scope="module")
def read_once() -> Iterator[None]:
    """For files of tests that change no network: a test would find it as the last has left it."""
    with reading_once():
        yield
