"""How examples are resampled for a bootstrap: how often each is drawn, whatever is made of them.

Counts and not values, as `scipy.stats.bootstrap` draws: sums over sentences and weighted ranks are
products with them, and several methods see the same draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UnmaskError
from unmask.printable import quoted

# the ends of an interval: it covers 95% of the resamples
PERCENTILES = (2.5, 97.5)
# counts of so many cells are held at once: 32 MB
_CELLS = 2**22


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How often examples are resampled, and from which seed."""

    resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < 1:
            raise UnmaskError(f"resamples is a number from 1, not {quoted(self.resamples)}")
        if self.seed < 0:
            raise UnmaskError(f"seed is a number from 0, not {quoted(self.seed)}")

    def counts(self, count: int) -> Iterator[NDArray[np.float64]]:
        """How often each of `count` examples was drawn with replacement, a line per resample."""
        generator = np.random.default_rng(self.seed)
        step = max(1, _CELLS // count)
        for start in range(0, self.resamples, step):
            lines = min(step, self.resamples - start)
            picks = generator.integers(count, size=(lines, count))
            picks += np.arange(lines)[:, None] * count
            times = np.bincount(picks.ravel(), minlength=lines * count)
            yield times.reshape(lines, count).astype(np.float64)
