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

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.lazy import computed_once
from unmask.logspace import row_blocks

# densities of contexts of some weightings, by their numbers, to those of outcomes
Step = Callable[[Tensor, Tensor], Tensor]
# some columns of the rows of the contexts of a blank: log-probabilities in float64
Read = Callable[[slice], Float[Tensor, "contexts some"]]
# one number, one per context, or one per pair of contexts, for each weighting
Numbers = Float[Tensor, " weightings"]
Vectors = Float[Tensor, "weightings _"]
Matrices = Float[Tensor, "weightings _ _"]
# nats: of the first blank, of the second, and of both together
Entropies = Float[Tensor, "3 weightings"]

# detailed balance corrects a flow by this factor at most: conditionals may contradict each other
_TRUSTED = 2.0
# the law is solved to this relative residual, and counts as solved below the second
_TOLERANCE, _SOLVED = 1e-10, 1e-8
_FIRST_STEPS, _FEWEST_STEPS, _SPAN, _MOST_ROUNDS, _SPANNED = 2, 4, 32, 20, 1e-14
# replicates have so many contexts more or fewer that nobody hints at, each with the mean mass of a
# drawn one; for the mass of one, they may add so many bits to J, and nats to the entropy of a blank
# and of both together. Chosen on dev pairs
_UNSEEN, _UNSEEN_BITS, _UNSEEN_BLANK, _UNSEEN_BOTH = 2.0, 0.5, 7.0, 10.0
# keeps masses that no context supports within the range of float64
_LEAST = 1e-280
# the log weight of a token that adds nothing to sums, but has a probability
_NO_WEIGHT = -60.0
# the weighting of the sample itself
SAMPLE = slice(0, 1)
# tokens of the vocabulary that are read at once
_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Side:
    """The contexts of one blank, in the order of its axis; the tail has weights above one."""

    places: Int[Tensor, " size"]
    log_weights: Float[Tensor, " size"]
    tail: Bool[Tensor, " size"]
    # the head: weight one and not a probe
    certain: Bool[Tensor, " size"]

    def with_probes(self, probes: Sequence[int]) -> "Side":
        """The same with probes: tokens that have a probability and no weight in sums."""
        present = set(self.places.tolist())
        new = torch.tensor([p for p in dict.fromkeys(probes) if p not in present], dtype=torch.long)
        weights = torch.full((len(new),), _NO_WEIGHT, dtype=torch.float64)
        places = torch.cat([self.places, new])
        order = torch.argsort(places)
        log_weights, no = torch.cat([self.log_weights, weights]), torch.zeros(len(new)).bool()
        tail, certain = (torch.cat([flags, no])[order] for flags in (self.tail, self.certain))
        return Side(places[order], log_weights[order], tail, certain)

    def reweighted(self, generators: Sequence[torch.Generator]) -> Float[Tensor, "weightings size"]:
        """Logarithms of the weights, and of others that vary as those of other samples would.

        A token that stands for w others was drawn with probability 1 / w: multiplying its weight by
        a factor of mean one and variance 1 - 1 / w gives every sum the variance of the sample.
        """
        log_w = self.log_weights[self.tail]
        drawn = log_w.new_empty(len(generators), len(log_w))
        for row, generator in zip(drawn, generators, strict=True):
            # exponential: of mean and variance one, and never negative
            row.exponential_(generator=generator)
        factors = 1.0 + (-torch.expm1(-log_w)).sqrt() * (drawn - 1.0)
        changed = self.log_weights.repeat(1 + len(generators), 1)
        changed[1:, self.tail] += factors.clamp(min=1e-12).log()
        return changed


