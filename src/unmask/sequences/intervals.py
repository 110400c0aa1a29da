"""Certified intervals for the mean of numbers in [0, 1]."""

import math
from collections.abc import Callable


def chernoff_interval(mean: float, samples: int, confidence: float) -> tuple[float, float]:
    """An interval that holds the true mean with at least this probability.

    Chernoff's bound for variables in [0, 1] (Hoeffding, 1963, theorem 1): the means q with
    n KL(mean || q) <= log(2 / (1 - confidence)), half of what may fail on either side. The lower
    end is 0 where it is too small for a float64.
    """
    limit = math.log(2 / (1 - confidence)) / samples

    def outside(q: float) -> bool:
        return binary_divergence(mean, q) > limit

    lower = 0.0 if mean <= 0 else _boundary(outside, mean, 0.0, _geometric_middle)
    upper = 1.0 if mean >= 1 else _boundary(outside, mean, 1.0, _middle)
    return lower, upper


def binary_divergence(p: float, q: float) -> float:
    """KL divergence between two coins, in nats; both may be tiny."""
    if not 0 < q < 1:
        return 0.0 if p == q else math.inf
    heads = p * (math.log(p) - math.log(q)) if p > 0 else 0.0
    tails = (1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0
    return heads + tails


def _boundary(
    outside: Callable[[float], bool],
    inside: float,
    far: float,
    middle_of: Callable[[float, float], float],
) -> float:
    """Between a point inside and one outside, the nearest that is known to be outside."""
    while True:
        middle = middle_of(inside, far)
        if not min(inside, far) < middle < max(inside, far):
            return far
        if outside(middle):
            far = middle
        else:
            inside = middle


def _middle(one: float, other: float) -> float:
    return one + (other - one) / 2


def _geometric_middle(inside: float, far: float) -> float:
    # a small end is orders of magnitude away, and nothing is halfway to zero
    return math.sqrt(inside) * math.sqrt(far) if far > 0 else inside * 1e-8
