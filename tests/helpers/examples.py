"""One table of examples for every law and every comparison: four kinds of conditional tables."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import reference
import torch
from numpy.typing import NDArray

import unmask

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """Raw logits of both tables [a, b], the doubly masked distributions, and what is known."""

    name: str
    logits_A: Array
    logits_B: Array
    m_a: Array
    m_b: Array
    truth: Array | None = None

    @property
    def A(self) -> Array:
        return reference.softmax(self.logits_A, 0)

    @property
    def B(self) -> Array:
        return reference.softmax(self.logits_B, 1)

    @property
    def gold(self) -> tuple[int, int]:
        return self.A.shape[0] // 2, self.A.shape[1] // 3

    def tables(self, **options: int) -> unmask.PairTables:
        """The same tables as the library keeps them: float32 logits."""
        return unmask.PairTables.from_logits(
            unmask.DenseLogits(torch.tensor(self.logits_A, dtype=torch.float32)),
            unmask.DenseLogits(torch.tensor(self.logits_B, dtype=torch.float32)),
            marginals=unmask.MaskedMarginals(
                torch.tensor(np.log(self.m_a)), torch.tensor(np.log(self.m_b))
            ),
            **options,
        )

    def swapped(self) -> "Example":
        return Example(
            self.name, self.logits_B.T, self.logits_A.T, self.m_b, self.m_a, _t(self.truth)
        )

    def relabelled(self, order_a: Array, order_b: Array) -> "Example":
        cells = np.ix_(order_a, order_b)
        return Example(
            self.name,
            self.logits_A[cells],
            self.logits_B[cells],
            self.m_a[order_a],
            self.m_b[order_b],
        )


def random(rows: int, columns: int, seed: int) -> Example:
    rng = np.random.default_rng(seed)
    logits_A, logits_B = rng.normal(0, 2, (2, rows, columns))
    return _example(f"random-{rows}x{columns}", logits_A, logits_B, rng)


def heavy_tailed(rows: int, columns: int, seed: int) -> Example:
    """Low rank, with Zipf-like biases: what a language model's tables look like."""
    rng = np.random.default_rng(seed)
    width = 8
    left_A, left_B = rng.standard_t(4, (2, rows, width))
    right_A, right_B = rng.standard_t(4, (2, columns, width))
    bias_a = -1.2 * np.log(1 + rng.permutation(rows))
    bias_b = -1.2 * np.log(1 + rng.permutation(columns))
    logits_A = left_A @ right_A.T / 2 + bias_a[:, None]
    logits_B = left_B @ right_B.T / 2 + bias_b
    return _example(f"heavy-tailed-{rows}x{columns}", logits_A, logits_B, rng)


def compatible(rows: int, columns: int, seed: int) -> Example:
    """Both conditionals of one joint, each context's logits shifted at will."""
    rng = np.random.default_rng(seed)
    truth = reference.softmax(rng.normal(0, 1.5, (rows, columns)), (0, 1))
    logits_A = np.log(truth) + rng.normal(0, 3, columns)
    logits_B = np.log(truth) + rng.normal(0, 3, (rows, 1))
    name = f"compatible-{rows}x{columns}"
    return Example(name, _f32(logits_A), _f32(logits_B), truth.sum(1), truth.sum(0), truth)


def near_deterministic(rows: int, columns: int, seed: int) -> Example:
    """One outcome a context, with probabilities down to 1e-30 elsewhere."""
    rng = np.random.default_rng(seed)
    logits_A, logits_B = rng.uniform(-69, -40, (2, rows, columns))
    logits_A[rng.integers(rows, size=columns), np.arange(columns)] = 0
    logits_B[np.arange(rows), rng.integers(columns, size=rows)] = 0
    return _example(f"near-deterministic-{rows}x{columns}", logits_A, logits_B, rng)


def peaked(rows: int, columns: int, seed: int) -> Example:
    """One outcome a context near 1, the rest from e^-5 down to e^-69."""
    rng = np.random.default_rng(seed)
    logits_A, logits_B = rng.uniform(-69, -5, (2, rows, columns))
    logits_A[rng.integers(rows, size=columns), np.arange(columns)] = 0
    logits_B[np.arange(rows), rng.integers(columns, size=rows)] = 0
    return _example(f"peaked-{rows}x{columns}", logits_A, logits_B, rng)


def build(method: str, example: Example, **options: object) -> unmask.Joint:
    """A joint of the example."""
    return unmask.construct(method, example.tables(), **options)


def converged(joint: unmask.Joint) -> bool:
    """Whether it was found; what needs no finding always is."""
    return bool(joint.diagnostics.get("converged", True))


def error(joint: unmask.Joint, right: Array) -> float:
    """The largest difference of log-probabilities, over pairs that are not negligible."""
    return float(np.abs(log_table(joint) - np.log(right))[right > 1e-12].max())


def tolerance(*intermediates: Array) -> float:
    """1e-5 plus four units in the last place of float32 at the largest intermediate."""
    largest = max(float(np.abs(values).max()) for values in intermediates)
    return 1e-5 + 4 * float(np.spacing(np.float32(largest)))


def log_table(joint: unmask.Joint) -> Array:
    """All cells of a joint, normalised."""
    return joint.log_rows(slice(0, joint.shape[0])).numpy()


def _example(name: str, logits_A: Array, logits_B: Array, rng: np.random.Generator) -> Example:
    m_a, m_b = rng.dirichlet(np.ones(len(logits_A))), rng.dirichlet(np.ones(logits_A.shape[1]))
    return Example(name, _f32(logits_A), _f32(logits_B), m_a, m_b)


def _f32(logits: Array) -> Array:
    """Rounded as the library stores it, so that both sides see the same tables."""
    return logits.astype(np.float32).astype(np.float64)


def _t(table: Array | None) -> Array | None:
    return None if table is None else table.T


KINDS: dict[str, Callable[[int, int, int], Example]] = {
    "random": random,
    "heavy-tailed": heavy_tailed,
    "compatible": compatible,
    "near-deterministic": near_deterministic,
}

# the last kind is replaced by one whose rare outcomes are rounded far better than they are small
SOLVABLE = {**{kind: KINDS[kind] for kind in list(KINDS)[:3]}, "peaked": peaked}

SHAPES = [(2, 2), (2, 5), (7, 3), (40, 40), (150, 90), (300, 300)]

EXAMPLES = [
    make(rows, columns, seed)
    for make in KINDS.values()
    for seed, (rows, columns) in enumerate(SHAPES)
]