class Sampled:
    """The contexts of both blanks under several weightings, and what their rows say.

    `log_given` has for each blank what is likely at the other blank given its own tokens, contexts
    by rows, and `left` the mass of each of those rows beyond the head of the other blank. A sample
    cannot show a rare context that it does not have: a replicate has more of them, or by its `sign`
    fewer.
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
        # of each context of a blank, what the sample finds beyond the head of the other
        self._found = [
            weights[:, side.tail] @ rows[:, side.tail].T
            for weights, side, rows in zip(
                self._weights[::-1], sides[::-1], self.given, strict=True
            )
        ]
        self.densities, self.residuals = self._solved()

    # -- the stationary law

    def _solved(self) -> tuple[tuple[Vectors, Vectors], Numbers]:
        """The stationary probability of every token that ran, and how far each law is from solved.

        That is its distance from its own image, relative to each token's probability.
        """
        flows = []
        for outcome, side in enumerate(self.sides[::-1]):
            sampled, left = self._found[outcome], self.left[outcome]
            scale = (left / sampled.clamp(min=_LEAST)).clamp(max=_TRUSTED)
            # what the scaled sample still lacks flows back too, as far as that is trusted
            trusted = (1.0 - (left - scale * sampled)).clamp(min=1.0 / _TRUSTED)
            factors = self._weights[1 - outcome], 1.0 / trusted, scale / trusted
            head, drawn = (torch.nonzero(part)[:, 0] for part in (~side.tail, side.tail))
            rows = self.given[1 - outcome]
            flows.append(partial(_inflow, factors, (head, rows[head]), (drawn, rows[drawn])))
        first, residuals = stationary(
            lambda laws, which: flows[0](flows[1](laws, which), which),
            torch.ones_like(self._weights[0]),
        )
        return self._scaled(first, flows[1](first, torch.arange(len(first)))), residuals

    def is_solved(self, number: int = 0) -> bool:
        """True if the law of one weighting is what its contexts say."""
        return float(self.residuals[number]) < _SOLVED

    def _scaled(self, *laws: Vectors) -> tuple[Vectors, Vectors]:
        """Both laws, scaled to sum to one; replicates have more or less mass beyond their heads.

        What lies beyond a head is what the rows of the other blank put there: H_a + sum over b of
        r_b left_b = 1, with the sum beyond the head of b taken as its own mass times a mean.
        """
        heads, beyond, means = [], [], []
        for law, side, weights, left in zip(
            laws, self.sides, self._weights, self.left, strict=True
        ):
            head, tail = side.certain, side.tail
            heads.append(law[:, head].sum(dim=1))
            beyond.append(law[:, head] @ left[head])
            drawn = weights[:, tail] * law[:, tail]
            means.append(drawn @ left[tail] / drawn.sum(dim=1).clamp(min=_LEAST))
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
        scaled: list[Vectors] = []
        for law, side, pair in zip(laws, self.sides, zip(scales, plain, strict=True), strict=True):
            whole = torch.where(sound[0] & sound[1], *pair)[:, None] * law
            more = (1.0 + _UNSEEN / max(1, int(side.tail.sum()))) ** self._signs[:, None]
            rest = 1.0 - whole[:, side.certain].sum(dim=1, keepdim=True)
            with_unseen = whole * torch.where(side.certain, 1.0, more)
            with_unseen = with_unseen / (1.0 + rest * (more - 1.0))
            scaled.append(with_unseen if side.tail.any() else whole)
        return scaled[0], scaled[1]

    @computed_once
    def masses(self) -> tuple[Vectors, Vectors]:
        """The law as masses: a token of the tail has its share of what the head leaves."""
        laws = self.densities
        each = [(w * law).clamp(min=_LEAST) for w, law in zip(self._weights, laws, strict=True)]
        for masses, law, side in zip(each, laws, self.sides, strict=True):
            beyond = (1.0 - law[:, side.certain].sum(dim=1)).clamp(min=_LEAST)
            tail = masses[:, side.tail]
            masses[:, side.tail] = tail * (beyond / tail.sum(dim=1))[:, None]
        return each[0], each[1]

    @computed_once
    def unseen(self) -> Numbers:
        """The mean mass of a context that was drawn, with the sign of a replicate."""
        drawn = [
            masses[:, side.tail].sum(dim=1) / max(1, int(side.tail.sum()))
            for masses, side in zip(self.masses, self.sides, strict=True)
        ]
        return self._signs * (drawn[0] + drawn[1]) / 2

    # -- J

    @computed_once
    def incompatibilities(self) -> Numbers:
        """J in bits, under every weighting."""
        # weightings whose pairs of contexts are held at once
        chunks = row_blocks(len(self._signs), self.given[0].numel())
        return torch.cat([self.incompatibility(chunk) for chunk in chunks])

    def incompatibility(self, some: slice = SAMPLE) -> Numbers:
        """J in bits, from rows: each is summed over the head, and its tail is scaled to its mass.

        J is the mean over both factorisations of a number between 0 and 1 per cell, so that no
        cell of the sample can outweigh the others by its logarithm.
        """
        means = [
            (self.masses[blank][some] * self._contradictions(blank, some)).sum(dim=1)
            for blank in (0, 1)
        ]
        return ((means[0] + means[1]) / 2 + _UNSEEN_BITS * self.unseen[some]).clamp(min=0.0)

    def _contradictions(self, blank: int, weightings: slice) -> Vectors:
        other = 1 - blank
        forth = self.densities[blank][weightings][:, :, None] * self.given[blank]
        back = self.densities[other][weightings][:, None] * self.given[other].T
        share = forth / (forth + back).clamp(min=_LEAST)
        nats = torch.special.entr(share) + torch.special.entr(1.0 - share)
        bits: Tensor = 1.0 - nats / math.log(2)
        head, tail = self.sides[other].certain, self.sides[other].tail
        sums = (self.given[blank][:, head] * bits[:, :, head]).sum(dim=2)
        weighted = self.given[blank][:, tail] * self._weights[other][weightings][:, None, tail]
        totals = weighted.sum(dim=2).clamp(min=_LEAST)
        return sums + self.left[blank] * (weighted * bits[:, :, tail]).sum(dim=2) / totals

    # -- cells

    def factors(self, blank: int) -> tuple[Vectors, Vectors]:
        """By context, what turns weighted probabilities of the head and of the tail into masses.

        The head stays as it is; the tail is scaled to its mass, which is known.
        """
        others = ~self.sides[1 - blank].tail
        of_head = self._weights[1 - blank][:, others] @ self.given[blank][:, others].T
        if bool(others.all()):
            return 1.0 / of_head, torch.zeros_like(of_head)
        total = of_head + self.left[blank]
        return 1.0 / total, self.left[blank] / (self._found[blank].clamp(min=_LEAST) * total)


def row_entropies(sampled: Sampled, read: Sequence[Read], shape: Sequence[int]) -> Entropies:
    """The mean entropies of both factorisations, q(a | b) r_b and q(b | a) r_a, from whole rows.

    `read` gives log-probabilities from the rows of the contexts of each blank; the vocabulary has
    the sizes of `shape`.

    A row gives its own entropy exactly. The entropy of the other blank's law is the mean over rows
    of the cross entropy with that law, which the rows add up to. There a context of the sample
    counts once in its own cross entropy, not as often as it has weight: the tokens that it
    represents have other partners. That correction is as uncertain as it is large: of the
    replicates, one half leaves it out and the other applies it twice.
    """
    # contexts of one blank tell the entropy of the other
    (second, own_second), (first, own_first) = (
        _row_entropies(sampled, read[t], t, shape[1 - t]) for t in (0, 1)
    )
    both = (first + own_second + second + own_first) / 2
    unseen = torch.tensor([_UNSEEN_BLANK, _UNSEEN_BLANK, _UNSEEN_BOTH])[:, None] * sampled.unseen
    return torch.stack([first, second, both]) + unseen


def _row_entropies(
    sampled: Sampled, read: Read, blank: int, vocabulary: int
) -> tuple[Numbers, Numbers]:
    """The entropy of the other blank's law, and the mean entropy of rows."""
    other = 1 - blank
    head, tail = sampled.sides[other].certain, torch.nonzero(sampled.sides[blank].tail)[:, 0]
    places, heads = sampled.sides[other].places[head], sampled.densities[other][:, head]
    masses = sampled._weights[blank] * sampled.densities[blank]
    beyond = (1.0 - heads.sum(dim=1)).clamp(min=_LEAST)
    masses = masses * (beyond / (masses @ sampled.left[blank]).clamp(min=_LEAST))[:, None]
    excess = masses[0, tail] * (1.0 - 1.0 / sampled._weights[blank][0, tail])
    applied = torch.tensor([1.0, *(2.0 * (number % 2) for number in range(len(masses) - 1))])
    cross, entropies = torch.zeros_like(masses), masses.new_zeros(masses.shape[1])
    for start in range(0, vocabulary, _BLOCK):
        log_p = read(slice(start, start + _BLOCK))
        p = log_p.exp()
        law = masses @ p
        here = (places >= start) & (places < start + _BLOCK)
        law[:, places[here] - start] = heads[:, here]
        log_law = law.clamp(min=_LEAST).log()
        entropies -= torch.where(p > 0, p * log_p, 0.0).sum(dim=1)
        cross -= log_law @ p.T
        drawn = torch.ones(p.shape[1], dtype=torch.bool)
        drawn[places[here] - start] = False
        mine = p[tail][:, drawn]
        # what is left of the law holds the context itself once
        rest = (law[0, drawn] - excess[:, None] * mine).clamp(min=_LEAST)
        rest = torch.maximum(rest, (masses[0, tail] - excess)[:, None] * mine)
        once = (mine * (rest.log() - log_law[0, drawn])).sum(dim=1)
        cross[:, tail] -= applied.double()[:, None] * once
    law = sampled.masses[blank]
    return (law * cross).sum(dim=1), law @ entropies


