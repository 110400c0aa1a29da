"""How far a toy contradicts itself, in float64 straight from the definitions."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from toy_lm import ToyMaskedLM

Matrix = NDArray[np.float64]


def log_probs(model: ToyMaskedLM, row: list[int], place: int) -> Matrix:
    """The model's log-probabilities at one place of a row."""
    logits = model._logits(row, place)
    return np.array(logits - np.log(np.exp(logits).sum()))


def masked(model: ToyMaskedLM, ids: list[int], places: tuple[int, ...]) -> list[int]:
    return [model.mask_id if place in places else token for place, token in enumerate(ids)]


def tables(
    model: ToyMaskedLM, ids: list[int], first: int, second: int
) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """q(a | b) and q(b | a), laid out [a, b], and both marginals."""
    size, both = model.vocabulary_size, masked(model, ids, (first, second))
    a_given_b, b_given_a = np.empty((size, size)), np.empty((size, size))
    for token in range(size):
        row = list(both)
        row[second] = token
        a_given_b[:, token] = np.exp(log_probs(model, row, first))
        row = list(both)
        row[first] = token
        b_given_a[token] = np.exp(log_probs(model, row, second))
    m_a, m_b = (np.exp(log_probs(model, both, place)) for place in (first, second))
    return a_given_b, b_given_a, m_a, m_b


def stationary(a_given_b: Matrix, b_given_a: Matrix) -> tuple[Matrix, Matrix]:
    """The marginals where pseudo-Gibbs sampling settles, by power iteration."""
    r_a = np.full(len(a_given_b), 1 / len(a_given_b))
    for _ in range(20_000):
        r_a = a_given_b @ (b_given_a.T @ r_a)
    return r_a, b_given_a.T @ r_a


def jensen_shannon(p: Matrix, q: Matrix) -> float:
    """In bits."""
    middle = (p + q) / 2
    return sum(float((x[x > 0] * np.log2(x[x > 0] / middle[x > 0])).sum()) / 2 for x in (p, q))


def answers(
    a_given_b: Matrix, b_given_a: Matrix, m_a: Matrix, m_b: Matrix, at: tuple[int, int]
) -> dict[str, float]:
    """Every number of a pair of blanks."""
    i, j = at
    r_a, r_b = stationary(a_given_b, b_given_a)
    forth, back = a_given_b * r_b, b_given_a * r_a[:, None]
    pool = np.sqrt(forth * back)
    pool /= pool.sum()
    independent = np.outer(pool.sum(axis=1), pool.sum(axis=0))
    mean_a, mean_b = a_given_b @ m_b, b_given_a.T @ m_a
    joints = [
        m_a[:, None] * b_given_a,
        m_b * a_given_b,
        mean_a[:, None] * b_given_a,
        mean_b * a_given_b,
    ]
    assert all(abs(one.sum() - 1) < 1e-9 for one in joints)
    return {
        "incompatibility": jensen_shannon(forth, back),
        "mutual_information": float((pool * np.log2(pool / independent)).sum()),
        "marginal_divergence": (jensen_shannon(m_a, mean_a) + jensen_shannon(m_b, mean_b)) / 2,
        "first_then_second": math.log(joints[0][i, j]),
        "second_then_first": math.log(joints[1][i, j]),
        "independent": math.log(m_a[i] * m_b[j]),
        "pseudo_gibbs": math.log((forth[i, j] + back[i, j]) / 2),
        "log_pool": math.log(pool[i, j]),
        "ensemble": math.log(sum(one[i, j] for one in joints) / 4),
    }


def along(model: ToyMaskedLM, ids: list[int], order: tuple[int, ...]) -> float:
    """The log-probability of a text whose tokens are revealed in an order."""
    total = 0.0
    for step, place in enumerate(order):
        row = masked(model, ids, order[step:])
        total += float(log_probs(model, row, place)[ids[place]])
    return total


def all_orders(model: ToyMaskedLM, ids: list[int]) -> list[float]:
    """That by every order there is."""
    return [along(model, ids, one) for one in itertools.permutations(range(len(ids)))]
