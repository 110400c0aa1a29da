"""The stationary law of pseudo-Gibbs sampling (Heckerman et al. 2000), computed and not sampled.

The sampler draws a random blank anew given all the others. Its law mu is the mean over the blanks
of q(x_t | x_-t) mu_-t; for two blanks its marginals solve r_a = A r_b and r_b = B' r_a. It is the
dominant eigenvector of a matrix of positive numbers, of which a product takes a sweep over the
tables. Power iteration mixes as slowly as the sampler, so small laws come from elimination and
large ones from Arnoldi's method.

Both work to relative accuracy: a rare token's probability is as precise as a likely one's.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs
from torch import Tensor

from unmask.errors import UndeterminedWarning, warn
from unmask.progress import Bar
from unmask.tables.law import Factors, Law
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import probabilities
from unmask.tables.protocol import Tables

Vector = NDArray[np.float64]

# states of which the whole matrix is made
_DENSE = 500
# the law is determined where its relative error is below this
_DETERMINED = 1e-9
# probabilities below this may be less precise
_NEGLIGIBLE = 1e-30
# keeps logarithms finite
_LEAST = 1e-300
# relative rounding of a sum of positive products
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
# products before the first eigenvectors, for the size of every probability
_FIRST_STEPS = 3
# of the eigenvectors, each time computed anew and scaled by better probabilities. The gap decides
# only where it is small: elsewhere the second eigenvalue need not be precise, and in the dense bulk
# of a random matrix it takes hundreds of products to become so
_TOLERANCES, _WIDE_GAP = (1e-3, 0.0, 0.0), 0.05
_RESTARTS = 30
# plain steps after the eigenvectors, as long as they change a probability
_LAST_STEPS = 12


@dataclass(eq=False)
class _Chain:
    """Masses of states: where they start, one sweep over the tables, and the law they stand for."""

    start: Tensor
    step: Callable[[Tensor], Tensor]
    log_others: Callable[[Tensor], Factors]
    bar: Bar
    count: int = 0

    def __call__(self, masses: Vector) -> Vector:
        """The masses after one sweep, which is counted."""
        self.count += 1
        after: Vector = self.step(self.on_device(masses)).cpu().numpy()
        self.bar.update(1)
        return after

    def on_device(self, masses: Vector) -> Tensor:
        """Masses on the device of the tables."""
        return torch.from_numpy(masses).to(self.start.device)

    def normalised(self, masses: Vector) -> Vector:
        """One step, with a sum of one and no mass lost to underflow."""
        after = self(masses)
        normalised: Vector = np.maximum(after / after.sum(), _LEAST)
        return normalised


def stationary_law(tables: Tables) -> Law:
    """The law of these tables, solved once for all joints that use it."""
    if tables.law is None:
        with tables.bar("stationary law") as bar:
            if isinstance(tables, PairTables):
                tables.law = _solved(_of_two(tables, bar))
            else:
                tables.law = _solved(_of_several(tables, bar))
    return tables.law


def _solved(chain: _Chain) -> Law:
    start: Vector = np.maximum(chain.start.cpu().numpy(), _LEAST)
    masses, gap = (_eliminated if len(start) <= _DENSE else _by_arnoldi)(chain, start)
    masses = chain.normalised(masses)
    after = chain.normalised(masses)
    residual = _relative_change(masses, after)
    converged = max(residual, _ROUNDING) / gap < _DETERMINED if gap > 0 else False
    if not converged:
        warn(
            "the stationary law is not determined: groups of tokens hardly meet, and rounding "
            "decides how much each holds; J is missing, and log-pool is a guess",
            UndeterminedWarning,
        )
    return Law(chain.log_others(chain.on_device(after)), chain.count, residual, converged)


def _eliminated(chain: _Chain, start: Vector) -> tuple[Vector, float]:
    """The law by elimination without subtractions (Grassmann, Taksar & Heyman 1985).

    It is right to rounding however rarely groups of states meet, so the gap is no concern; it is
    zero where some states cannot be left at all.
    """
    size = len(start)
    flow, law = chain(np.eye(size)).T, np.ones(size)
    with np.errstate(all="ignore"):
        for k in range(size - 1, 0, -1):
            flow[:k, k] /= flow[k, :k].sum()
            flow[:k, :k] += np.outer(flow[:k, k], flow[k, :k])
        for k in range(1, size):
            law[k] = law[:k] @ flow[:k, k]
    if not np.isfinite(law.sum()):
        return start, 0.0
    return law / law.sum(), 1.0


def _by_arnoldi(chain: _Chain, start: Vector) -> tuple[Vector, float]:
    """The law as an eigenvector, and the gap to the next eigenvalue, which bounds its error.

    Masses are counted in units of what they nearly are, so that all have the same precision. An
    error in the balance of groups that hardly meet is the rounding over the gap.
    """
    first = start
    for _ in range(_FIRST_STEPS):
        first = chain.normalised(first)
    units = first
    for tolerance in _TOLERANCES:

        def step(masses: Vector, units: Vector = units) -> Vector:
            return chain(units * masses.reshape(-1)) / units

        operator = LinearOperator((len(start), len(start)), matvec=step, dtype=np.float64)
        try:
            vector, gap = _leading(operator, tolerance)
        except ArpackError:
            return first, 0.0
        if tolerance and gap < _WIDE_GAP:
            continue
        units = chain.normalised(np.maximum(vector * units, _LEAST))
        if gap <= _ROUNDING / _DETERMINED:
            return first, 0.0
        for _ in range(_LAST_STEPS):
            before, units = units, chain.normalised(units)
            if _relative_change(before, units) < _DETERMINED * gap:
                return units, gap
    return units, gap


def _leading(operator: LinearOperator, tolerance: float) -> tuple[Vector, float]:
    """The first eigenvector, and by how much its eigenvalue, which is one, exceeds the second."""
    # a start of one's own: the default is random, and two calls would differ. It has a share in
    # every direction, so that groups of tokens that hardly meet do not pass for one
    start = 1.0 + 0.5 * np.cos(np.arange(operator.shape[0]))
    values, vectors = eigs(operator, k=2, v0=start, maxiter=_RESTARTS, tol=tolerance)
    order = np.argsort(-np.abs(values))
    vector: Vector = np.abs(vectors[:, order[0]].real)
    return vector, 1.0 - float(np.abs(values[order[1]]))


def _relative_change(before: Vector, after: Vector) -> float:
    counted = np.maximum(before, after) > _NEGLIGIBLE
    return float(np.abs(after[counted] / before[counted] - 1).max())


def _of_two(tables: PairTables, bar: Bar) -> _Chain:
    """The marginal of the blank with fewer tokens, drawn anew by way of the other."""
    source = probabilities(tables)
    smaller = int(tables.shape[1] < tables.shape[0])

    def log_others(masses: Tensor) -> Factors:
        each = [masses, source.given(1 - smaller, masses)]
        log_a, log_b = (law.clamp(min=_LEAST).log() for law in (each[::-1] if smaller else each))
        return log_b[None], log_a[:, None]

    return _Chain(
        _masked_or_uniform(tables, smaller).reshape(-1),
        lambda masses: source.given(smaller, source.given(1 - smaller, masses)),
        log_others,
        bar,
    )


def _of_several(tables: Tables, bar: Bar) -> _Chain:
    """The law of whole fills: a random blank is drawn anew."""
    shape, blanks = tables.shape, range(len(tables.shape))
    conditionals = [tables.log_given_others(t).exp()[..., None] for t in blanks]

    def step(masses: Tensor) -> Tensor:
        fills = masses.reshape(*shape, -1)
        drawn = sum(q * fills.sum(dim=t, keepdim=True) for t, q in enumerate(conditionals))
        assert isinstance(drawn, Tensor)
        return (drawn / len(shape)).reshape(masses.shape)

    def log_others(masses: Tensor) -> Factors:
        fills = masses.reshape(shape)
        return tuple(fills.sum(dim=t, keepdim=True).clamp(min=_LEAST).log() for t in blanks)

    start = torch.ones((), dtype=torch.float64)
    for t in blanks:
        start = start * _masked_or_uniform(tables, t)
    return _Chain(start.reshape(-1), step, log_others, bar)


def _masked_or_uniform(tables: Tables, blank: int) -> Tensor:
    """The starting masses of a blank: they decide only how soon the law is found."""
    if tables.has_masked():
        return tables.log_masked(blank).double().exp()
    shape = [size if t == blank else 1 for t, size in enumerate(tables.shape)]
    device = tables.log_normalizer(0).device
    return torch.full(shape, 1 / tables.shape[blank], dtype=torch.float64, device=device)
