"""Numbers of a whole vocabulary from the contexts of a sketch: its stationary law, J, entropies.

The row of a context that ran is known over the whole vocabulary, so sums over one axis need no
sample. For a token b, `left` is the exact mass of its row beyond the other blank's head, and
`sampled` is what the weighted sample finds of it. If both conditionals came from one joint, as
much would flow from those tokens back to b as flows from b to them (detailed balance). So the
inflow from the sample is scaled by left / sampled: that is exact for compatible conditionals,
whatever was drawn, and is a ratio estimator otherwise.

Knows nothing of models, constructions or joints.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from torch import Tensor

from unmask.lazy import computed_once
from unmask.tables.side import Side

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# detailed balance corrects a flow by this factor at most: conditionals may contradict each other
_TRUSTED = 2.0
# the law is solved to this relative residual
_TOLERANCE = 1e-10
_POWER_STEPS, _MOST_STEPS, _INNER_STEPS = 20, 30, 3
# what a context that was not drawn may add, for a mass as that of a drawn one: bits of J, nats of
# the entropy of a blank and of both together. Chosen on dev pairs
_UNSEEN_BITS, _UNSEEN_BLANK, _UNSEEN_BOTH = 0.5, 0.8, 1.1
# keeps masses that no context supports within the range of float64
_LEAST = 1e-280
# tokens of the vocabulary that are read at once
_BLOCK = 1024


@dataclass(frozen=True)
class PairEntropies:
    """Nats: of each blank, and of both together."""

    blanks: tuple[float, float]
    both: float

    def __sub__(self, other: "PairEntropies") -> "PairEntropies":
        first, second = (a - b for a, b in zip(self.blanks, other.blanks, strict=True))
        return PairEntropies((first, second), self.both - other.both)


class Sampled:
    """The contexts of both blanks with their weights, and what their rows say.

    `given` has for each blank the probabilities of the other blank's tokens given its own, contexts
    by rows, and `left` the mass of each of those rows beyond the head of the other blank. A sample
    cannot show a rare context that it does not have: a replicate adds one, or by its `sign` takes
    one away.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        given: Sequence[Matrix],
        left: Sequence[Vector],
        sign: int = 0,
    ) -> None:
        self.sides, self._given, self._left, self._sign = sides, given, left, sign
        self._weights = [side.log_weights.exp().numpy() for side in sides]
        self._heads = [side.certain.numpy() for side in sides]
        self._tails = [side.tail.numpy() for side in sides]

    def weighted(self, sides: tuple[Side, Side], sign: int) -> "Sampled":
        """The same contexts with other weights, and one more or one fewer."""
        return Sampled(sides, self._given, self._left, sign)

    # -- the stationary law

    @computed_once
    def densities(self) -> tuple[Vector, Vector]:
        """The stationary probability of every token that ran."""
        flows = [self._inflow(1), self._inflow(0)]
        first, self._residual = _stationary(flows[0] @ flows[1])
        second = first @ flows[0]
        scales = self._scales(first, second)
        return scales[0] * first, scales[1] * second

    @property
    def residual(self) -> float:
        """How far the law is from its own image, relative to each token's probability."""
        self.densities  # noqa: B018
        return self._residual

    def _inflow(self, outcome: int) -> Matrix:
        """By context and outcome: what a density of the context adds to that of the outcome."""
        given, tail = 1 - outcome, self._tails[1 - outcome]
        sampled = self._given[outcome][:, tail] @ self._weights[given][tail]
        left = self._left[outcome]
        scale = np.minimum(left / np.maximum(sampled, _LEAST), _TRUSTED)
        # what the scaled sample still lacks flows back too, as far as that is trusted
        kept = np.maximum(1.0 - (left - scale * sampled), 1.0 / _TRUSTED)
        weights = self._weights[given][:, None] * np.where(tail[:, None], scale, 1.0)
        flow: Matrix = weights * self._given[given] / kept
        return flow

    def _scales(self, first: Vector, second: Vector) -> tuple[float, float]:
        """The factors that make both laws sum to one.

        What lies beyond a head is what the rows of the other blank put there: H_a + sum over b of
        r_b left_b = 1, with the sum beyond the head of b taken as its own mass times a mean.
        """
        heads, outside, means = [], [], []
        for blank, law in enumerate((first, second)):
            head, left = self._heads[blank], self._left[blank]
            heads.append(law[head].sum())
            outside.append(law[head] @ left[head])
            means.append(self._tail_mean(blank, law, left))
        system = [
            [heads[0], outside[1] - heads[1] * means[1]],
            [outside[0] - heads[0] * means[0], heads[1]],
        ]
        scales = _solved(np.array(system), 1.0 - np.array(means[::-1]))
        if (scales > 0).all() and (scales * heads <= 1.0).all():
            return float(scales[0]), float(scales[1])
        totals = [
            weights @ law for weights, law in zip(self._weights, (first, second), strict=True)
        ]
        return 1.0 / float(totals[0]), 1.0 / float(totals[1])

    def _tail_mean(self, blank: int, law: Vector, values: Vector) -> float:
        """The mean of a number over the tokens beyond the head, by their estimated mass."""
        tail = self._tails[blank]
        masses = self._weights[blank][tail] * law[tail]
        total = float(masses.sum())
        return float(masses @ values[tail]) / total if total > 0 else 0.0

    @computed_once
    def masses(self) -> tuple[Vector, Vector]:
        """The law as masses: a token of the tail has its share of what the head leaves."""
        first, second = (self._masses(blank) for blank in (0, 1))
        return first, second

    def _masses(self, blank: int) -> Vector:
        law, tail = self.densities[blank], self._tails[blank]
        masses: Vector = np.maximum(self._weights[blank] * law, _LEAST)
        if tail.any():
            beyond = max(1.0 - float(law[self._heads[blank]].sum()), _LEAST)
            masses[tail] *= beyond / masses[tail].sum()
        return masses

    def _mean(self, blank: int, values: Vector) -> float:
        """The mean of a number of each context under the law of its blank."""
        law, head = self.densities[blank], self._heads[blank]
        beyond = max(0.0, 1.0 - float(law[head].sum()))
        return float(law[head] @ values[head]) + beyond * self._tail_mean(blank, law, values)

    @computed_once
    def unseen(self) -> float:
        """The mean mass of a context that was drawn, with the sign of a replicate."""
        masses = []
        for blank in (0, 1):
            beyond = max(0.0, 1.0 - float(self.densities[blank][self._heads[blank]].sum()))
            masses.append(beyond / max(1, int(self._tails[blank].sum())))
        return self._sign * sum(masses) / 2

    # -- J

    def incompatibility(self) -> float:
        """J in bits, from rows: each is summed over the head, and its tail is scaled to its mass.

        J is the mean over both factorisations of a number between 0 and 1 per cell, so that no
        cell of the sample can outweigh the others by its logarithm.
        """
        mean = np.mean([self._mean(blank, self._contradictions(blank)) for blank in (0, 1)])
        return max(0.0, float(mean) + _UNSEEN_BITS * self.unseen)

    def _contradictions(self, blank: int) -> Vector:
        other = 1 - blank
        forth = self.densities[blank][:, None] * self._given[blank]
        back = (self.densities[other][:, None] * self._given[other]).T
        share = forth / np.maximum(forth + back, _LEAST)
        bits = 1.0 + (_x_log_x(share) + _x_log_x(1.0 - share)) / np.log(2)
        head, tail = self._heads[other], self._tails[other]
        sums: Vector = (self._given[blank][:, head] * bits[:, head]).sum(axis=1)
        weighted = self._given[blank][:, tail] * self._weights[other][tail]
        totals = np.maximum(weighted.sum(axis=1), _LEAST)
        sums += self._left[blank] * (weighted * bits[:, tail]).sum(axis=1) / totals
        return sums

    # -- entropies of the two factorisations, q(a | b) r_b and q(b | a) r_a

    def cell_entropies(self, log_masses: Sequence[Float[Tensor, "_ _"]]) -> PairEntropies:
        """Their mean entropies from the cells of the sample, given the tables of log masses."""
        each = []
        for blank, log_given in enumerate(log_masses):
            table = log_given.exp().numpy() * self.masses[blank][:, None]
            each.append(self._entropies(table if blank == 0 else table.T))
        first, second = (np.mean([one.blanks[blank] for one in each]) for blank in (0, 1))
        return PairEntropies(
            (float(first), float(second)), float(np.mean([one.both for one in each]))
        )

    def _entropies(self, table: Matrix) -> PairEntropies:
        table = table / table.sum()
        log_weights = [side.log_weights.numpy() for side in self.sides]
        sums = [table.sum(axis=1), table.sum(axis=0)]
        # a mass is spread over as many tokens as it represents
        spread = [float(total @ log) for total, log in zip(sums, log_weights, strict=True)]
        first, second = (
            more - float(_x_log_x(total).sum()) for total, more in zip(sums, spread, strict=True)
        )
        return PairEntropies((first, second), sum(spread) - float(_x_log_x(table).sum()))


