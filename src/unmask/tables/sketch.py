"""Two blanks over a whole vocabulary from some hundred contexts.

A forward pass gives a whole conditional, so that only contexts cost, and nearly all of a vocabulary
carries no mass in a given text. A sketch runs the likeliest tokens of each blank, its head, and a
sample of the others, its tail, in which a token stands for as many as its weight says. A table
whose cells are multiplied by the weights of its outcomes is again a conditional table, of masses:
constructions whose cells are products of such masses do not know that they read a sketch, and the
probability of a fill is its mass divided by the weights of its tokens.

Proposals are means over the contexts that ran, and a locked pair hides from every mean: while
"other" has not run, hardly any mass flows to "each", and the other way round. A maximum sees it.
So each round also runs partners: tokens that one context alone makes likely.

The mass of the tail under each context is known exactly, since the context's whole row is: only how
it is shared out among the tail is estimated. Other weights, drawn as the sample was, say how far
that can be trusted.
"""

import math
from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.lazy import computed_once
from unmask.logspace import highest, row_blocks
from unmask.tables.conditional import DenseLogits
from unmask.tables.law import Law
from unmask.tables.marginals import MaskedMarginals
from unmask.tables.pair_tables import PairTables
from unmask.tables.sampled import Entropies, Sampled, Side, row_entropies

# contexts per blank of the first sweep, by which the others are proposed
_FIRST = 50
# sweeps between both blanks over the contexts that have run
_SWEEPS = 3
# part of a proposal that is the doubly masked distribution, so that what is possible can be drawn
_DEFENSIVE = 0.1
# part of the contexts that is the head
_HEAD = 0.5
# a context wants a token that it makes at least so likely; the part of the contexts that may run
# because they are wanted; and how often wanted tokens may want others
_WANTED, _PARTNERS, _TURNS = 0.2, 0.15, 2
# other weights that the sample might have had
REPLICATES = 32
_LEAST_LOG = -1e4

# tokens of both blanks that have a probability and no weight in sums
Probes = tuple[tuple[int, ...], tuple[int, ...]]
NO_PROBES: Probes = ((), ())


