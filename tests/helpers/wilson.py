"""Wilson's interval by the roots of its equation."""

import numpy as np

Z = 1.959963984540054


def wilson_by_roots(successes: float, trials: int, z: float = Z) -> tuple[float, float]:
    """Wilson's limits are where (share - p)^2 = z^2 p (1 - p) / n."""
    share = successes / trials
    a, b, c = 1 + z**2 / trials, -(2 * share + z**2 / trials), share**2
    low, high = sorted(np.roots([a, b, c]).real)
    return float(low), float(high)