def row_entropies(
    samples: Sequence[Sampled], rows: Sequence[Sequence[Float32[Tensor, " vocabulary"]]]
) -> list[PairEntropies]:
    """The same entropies from whole rows, of several samples that differ in weights alone.

    A row gives its own entropy exactly. The entropy of the other blank's law is the mean over rows
    of the cross entropy with that law, which the rows add up to. There a context of the first
    sample counts once in its own cross entropy, not as often as it has weight: the tokens that it
    represents have other partners. That correction is as uncertain as it is large: of the others,
    one half leaves it out and the other applies it twice.
    """
    laws, own = zip(*(_row_entropies(samples, rows[t], t) for t in (0, 1)), strict=True)
    entropies = []
    for number, sample in enumerate(samples):
        # contexts of one blank tell the entropy of the other
        first, second = float(laws[1][number]), float(laws[0][number])
        both = (first + float(own[0][number]) + second + float(own[1][number])) / 2
        more = _UNSEEN_BLANK * sample.unseen
        entropies.append(
            PairEntropies((first + more, second + more), both + _UNSEEN_BOTH * sample.unseen)
        )
    return entropies


def _row_entropies(
    samples: Sequence[Sampled], rows: Sequence[Tensor], blank: int
) -> tuple[list[float], list[float]]:
    """Of every sample: the entropy of the other blank's law, and the mean entropy of rows."""
    first, other = samples[0], 1 - blank
    head = first._heads[other]
    places = first.sides[other].places.numpy()[head]
    heads = np.stack([one.densities[other][head] for one in samples])
    masses = np.stack([one._weights[blank] * one.densities[blank] for one in samples])
    beyond = np.maximum(1.0 - heads.sum(axis=1), _LEAST)
    masses *= (beyond / np.maximum(masses @ first._left[blank], _LEAST))[:, None]
    tail = np.flatnonzero(first._tails[blank])
    excess = masses[0][tail] * (1.0 - 1.0 / first._weights[blank][tail])
    applied = np.array([1.0, *(2.0 * (number % 2) for number in range(len(samples) - 1))])
    own = np.zeros(len(rows))
    cross = np.zeros((len(rows), len(samples)))
    for start in range(0, len(rows[0]), _BLOCK):
        log_p = torch.stack([row[start : start + _BLOCK] for row in rows]).double().numpy()
        p = np.exp(log_p)
        law = masses @ p
        here = (places >= start) & (places < start + _BLOCK)
        law[:, places[here] - start] = heads[:, here]
        log_law = np.log(np.maximum(law, _LEAST))
        own -= (p * log_p).sum(axis=1)
        cross -= p @ log_law.T
        drawn = np.ones(p.shape[1], dtype=bool)
        drawn[places[here] - start] = False
        mine = p[tail][:, drawn]
        # what is left of the law holds the context itself once
        rest = np.maximum(law[0][drawn] - excess[:, None] * mine, _LEAST)
        rest = np.maximum(rest, (masses[0][tail] - excess)[:, None] * mine)
        cross[tail] -= np.outer((mine * (np.log(rest) - log_law[0][drawn])).sum(axis=1), applied)
    return (
        [one._mean(blank, cross[:, number]) for number, one in enumerate(samples)],
        [one._mean(blank, own) for one in samples],
    )