class SketchedPair:
    """A growing set of contexts of both blanks, and the tables of masses that they give.

    `whole` are tables over the whole vocabulary that have not been elicited; `given` are places of
    tokens that are always in the head.
    """

    def __init__(
        self,
        whole: PairTables,
        *,
        seed: int = 0,
        given: Sequence[Sequence[int]] = ((), ()),
        replicates: int = REPLICATES,
    ) -> None:
        self.whole, self._seed, self._given = whole, seed, given
        self._replicates = replicates
        masked = whole.masked
        self._masked = [log.cpu().double().exp() for log in (masked.log_a, masked.log_b)]
        self._proposal = list(self._masked)
        self._generator = torch.Generator().manual_seed(seed)
        # the contexts that have run, and the numbers of their rows
        self._rows: tuple[dict[int, int], dict[int, int]] = ({}, {})
        # the rows, as they came: how likely each token of the other blank is, and its logarithm
        self._p: tuple[list[Tensor], list[Tensor]] = ([], [])
        self._log_p: tuple[list[Tensor], list[Tensor]] = ([], [])
        # how likely the context that wants it most makes each token, as a logarithm
        self._wanted = [torch.full(log.shape, -math.inf) for log in self._masked]
        # the contexts and their weights, by probes
        self._gathered: dict[Probes, Sampled] = {}

    @property
    def forward_passes(self) -> int:
        """Those of the contexts that have run, and of the masked text."""
        return 1 + sum(map(len, self._rows))

    def grow(self, size: int) -> None:
        """Have so many contexts per blank: all that have run are certain, the sample is new.

        More than have run: otherwise there is no sample.
        """
        heads = [
            list(dict.fromkeys((*rows, *certain)))
            for rows, certain in zip(self._rows, self._given, strict=True)
        ]
        wanted, step = round(_HEAD * size), max(_FIRST, *map(len, self._rows))
        partners = [round(_PARTNERS * size)] * 2
        while True:
            step = min(step, wanted)
            for blank in (0, 1):
                count = step - len(heads[blank])
                heads[blank] += _highest(self._proposal[blank], count, heads[blank])
            self._run(heads)
            for blank in (0, 1) * _TURNS:
                # at least one context is left to the sample
                room = min(partners[blank], size - 1 - len(heads[blank]))
                new = _highest(self._wanted[blank], room, heads[blank], math.log(_WANTED))
                partners[blank] -= len(new)
                heads[blank] += new
                self._run(((), new) if blank else (new, ()))
            self._sweep()
            if step >= wanted:
                break
            step *= 2
        first, second = (self._drawn(blank, heads[blank], size) for blank in (0, 1))
        self._run((first.places.tolist(), second.places.tolist()))
        self.sides, self._gathered = (first, second), {}
        self.__dict__.pop("entropies", None)

    def _run(self, contexts: Sequence[Sequence[int]]) -> None:
        """Run the rows of these contexts of both blanks."""
        new = [
            [place for place in dict.fromkeys(places) if place not in rows]
            for places, rows in zip(contexts, self._rows, strict=True)
        ]
        if not any(new):
            return
        for blank, rows in enumerate(self.whole.log_rows(new[::-1], dtype=torch.float32)[::-1]):
            if new[blank]:
                log_p, ran = rows.cpu(), len(self._rows[blank])
                self._rows[blank].update(zip(new[blank], range(ran, ran + len(log_p)), strict=True))
                self._log_p[blank].append(log_p)
                self._p[blank].append(log_p.exp())
                torch.maximum(
                    self._wanted[1 - blank], log_p.amax(dim=0), out=self._wanted[1 - blank]
                )

    def _sweep(self) -> None:
        """Propose contexts by the conditionals of those that have run."""
        contexts = [torch.tensor(list(rows)) for rows in self._rows]
        proposal = list(self._proposal)
        for _ in range(_SWEEPS):
            swept = []
            for masses, places, blocks in zip(proposal, contexts, self._p, strict=True):
                share = (masses[places] / masses[places].sum()).float()
                parts = zip(share.split([len(p) for p in blocks]), blocks, strict=True)
                sums = torch.stack([part @ p for part, p in parts])
                swept.append(sums.sum(dim=0, dtype=torch.float64))
            proposal = swept[::-1]
        self._proposal = [
            (1 - _DEFENSIVE) * masses / masses.sum() + _DEFENSIVE * masked
            for masses, masked in zip(proposal, self._masked, strict=True)
        ]

    def _drawn(self, blank: int, head: Sequence[int], size: int) -> Side:
        """A priority sample of what is not in the head (Duffield, Lund & Thorup 2007).

        Each token has a uniform number of its own, so that rounding of the proposal changes no
        draw, and none is drawn twice. What is certain to be drawn has a weight of one.
        """
        left = self._proposal[blank].clone()
        left[list(head)] = 0.0
        uniform = torch.rand(len(left), dtype=torch.float64, generator=self._generator)
        priority = left / uniform.clamp(min=1e-300)
        count = min(max(0, size - len(head)), int((left > 0).sum()))
        best = torch.topk(priority, min(count + 1, len(left)))
        drawn = best.indices[:count]
        bar = best.values[count] if count < len(best.values) else priority.new_zeros(())
        log_weights = (bar / left[drawn]).clamp(min=1.0).log()
        places, order = torch.cat([torch.tensor(head, dtype=torch.long), drawn]).sort()
        log_weights = torch.cat([log_weights.new_zeros(len(head)), log_weights])[order]
        return Side(places, log_weights, tail=log_weights > 0.0, certain=log_weights == 0.0)

    def sampled(self, probes: Probes = NO_PROBES) -> Sampled:
        """The contexts under the weights of the sample and of every replicate.

        Probes are on their axes. What is kept is without any, and with those of the last call.
        """
        if probes in self._gathered:
            return self._gathered[probes]
        self._run(probes)
        first, second = (
            side.with_probes(tokens) for side, tokens in zip(self.sides, probes, strict=True)
        )
        log_given, left = [], []
        for blank, (side, other) in enumerate(((first, second), (second, first))):
            numbers = [self._rows[blank][place] for place in side.places.tolist()]
            # what is impossible in float32 is unlikely here: logarithms stay finite
            log_p = self._log_given(blank, numbers, other.places).clamp_(min=_LEAST_LOG)
            log_given.append(log_p)
            beyond = torch.ones(self.whole.shape[1 - blank])
            beyond[other.places[other.certain]] = 0.0
            # summed, not subtracted from one: a small rest has few digits left
            sums = [
                (p[rows] * beyond).sum(dim=1)
                for p in self._p[blank]
                for rows in row_blocks(*p.shape)
            ]
            left.append(torch.cat(sums)[numbers].double())
        # a generator each: a sample of another size changes no weight of the others
        generators = [
            torch.Generator().manual_seed((self._seed * REPLICATES + number + 1) % 2**63)
            for number in range(self._replicates)
        ]
        log_weights = [side.reweighted(generators) for side in (first, second)]
        signs = torch.tensor([0.0, *((-1.0) ** (n // 2) for n in range(self._replicates))])
        sampled = Sampled((first, second), log_given, left, log_weights, signs.double())
        without = {none: self._gathered[none] for none in (NO_PROBES,) if none in self._gathered}
        self._gathered = {**without, probes: sampled}
        return sampled

    def _log_given(
        self, blank: int, numbers: Sequence[int], places: slice | Int[Tensor, " some"]
    ) -> Float[Tensor, "rows some"]:
        """The logarithms of some outcomes in rows by their numbers, in float64."""
        return torch.cat([log_p[:, places] for log_p in self._log_p[blank]])[numbers].double()

    @computed_once
    def entropies(self) -> Entropies:
        """The mean entropies of both factorisations, from the whole rows of the contexts."""
        numbers = [
            [rows[place] for place in side.places.tolist()]
            for rows, side in zip(self._rows, self.sides, strict=True)
        ]
        read = [partial(self._log_given, blank, numbers[blank]) for blank in (0, 1)]
        return row_entropies(self.sampled(), read, self.whole.shape)

    def masked(self, sampled: Sampled) -> list[Tensor]:
        """Log masses of both blanks with both masked, under every weighting."""
        masked = []
        for blank, side in enumerate(sampled.sides):
            log_p = self._masked[blank].log()
            beyond = log_p.clone()
            beyond[side.places[side.certain]] = -torch.inf
            log_masses = log_p[side.places] + sampled.log_weights[blank]
            if side.tail.any():
                log_tail = torch.log_softmax(log_masses[:, side.tail], dim=1)
                log_masses[:, side.tail] = log_tail + torch.logsumexp(beyond, dim=0)
            masked.append(torch.log_softmax(log_masses.clamp(min=_LEAST_LOG), dim=1))
        return masked

    def tables(self) -> PairTables:
        """The tables of masses under the weights of the sample; law and J are those of the rows."""
        sampled = self.sampled()
        masked, (log_a, log_b) = self.masked(sampled), (m[0].log() for m in sampled.masses)
        first, second = (_log_masses(sampled, blank) for blank in (0, 1))
        first_axis, second_axis = (
            whole.part(side.places.tolist())
            for whole, side in zip(self.whole.supports, sampled.sides, strict=True)
        )
        tables = PairTables.from_logits(
            DenseLogits(second.T.contiguous()),
            DenseLogits(first),
            supports=(first_axis, second_axis),
            marginals=MaskedMarginals(masked[0][0], masked[1][0]),
        )
        tables.law = Law(
            (log_b[None], log_a[:, None]),
            passes=0,
            residual=float(sampled.residuals[0]),
            converged=sampled.is_solved(),
            incompatibility=lambda: float(sampled.incompatibility()),
        )
        return tables

    def diagnostics(self) -> dict[str, object]:
        """Facts of what has run, and how many tokens are certain and drawn."""
        return {
            **self.whole.diagnostics(),
            "head": [int(side.certain.sum()) for side in self.sides],
            "tail": [int(side.tail.sum()) for side in self.sides],
        }


def _highest(
    values: Float[Tensor, " size"], count: int, without: Sequence[int], least: float = 0.0
) -> list[int]:
    """The places of the highest values from `least`, best first; ties go to the lower place."""
    left = values.clone()
    left[list(without)] = -math.inf
    ranked: list[int] = highest(left, min(count, int((left >= least).sum()))).tolist()
    return ranked


def _log_masses(sampled: Sampled, blank: int) -> Float[Tensor, "contexts outcomes"]:
    """Log masses of the other blank's tokens, given each of one, under the sample's weights."""
    tail = sampled.sides[1 - blank].tail
    of_head, of_tail = (factor[0][:, None] for factor in sampled.factors(blank))
    log_masses = sampled.log_given[blank] + sampled.log_weights[1 - blank][0]
    log_masses = log_masses + torch.where(tail, of_tail, of_head).log()
    return torch.log_softmax(log_masses.clamp(min=_LEAST_LOG), dim=1)
