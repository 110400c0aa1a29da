"""Trees that join places by their strongest dependences. Knows matrices, no model.

A matrix is symmetric; NaN is no edge. An edge is two places, the smaller first.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UnmaskError

Edge = tuple[int, int]
Matrix = NDArray[np.float64]
_APART = "the map leaves places apart, so no tree joins them all; give a larger window, or none"


def projective_tree(values: Matrix) -> list[Edge]:
    """The tree over all places with the largest sum of values, by Eisner's algorithm.

    Its edges do not cross when they are drawn above the text. The first place is the root: no edge
    passes over it, so every tree without crossings is found.
    """
    weights = np.where(np.isnan(values), -np.inf, values)
    np.fill_diagonal(weights, -np.inf)
    size = len(weights)
    # spans from one place to another, headed at the left or the right end: with all that belongs
    # to the head on that side (whole), or with the edge between both ends just drawn (open)
    whole, joined = np.zeros((2, size, size)), np.full((size, size), -np.inf)
    cut, split = np.zeros((2, size, size), dtype=int), np.zeros((size, size), dtype=int)
    left, right = whole
    for width in range(1, size):
        for start in range(size - width):
            end = start + width
            halves = left[start, start:end] + right[start + 1 : end + 1, end]
            split[start, end] = start + int(halves.argmax())
            joined[start, end] = halves.max() + weights[start, end]
            # both directions of an edge weigh the same, so that one table of open spans is enough
            by_left = joined[start, start + 1 : end + 1] + left[start + 1 : end + 1, end]
            by_right = right[start, start:end] + joined[start:end, end]
            cut[0, start, end] = start + 1 + int(by_left.argmax())
            cut[1, start, end] = start + int(by_right.argmax())
            left[start, end], right[start, end] = by_left.max(), by_right.max()
    if size > 1 and left[0, size - 1] == -np.inf:
        raise UnmaskError(_APART)
    return sorted(_followed(cut, split, size))


def _followed(cut: NDArray[np.int_], split: NDArray[np.int_], size: int) -> Iterable[Edge]:
    """The edges of the best whole span over everything."""
    rest: list[tuple[int, int, int | None]] = [(0, size - 1, 0)]
    while rest:
        start, end, side = rest.pop()
        if start == end:
            continue
        if side is None:
            yield start, end
            middle = int(split[start, end])
            rest += [(start, middle, 0), (middle + 1, end, 1)]
        elif side == 0:
            middle = int(cut[0, start, end])
            rest += [(start, middle, None), (middle, end, 0)]
        else:
            middle = int(cut[1, start, end])
            rest += [(start, middle, 1), (middle, end, None)]