def _stationary(flow: Matrix) -> tuple[Vector, float]:
    """The positive left eigenvector of a positive matrix, by Noda's inverse iteration.

    The shift is the largest growth of any token, an upper bound of the eigenvalue, so that every
    iterate stays positive. Returns the relative residual too.
    """
    size = len(flow)
    law = np.full(size, 1.0 / size)
    for _ in range(_POWER_STEPS):
        law = _normalised(law @ flow)
    for _ in range(_MOST_STEPS):
        growth = law @ flow / law
        top = float(growth.max())
        residual = (top - float(growth.min())) / top
        if residual <= _TOLERANCE:
            break
        factors = lu_factor(top * (1 + 1e-14) * np.eye(size) - flow.T, check_finite=False)
        for _ in range(_INNER_STEPS):
            law = _normalised(np.abs(lu_solve(factors, law, check_finite=False)))
    return law, residual


def _normalised(law: Vector) -> Vector:
    normalised: Vector = np.maximum(law / law.sum(), _LEAST)
    return normalised


def _solved(system: Matrix, wanted: Vector) -> Vector:
    try:
        return np.asarray(np.linalg.solve(system, wanted), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.full(len(wanted), -1.0)


def _x_log_x(x: NDArray[np.float64]) -> NDArray[np.float64]:
    product: NDArray[np.float64] = x * np.log(np.maximum(x, _LEAST))
    return product