def _inflow(
    factors: tuple[Vectors, Vectors, Vectors],
    head: tuple[Int[Tensor, " some"], Float[Tensor, "some outcomes"]],
    drawn: tuple[Int[Tensor, " others"], Float[Tensor, "others outcomes"]],
    densities: Vectors,
    which: Int[Tensor, " weightings"],
) -> Vectors:
    """The densities of outcomes from those of contexts, under some weightings by their numbers.

    All weightings share the rows of the head and of what was drawn, so no matrix is made of what
    flows under one of them: contexts have weights, and outcomes a factor for each part.
    """
    # a copy of what all weightings have costs more than their products
    every = len(which) == len(factors[0])
    weights, of_head, of_drawn = factors if every else (part[which] for part in factors)
    masses = densities * weights
    inflow = (masses[:, head[0]] @ head[1]).mul_(of_head)
    return inflow.addcmul_(masses[:, drawn[0]] @ drawn[1], of_drawn)


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
    """The best eigenvectors in what some steps from these vectors span.

    Weightings of one sample mix alike: the first says when all have steps enough.
    """
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
        steps = k + 1
        if steps >= _FEWEST_STEPS:
            value, vector = _leading(projected[:1, :steps, :steps])
            if float(length[0, 0] * vector[0, -1].abs()) * size**0.5 < _TOLERANCE * float(value[0]):
                break
    weights = _leading(projected[:, :steps, :steps])[1]
    return _normalised((weights[:, None] @ basis[:, :steps])[:, 0].abs() * units)


def _leading(matrices: Matrices) -> tuple[Numbers, Vectors]:
    """The largest eigenvalues, and their eigenvectors."""
    values, vectors = torch.linalg.eig(matrices)
    best = values.real.argmax(dim=1)
    each = torch.arange(len(best))
    return values.real[each, best], vectors[each, :, best].real


def _normalised(laws: Vectors) -> Vectors:
    return (laws / laws.sum(dim=1, keepdim=True)).clamp(min=_LEAST)
