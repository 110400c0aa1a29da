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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from unmask.lazy import computed_once
from unmask.tables.side import Side

# densities of contexts of some weightings, by their numbers, to those of outcomes
Step = Callable[[Tensor, Tensor], Tensor]
# one number, one per context, or one per pair of contexts, for each weighting
Numbers = Float[Tensor, " weightings"]
Vectors = Float[Tensor, "weightings _"]
Matrices = Float[Tensor, "weightings _ _"]

# detailed balance corrects a flow by this factor at most: conditionals may contradict each other
_TRUSTED = 2.0
# the law is solved to this relative residual
_TOLERANCE = 1e-10
_FIRST_STEPS, _SPAN, _MOST_ROUNDS, _SPANNED = 3, 16, 20, 1e-14
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
        flows = [self._flow(outcome) for outcome in (0, 1)]
        first, self._residuals = stationary(
            lambda laws, which: flows[0](flows[1](laws, which), which),
            torch.ones_like(self._weights[0]),
        )
        every = torch.arange(len(first))
        laws = first, flows[1](first, every)
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

    def _flow(self, outcome: int) -> Step:
        """What densities of contexts add to those of the outcomes.

        All weightings share the rows, so no matrix is made of what flows under one of them.
        """
        given, tail = 1 - outcome, self._tails[1 - outcome]
        sampled, left = self.found(outcome), self.left[outcome]
        scale = (left / sampled.clamp(min=_LEAST)).clamp(max=_TRUSTED)
        # what the scaled sample still lacks flows back too, as far as that is trusted
        kept = (1.0 - (left - scale * sampled)).clamp(min=1.0 / _TRUSTED)
        scale = scale / kept
        head, weights = torch.nonzero(~tail)[:, 0], self._weights[given]
        drawn, rows = torch.nonzero(tail)[:, 0], self.given[given]
        of_head, of_tail = rows[head], rows[drawn]

        def flow(densities: Vectors, which: Int[Tensor, " weightings"]) -> Vectors:
            masses = densities * weights[which]
            outflow = masses[:, head] @ of_head / kept[which]
            return outflow.addcmul_(masses[:, drawn] @ of_tail, scale[which])

        return flow

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


def stationary(step: Step, start: Vectors) -> tuple[Vectors, Numbers]:
    """The positive left eigenvectors of positive matrices, all by Arnoldi's method at once.

    `step` multiplies a vector of each by its matrix. Masses are counted in units of what they
    nearly are, so that a rare token's is as precise as a likely one's. Returns the largest relative
    differences in growth too: they are zero for an eigenvector and for no other positive vector.
    """
    laws, residuals = start, start.new_ones(len(start))
    unsolved = torch.arange(len(start))
    for _ in range(_FIRST_STEPS):
        laws = _normalised(step(laws, unsolved))
    for _ in range(_MOST_ROUNDS):
        better = _normalised(step(_ritz_vectors(step, laws[unsolved], unsolved), unsolved))
        growth = step(better, unsolved) / better
        top = growth.amax(dim=1)
        laws[unsolved], residuals[unsolved] = better, (top - growth.amin(dim=1)) / top
        unsolved = torch.nonzero(residuals > _TOLERANCE)[:, 0]
        if not len(unsolved):
            break
    return laws, residuals


def _ritz_vectors(step: Step, units: Vectors, which: Int[Tensor, " weightings"]) -> Vectors:
    """The best eigenvectors in what some steps from these vectors span."""
    (count, size), most = units.shape, min(_SPAN, units.shape[1])
    basis = units.new_zeros(count, most + 1, size)
    basis[:, 0] = size**-0.5
    projected = units.new_zeros(count, most + 1, most)
    for k in range(most):
        image = (step(basis[:, k] * units, which) / units)[:, None]
        # twice: once leaves the rounding of what it takes away
        for _ in range(2):
            parts = image @ basis[:, : k + 1].mT
            image = image - parts @ basis[:, : k + 1]
            projected[:, : k + 1, k] += parts[:, 0]
        length = image.norm(dim=2)
        projected[:, k + 1, k] = length[:, 0]
        # rounding alone points nowhere: the vectors so far span all that steps lead to
        basis[:, k + 1] = torch.where(length > _SPANNED, image[:, 0] / length, 0.0)
    values, vectors = torch.linalg.eig(projected[:, :most])
    best = values.real.argmax(dim=1)
    weights = vectors[torch.arange(count), :, best].real
    return _normalised((weights[:, None] @ basis[:, :most])[:, 0].abs() * units)


def _normalised(laws: Vectors) -> Vectors:
    return (laws / laws.sum(dim=1, keepdim=True)).clamp(min=_LEAST)


def _x_log_x(x: Tensor) -> Tensor:
    product: Tensor = torch.special.xlogy(x, x)
    return product
