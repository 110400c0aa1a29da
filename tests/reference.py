"""Every construction and metric, slowly, in float64, straight from the paper's equations.

Torroba Hennigen & Kim (2023). `A[a, b] = q(a | b)`, `B[a, b] = q(b | a)`, full tables of
probabilities; nothing is shared with the library, nothing is fast.
"""

import numpy as np
from numpy.typing import NDArray

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
    joint = np.empty_like(A)
    for a in range(A.shape[0]):
        for b in range(A.shape[1]):
            first = A[a, b] / A[p_a, b]
            second = B[p_a, b] / B[p_a, p_b]
            joint[a, b] = first * second
    return joint / joint.sum()


def ag(A: Table, B: Table, steps: int) -> Table:
    """Appendix C: from the uniform joint, the update for a number of steps."""
    joint = np.full_like(A, 1 / A.size)
    for _ in range(steps):
        joint = ag_step(A, B, joint)
    return joint


def ag_step(A: Table, B: Table, joint: Table) -> Table:
    r_a, r_b = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
    updated = (A + B) / (1 / r_a + 1 / r_b)
    return updated / updated.sum()


def ag_converged(A: Table, B: Table, *, tolerance: float = 1e-13, limit: int = 200_000) -> Table:
    """The same update until it stops moving the joint; fails rather than stop early."""
    joint = np.full_like(A, 1 / A.size)
    for _ in range(limit):
        updated = ag_step(A, B, joint)
        moved = np.abs(np.log(updated) - np.log(joint)).max()
        joint = updated
        if moved < tolerance:
            return joint
    raise AssertionError(f"still moving by {moved} after {limit} steps")


def ag_minimum(A: Table, B: Table, m_a: Table, m_b: Table) -> Table:
    """The same minimum by Newton's method on the whole Hessian, from given marginals."""
    point = np.log(np.concatenate([m_a, m_b]))
    for _ in range(500):
        gap = point[None, len(m_a) :] - point[: len(m_a), None]
        share_b, share_a = 1 / (1 + np.exp(-gap)), 1 / (1 + np.exp(gap))
        surplus = B * share_a - A * share_b
        gradient = np.concatenate([surplus.sum(1), -surplus.sum(0)])
        weights = (A + B) * share_a * share_b
        degree = np.concatenate([weights.sum(1), weights.sum(0)])
        hessian = np.diag(degree)
        hessian[: len(m_a), len(m_a) :] = -weights
        hessian[len(m_a) :, : len(m_a)] = -weights.T
        # scaled to a unit diagonal; the constant that the objective ignores is given a curvature
        scale = 1 / np.sqrt(degree)
        flat = 1 / scale / np.linalg.norm(1 / scale)
        scaled = hessian * np.outer(scale, scale) + np.outer(flat, flat)
        move = scale * np.linalg.solve(scaled, scale * gradient)
        move -= move[0]
        point -= move * min(1, 2 / max(np.abs(move).max(), 1e-300))
        if np.abs(move).max() < 1e-10:
            r_a, r_b = np.exp(point[: len(m_a), None]), np.exp(point[None, len(m_a) :])
            joint = (A + B) / (1 / r_a + 1 / r_b)
            return joint / joint.sum()
    raise AssertionError(f"Newton still moves by {np.abs(move).max()}")


def ag_objective(A: Table, B: Table, joint: Table) -> float:
    """The sum of the divergences of every unary conditional."""
    return sum_of_kl(A, joint / joint.sum(0), 0) + sum_of_kl(B, joint / joint.sum(1)[:, None], 1)


def sum_of_kl(p: Table, q: Table, axis: int) -> float:
    return float(kl(p, q, axis).sum())


def kl(p: Table, q: Table, axis: int) -> Table:
    return (p * (np.log(p) - np.log(q))).sum(axis)


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


def mutual_information(joint: Table) -> float:
    r_a, r_b = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
    return float((joint * (np.log(joint) - np.log(r_a) - np.log(r_b))).sum())


def entropy(joint: Table) -> float:
    return float(-(joint * np.log(joint)).sum())
