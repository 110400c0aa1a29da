"""Every construction and metric, slowly, in float64, straight from its equation.

Those of Torroba Hennigen & Kim (2023) first. `A[a, b] = q(a | b)`, `B[a, b] = q(b | a)`, full
tables of probabilities; nothing is shared with the library, nothing is fast.
"""

import numpy as np
from numpy.typing import NDArray
from reference_law import stationary
from scipy.special import xlog1py

Table = NDArray[np.float64]


def softmax(logits: Table, axis: int | tuple[int, ...]) -> Table:
    weights = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def conditionals(logits_A: Table, logits_B: Table) -> tuple[Table, Table]:
    return softmax(logits_A, 0), softmax(logits_B, 1)


def mlm(m_a: Table, m_b: Table) -> Table:
    """Equation 1: the product of the distributions with both blanks masked."""
    return np.outer(m_a, m_b)


def mrf(A: Table, B: Table) -> Table:
    """Equation 2: the product of the unary conditionals, renormalised."""
    joint = A * B
    return joint / joint.sum()


def mrf_logit(logits_A: Table, logits_B: Table) -> Table:
    """The variant whose log potential is the sum of the unary logits."""
    return softmax(logits_A + logits_B, (0, 1))


def hcb(A: Table, B: Table, pivot: tuple[int, int]) -> Table:
    """Equation 3 with S = {1, 2}: token t is read with tokens after it and pivots before it."""
    p_a, p_b = pivot
    # entry [a, b] is A[a, b] / A[p_a, b] times B[p_a, b] / B[p_a, p_b]
    joint = (A / A[p_a]) * (B[p_a] / B[p_a, p_b])
    return joint / joint.sum()


def ag(A: Table, B: Table, steps: int) -> Table:
    """Appendix C: from the uniform joint, the update for a number of steps."""
    joint = np.full_like(A, 1 / A.size)
    counts = A + B
    for _ in range(steps):
        ag_step(counts, joint)
    return joint


def ag_step(counts: Table, joint: Table) -> None:
    """joint = (A + B) / (1 / r_a + 1 / r_b), normalised, in place: memory for it is slow to get."""
    r_a, r_b = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
    np.add(1 / r_a, 1 / r_b, out=joint)
    np.divide(counts, joint, out=joint)
    joint /= joint.sum()


def ag_converged(A: Table, B: Table, *, tolerance: float = 1e-13, limit: int = 200_000) -> Table:
    """The same update until it stops moving the joint; fails rather than stop early."""
    joint = np.full_like(A, 1 / A.size)
    counts = A + B
    for _ in range(limit):
        updated = joint.copy()
        ag_step(counts, updated)
        moved = np.abs(np.log(updated) - np.log(joint)).max()
        joint = updated
        if moved < tolerance:
            return joint
    raise AssertionError(f"still moving by {moved} after {limit} steps")


def kl(p: Table, q: Table, axis: int) -> Table:
    return (p * (np.log(p) - np.log(q))).sum(axis)


def log_pool(A: Table, B: Table) -> Table:
    """The geometric mean of the two factorisations at the stationary marginals."""
    r_a, r_b = stationary(A, B)
    joint = np.sqrt(A) * np.sqrt(B) * np.sqrt(np.outer(r_a, r_b))
    return joint / joint.sum()


def orders(A: Table, B: Table, m_a: Table, m_b: Table, mean: str) -> Table:
    """The two ways to fill the blanks one after the other, averaged."""
    b_first, a_first = A * m_b, B * m_a[:, None]
    if mean == "arithmetic":
        return (b_first + a_first) / 2
    joint = np.sqrt(b_first) * np.sqrt(a_first)
    return joint / joint.sum()


def incompatibility(A: Table, B: Table) -> float:
    """The Jensen-Shannon divergence, in bits, of the two factorisations at stationarity."""
    r_a, r_b = stationary(A, B)
    return jensen_shannon(A * r_b, B * r_a[:, None])


def jensen_shannon(p: Table, q: Table) -> float:
    """In bits, summed from terms that are never negative."""
    middle = (p + q) / 2
    tilt = (p - q) / (p + q)
    terms = xlog1py(1 + tilt, tilt) + xlog1py(1 - tilt, -tilt)
    return float((middle * terms).sum() / 2 / np.log(2))


def metrics(
    joint: Table, A: Table, B: Table, gold: tuple[int, int], *, own_unary: bool = False
) -> dict[str, float]:
    """Section 3, for one example; perplexities as their logarithms."""
    a, b = gold
    a_given_b, b_given_a = joint / joint.sum(0), joint / joint.sum(1)[:, None]
    kl_A, kl_B = kl(A, a_given_b, 0), kl(B, b_given_a, 1)
    unary = (A, B) if own_unary else (a_given_b, b_given_a)
    return {
        "pairwise_nll": -np.log(joint[a, b]) / 2,
        "unary_nll": -(np.log(unary[0][a, b]) + np.log(unary[1][a, b])) / 2,
        "all_kl": (kl_A.sum() + kl_B.sum()) / (len(kl_A) + len(kl_B)),
        "gold_kl": (kl_A[b] + kl_B[a]) / 2,
    }
