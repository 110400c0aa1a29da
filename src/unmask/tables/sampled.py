"""Numbers of a whole vocabulary from the contexts of a sketch: its stationary law, J, entropies.

The row of a context that ran is known over the whole vocabulary, so sums over one axis need no
sample. For a token b, `left` is the exact mass of its row beyond the other blank's head, and
`sampled` is what the weighted sample finds of it. If both conditionals came from one joint, as
much would flow from those tokens back to b as flows from b to them (detailed balance). So the
inflow from the sample is scaled by left / sampled: that is exact for compatible conditionals,
whatever was drawn, and is a ratio estimator otherwise.

Replicates are the same contexts with other weights. So every number here is a tensor whose first
axis are the weightings, the sample's own first, and none is computed one by one.
Knows nothing of models, constructions or joints.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from unmask.lazy import computed_once
from unmask.tables.side import Side

# one number, one per context, or one per pair of contexts, for each weighting
Numbers = Float[Tensor, " weightings"]
Vectors = Float[Tensor, "weightings _"]
Matrices = Float[Tensor, "weightings _ _"]

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
# the weighting of the sample itself, and all of them
SAMPLE, EVERY = slice(0, 1), slice(None)
# tokens of the vocabulary that are read at once, and cells of all weightings
_BLOCK, _CELLS = 1024, 2**20


@dataclass(frozen=True)
class PairEntropies:
    """Nats, by weighting: of each blank, and of both together."""

    blanks: tuple[Numbers, Numbers]
    both: Numbers

    def __sub__(self, other: "PairEntropies") -> "PairEntropies":
        first, second = (a - b for a, b in zip(self.blanks, other.blanks, strict=True))
        return PairEntropies((first, second), self.both - other.both)


class Sampled:
    """The contexts of both blanks under several weightings, and what their rows say.

    `log_given` has for each blank what is likely at the other blank given its own tokens, contexts
    by rows, and `left` the mass of each of those rows beyond the head of the other blank. A sample
    cannot show a rare context that it does not have: a replicate adds one, or by its `sign` takes
    one away.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        log_given: Sequence[Float[Tensor, "_ _"]],
        left: Sequence[Float[Tensor, " _"]],
        log_weights: Sequence[Vectors],
        signs: Numbers,
    ) -> None:
        self.sides, self.log_given, self.left = sides, log_given, left
        self.log_weights, self._signs = log_weights, signs
        self.given = [log.exp() for log in log_given]
        self._weights = [log.exp() for log in log_weights]
        self._heads = [side.certain for side in sides]
        self._tails = [side.tail for side in sides]

    def chunks(self) -> list[slice]:
        """Weightings whose pairs of contexts are held at once."""
        size = max(1, _CELLS // self.given[0].numel())
        count = len(self._signs)
        return [slice(start, min(start + size, count)) for start in range(0, count, size)]

    # -- the stationary law

    @computed_once
    def densities(self) -> tuple[Vectors, Vectors]:
        """The stationary probability of every token that ran."""
        firsts, seconds, residuals = [], [], []
        for some in self.chunks():
            flows = [self._inflow(1, some), self._inflow(0, some)]
            first, residual = stationary(flows[0] @ flows[1])
            firsts.append(first)
            seconds.append(_images(first, flows[0]))
            residuals.append(residual)
        self._residuals = torch.cat(residuals)
        laws = torch.cat(firsts), torch.cat(seconds)
        scales = self._scales(*laws)
        return scales[0][:, None] * laws[0], scales[1][:, None] * laws[1]

    @property
    def residuals(self) -> Numbers:
        """How far each law is from its own image, relative to each token's probability."""
        self.densities  # noqa: B018
        return self._residuals

    def found(self, blank: int) -> Vectors:
        """Of each context of a blank, what the sample finds beyond the head of the other."""
        tail = self._tails[1 - blank]
        return self._weights[1 - blank][:, tail] @ self.given[blank][:, tail].T

    def _inflow(self, outcome: int, some: slice) -> Matrices:
        """By context and outcome: what a density of the context adds to that of the outcome."""
        given, tail = 1 - outcome, self._tails[1 - outcome]
        sampled, left = self.found(outcome)[some], self.left[outcome]
        scale = (left / sampled.clamp(min=_LEAST)).clamp(max=_TRUSTED)
        # what the scaled sample still lacks flows back too, as far as that is trusted
        kept = (1.0 - (left - scale * sampled)).clamp(min=1.0 / _TRUSTED)
        # what belongs to the tail has another factor, by outcome
        by_outcome = torch.where(tail[:, None], (scale / kept)[:, None], (1.0 / kept)[:, None])
        return by_outcome.mul_(self.given[given]).mul_(self._weights[given][some][:, :, None])

    def _scales(self, *laws: Vectors) -> tuple[Numbers, Numbers]:
        """The factors that make both laws sum to one.

        What lies beyond a head is what the rows of the other blank put there: H_a + sum over b of
        r_b left_b = 1, with the sum beyond the head of b taken as its own mass times a mean.
        """
        heads, beyond, means = [], [], []
        for law, head, left, blank in zip(laws, self._heads, self.left, (0, 1), strict=True):
            heads.append(law[:, head].sum(dim=1))
            beyond.append(law[:, head] @ left[head])
            means.append(self._tail_mean(blank, law, left))
        # two equations: heads[t] scales[t] + across[t] scales[1 - t] = 1 - means[1 - t]
        across = [beyond[1 - t] - heads[1 - t] * means[1 - t] for t in (0, 1)]
        determinant = heads[0] * heads[1] - across[0] * across[1]
        scales = [
            ((1.0 - means[1 - t]) * heads[1 - t] - across[t] * (1.0 - means[t])) / determinant
            for t in (0, 1)
        ]
        sound = [
            (scale > 0) & (scale * head <= 1.0) for scale, head in zip(scales, heads, strict=True)
        ]
        plain = [1.0 / (w * law).sum(dim=1) for w, law in zip(self._weights, laws, strict=True)]
        first, second = (
            torch.where(sound[0] & sound[1], *pair) for pair in zip(scales, plain, strict=True)
        )
        return first, second

    def _tail_mean(self, blank: int, law: Vectors, values: Tensor, some: slice = EVERY) -> Numbers:
        """The mean of a number over the tokens beyond the head, by their estimated mass."""
        tail = self._tails[blank]
        masses = self._weights[blank][some][:, tail] * law[:, tail]
        total = masses.sum(dim=1)
        mean = (masses * values[..., tail]).sum(dim=1) / total
        return torch.where(total > 0, mean, 0.0)

    def _beyond(self, blank: int) -> Numbers:
        """The mass beyond the head."""
        return 1.0 - self.densities[blank][:, self._heads[blank]].sum(dim=1)

    @computed_once
    def masses(self) -> tuple[Vectors, Vectors]:
        """The law as masses: a token of the tail has its share of what the head leaves."""
        first, second = (self._masses(blank) for blank in (0, 1))
        return first, second

    def _masses(self, blank: int) -> Vectors:
        tail = self._tails[blank]
        masses = (self._weights[blank] * self.densities[blank]).clamp(min=_LEAST)
        if tail.any():
            beyond = self._beyond(blank).clamp(min=_LEAST) / masses[:, tail].sum(dim=1)
            masses[:, tail] *= beyond[:, None]
        return masses

    def _mean(self, blank: int, values: Tensor, some: slice = EVERY) -> Numbers:
        """The mean of a number of each context under the law of its blank."""
        law, head = self.densities[blank][some], self._heads[blank]
        beyond = self._beyond(blank)[some].clamp(min=0.0)
        of_head = (law[:, head] * values[..., head]).sum(dim=1)
        return of_head + beyond * self._tail_mean(blank, law, values, some)

    @computed_once
    def unseen(self) -> Numbers:
        """The mean mass of a context that was drawn, with the sign of a replicate."""
        masses = [
            self._beyond(blank).clamp(min=0.0) / max(1, int(self._tails[blank].sum()))
            for blank in (0, 1)
        ]
        return self._signs * (masses[0] + masses[1]) / 2

    # -- J

    @computed_once
    def incompatibilities(self) -> Numbers:
        """J in bits, under every weighting."""
        return torch.cat([self.incompatibility(some) for some in self.chunks()])

    def incompatibility(self, some: slice = SAMPLE) -> Numbers:
        """J in bits, from rows: each is summed over the head, and its tail is scaled to its mass.

        J is the mean over both factorisations of a number between 0 and 1 per cell, so that no
        cell of the sample can outweigh the others by its logarithm.
        """
        means = [self._mean(blank, self._contradictions(blank, some), some) for blank in (0, 1)]
        return ((means[0] + means[1]) / 2 + _UNSEEN_BITS * self.unseen[some]).clamp(min=0.0)

    def _contradictions(self, blank: int, some: slice) -> Vectors:
        other = 1 - blank
        forth = self.densities[blank][some][:, :, None] * self.given[blank]
        back = self.densities[other][some][:, None] * self.given[other].T
        share = forth / (forth + back).clamp(min=_LEAST)
        bits = 1.0 + (_x_log_x(share) + _x_log_x(1.0 - share)) / torch.log(torch.tensor(2.0))
        head, tail = self._heads[other], self._tails[other]
        sums = (self.given[blank][:, head] * bits[:, :, head]).sum(dim=2)
        weighted = self.given[blank][:, tail] * self._weights[other][some][:, None, tail]
        totals = weighted.sum(dim=2).clamp(min=_LEAST)
        return sums + self.left[blank] * (weighted * bits[:, :, tail]).sum(dim=2) / totals

    # -- entropies of the two factorisations, q(a | b) r_b and q(b | a) r_a

    def cell_entropies(self) -> PairEntropies:
        """Their mean entropies from the cells of the sample."""
        (first, second, both), (first_b, second_b, both_b) = map(self._cell_entropies, (0, 1))
        return PairEntropies(((first + first_b) / 2, (second + second_b) / 2), (both + both_b) / 2)

    def _cell_entropies(self, blank: int) -> tuple[Numbers, Numbers, Numbers]:
        """Of blank 0, blank 1 and both, in the factorisation whose contexts are of one blank.

        A cell is a product of what its row, its column and its probability give, and so sums over
        cells are products of matrices.
        """
        other, given = 1 - blank, self.given[blank]
        information = torch.special.xlogy(given, given)
        own, others = self.masses[blank].new_zeros(()), torch.empty_like(self._weights[other])
        inside = self.masses[blank].new_zeros(())
        for part, factor in zip(
            (~self._tails[other], self._tails[other]), self.factors(blank), strict=True
        ):
            rows, weights = self.masses[blank] * factor, self._weights[other][:, part]
            log_weights, columns = self.log_weights[other][:, part], given[:, part]
            others[:, part] = weights * (rows @ columns)
            found = weights @ columns.T
            own = own + rows * found
            logs = weights @ information[:, part].T + (weights * log_weights) @ columns.T
            inside = inside + (rows * logs + torch.special.xlogy(rows, rows) * found).sum(dim=1)
        total = own.sum(dim=1)
        both = total.log() - inside / total
        totals = [one / total[:, None] for one in ((own, others) if blank == 0 else (others, own))]
        # a mass is spread over as many tokens as it represents
        spread = [(m * log).sum(dim=1) for m, log in zip(totals, self.log_weights, strict=True)]
        first, second = (
            more - _x_log_x(m).sum(dim=1) for m, more in zip(totals, spread, strict=True)
        )
        return first, second, spread[0] + spread[1] + both

    def factors(self, blank: int) -> tuple[Vectors, Vectors]:
        """By context, what turns weighted probabilities of the head and of the tail into masses.

        The head stays as it is; the tail is scaled to its mass, which is known.
        """
        others = ~self._tails[1 - blank]
        of_head = self._weights[1 - blank][:, others] @ self.given[blank][:, others].T
        if bool(others.all()):
            return 1.0 / of_head, torch.zeros_like(of_head)
        total = of_head + self.left[blank]
        return 1.0 / total, self.left[blank] / (self.found(blank).clamp(min=_LEAST) * total)


def row_entropies(
    sampled: Sampled, rows: Sequence[Sequence[Float32[Tensor, " vocabulary"]]]
) -> PairEntropies:
    """The same entropies from whole rows.

    A row gives its own entropy exactly. The entropy of the other blank's law is the mean over rows
    of the cross entropy with that law, which the rows add up to. There a context of the sample
    counts once in its own cross entropy, not as often as it has weight: the tokens that it
    represents have other partners. That correction is as uncertain as it is large: of the
    replicates, one half leaves it out and the other applies it twice.
    """
    # contexts of one blank tell the entropy of the other
    (second, own_second), (first, own_first) = (_row_entropies(sampled, rows[t], t) for t in (0, 1))
    both = (first + own_second + second + own_first) / 2
    more = _UNSEEN_BLANK * sampled.unseen
    return PairEntropies((first + more, second + more), both + _UNSEEN_BOTH * sampled.unseen)


def _row_entropies(sampled: Sampled, rows: Sequence[Tensor], blank: int) -> tuple[Numbers, Numbers]:
    """The entropy of the other blank's law, and the mean entropy of rows."""
    other = 1 - blank
    head, tail = sampled._heads[other], torch.nonzero(sampled._tails[blank])[:, 0]
    places, heads = sampled.sides[other].places[head], sampled.densities[other][:, head]
    masses = sampled._weights[blank] * sampled.densities[blank]
    beyond = (1.0 - heads.sum(dim=1)).clamp(min=_LEAST)
    masses = masses * (beyond / (masses @ sampled.left[blank]).clamp(min=_LEAST))[:, None]
    excess = masses[0, tail] * (1.0 - 1.0 / sampled._weights[blank][0, tail])
    applied = torch.tensor([1.0, *(2.0 * (number % 2) for number in range(len(masses) - 1))])
    own = masses.new_zeros(len(rows))
    cross = masses.new_zeros(len(masses), len(rows))
    for start in range(0, len(rows[0]), _BLOCK):
        log_p = torch.stack([row[start : start + _BLOCK] for row in rows]).double()
        p = log_p.exp()
        law = masses @ p
        here = (places >= start) & (places < start + _BLOCK)
        law[:, places[here] - start] = heads[:, here]
        log_law = law.clamp(min=_LEAST).log()
        own -= torch.where(p > 0, p * log_p, 0.0).sum(dim=1)
        cross -= log_law @ p.T
        drawn = torch.ones(p.shape[1], dtype=torch.bool)
        drawn[places[here] - start] = False
        mine = p[tail][:, drawn]
        # what is left of the law holds the context itself once
        rest = (law[0, drawn] - excess[:, None] * mine).clamp(min=_LEAST)
        rest = torch.maximum(rest, (masses[0, tail] - excess)[:, None] * mine)
        once = (mine * (rest.log() - log_law[0, drawn])).sum(dim=1)
        cross[:, tail] -= applied.double()[:, None] * once
    return sampled._mean(blank, cross), sampled._mean(blank, own)


def stationary(
    flows: Float[Tensor, "weightings contexts contexts"],
) -> tuple[Vectors, Numbers]:
    """The positive left eigenvectors of positive matrices, by Noda's inverse iteration.

    The shift is the largest growth of any token, an upper bound of the eigenvalue, so that every
    iterate stays positive. Returns the relative residuals too.
    """
    count, size = flows.shape[:2]
    laws = flows.new_full((count, size), 1.0 / size)
    for _ in range(_POWER_STEPS):
        laws = _normalised(_images(laws, flows))
    residuals = flows.new_zeros(count)
    unsolved = torch.arange(count)
    for _ in range(_MOST_STEPS):
        growth = _images(laws[unsolved], flows) / laws[unsolved]
        top = growth.amax(dim=1)
        residuals[unsolved] = (top - growth.amin(dim=1)) / top
        left = residuals[unsolved] > _TOLERANCE
        if not bool(left.any()):
            break
        if not bool(left.all()):
            unsolved, top, flows = unsolved[left], top[left], flows[left]
        # column-major, as the solver wants it
        systems = flows.neg().mT
        systems.diagonal(dim1=1, dim2=2).add_(top[:, None] * (1 + 1e-14))
        factors, pivots, _ = torch.linalg.lu_factor_ex(systems)
        for _ in range(_INNER_STEPS):
            solved = torch.linalg.lu_solve(factors, pivots, laws[unsolved][:, :, None])
            laws[unsolved] = _normalised(solved[:, :, 0].abs())
    return laws, residuals


def _images(laws: Vectors, flows: Matrices) -> Vectors:
    return torch.bmm(laws[:, None], flows)[:, 0]


def _normalised(laws: Vectors) -> Vectors:
    return (laws / laws.sum(dim=1, keepdim=True)).clamp(min=_LEAST)


def _x_log_x(x: Tensor) -> Tensor:
    product: Tensor = torch.special.xlogy(x, x)
    return product
