"""Cases of a test of which the gate runs only some."""

from collections.abc import Iterable

import pytest


def thinned(values: Iterable[object], every: int) -> list[object]:
    """Each `every`-th value runs in the gate, the others are marked `long`."""
    return [
        value if place % every == 0 else pytest.param(value, marks=pytest.mark.long)
        for place, value in enumerate(values)
    ]
