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
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.lazy import computed_once
from unmask.tables.conditional import DenseLogits
from unmask.tables.law import Law
from unmask.tables.pair_tables import PairTables
from unmask.tables.sampled import PairEntropies, Sampled, row_entropies
from unmask.tables.side import Side
from unmask.tables.source import MaskedMarginals

# contexts per blank of the first sweep, by which the others are proposed
_FIRST = 25
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


# by outcome: log cells of the contexts that ran, and the log mass of each row beyond the head
Cells = list[tuple[Tensor, Tensor]]
NO_PROBES: tuple[tuple[int, ...], ...] = ((), ())


class SketchedPair:
    """A growing set of contexts of both blanks, and the tables of masses that they give.

    `whole` are tables over the whole vocabulary that have not been elicited; `given` are places of
    tokens that are always in the head.
    """

    def __init__(
        self, whole: PairTables, *, seed: int = 0, given: Sequence[Sequence[int]] = ((), ())
    ) -> None:
        self.whole, self._seed, self._given = whole, seed, given
        masked = whole.masked
        self._masked = [log.cpu().double().exp() for log in (masked.log_a, masked.log_b)]
        self._proposal = list(self._masked)
        self._generator = torch.Generator().manual_seed(seed)
        # the rows that have run, by context: what the other blank may be, over its whole axis
        self._rows: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})
        # how likely the context that wants it most makes each token, as a logarithm
        self._wanted = [torch.full(log.shape, -math.inf) for log in self._masked]
        # what tables are made of, by probes
        self._gathered: dict[tuple[tuple[int, ...], ...], _Gathered] = {}

    @property
    def sides(self) -> tuple[Side, Side]:
        """The contexts of both blanks."""
        return self._gathered[NO_PROBES].samples[None].sides

    @property
    def forward_passes(self) -> int:
        """Those of the contexts that have run, and of the masked text."""
        return 1 + sum(map(len, self._rows))

    def grow(self, size: int) -> None:
        """Have so many contexts per blank: all that have run are certain, the sample is new.

        More than have run: otherwise there is no sample.
        """
        heads = [list(rows) for rows in self._rows]
        for blank, places in enumerate(self._given):
            heads[blank] += [p for p in dict.fromkeys(places) if p not in self._rows[blank]]
        wanted, step = round(_HEAD * size), max(_FIRST, *map(len, self._rows))
        partners = [round(_PARTNERS * size)] * 2
        while True:
            step = min(step, wanted)
            for blank in (0, 1):
                heads[blank] += self._likeliest(blank, step - len(heads[blank]), heads[blank])
                self._run(blank, heads[blank])
            for blank in (0, 1) * _TURNS:
                # at least one context is left to the sample
                room = min(partners[blank], size - 1 - len(heads[blank]))
                new = self._partners(blank, heads[blank], room)
                partners[blank] -= len(new)
                heads[blank] += new
                self._run(blank, new)
            self._sweep(heads)
            if step >= wanted:
                break
            step *= 2
        first, second = (self._drawn(blank, heads[blank], size) for blank in (0, 1))
        for blank, side in enumerate((first, second)):
            self._run(blank, side.places.tolist())
        self._gathered = {NO_PROBES: self._gather((first, second))}
        for name in ("missing_entropies", "missing_entropy"):
            self.__dict__.pop(name, None)

    def _likeliest(self, blank: int, count: int, without: Sequence[int]) -> list[int]:
        if count <= 0:
            return []
        left = self._proposal[blank].clone()
        left[list(without)] = -1.0
        order = torch.sort(left, descending=True, stable=True).indices
        return order[: min(count, len(left) - len(without))].tolist()

    def _partners(self, blank: int, without: Sequence[int], count: int) -> list[int]:
        """Tokens that one context of the other blank wants, best first."""
        if count <= 0:
            return []
        wanted = self._wanted[blank].clone()
        wanted[list(without)] = -math.inf
        best = torch.sort(wanted, descending=True, stable=True)
        return best.indices[:count][best.values[:count] >= math.log(_WANTED)].tolist()

    def _run(self, blank: int, contexts: Sequence[int]) -> None:
        """Run the rows of these contexts."""
        missing = [place for place in contexts if place not in self._rows[blank]]
        if missing:
            given = self.whole.log_a_given if blank else self.whole.log_b_given
            rows = given(missing).cpu().float()
            self._rows[blank].update(zip(missing, rows, strict=True))
            self._wanted[1 - blank] = torch.maximum(self._wanted[1 - blank], rows.amax(dim=0))

    def _sweep(self, heads: Sequence[Sequence[int]]) -> None:
        """Propose contexts by the conditionals of those that have run."""
        rows = [torch.stack([self._rows[t][c] for c in heads[t]]).exp() for t in (0, 1)]
        now = list(self._proposal)
        for _ in range(_SWEEPS):
            shares = [now[t][list(heads[t])] for t in (0, 1)]
            first, second = ((share / share.sum()).float() for share in shares)
            now = [(second @ rows[1]).double(), (first @ rows[0]).double()]
        self._proposal = [
            (1 - _DEFENSIVE) * one / one.sum() + _DEFENSIVE * masked
            for one, masked in zip(now, self._masked, strict=True)
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
        return Side.of(head, drawn, (bar / left[drawn]).clamp(min=1.0).log())

    def _gather(self, sides: tuple[Side, Side]) -> "_Gathered":
        cells = []
        for outcome in (0, 1):
            side, contexts = sides[outcome], sides[1 - outcome].places.tolist()
            rows = self._rows[1 - outcome]
            certain = side.places[side.certain]
            inside, beyond = [], []
            for context in contexts:
                row = rows[context].double()
                inside.append(row[side.places])
                row[certain] = -torch.inf
                beyond.append(torch.logsumexp(row, dim=0))
            cells.append((torch.stack(inside), torch.stack(beyond)))
        return _Gathered(cells, {None: Sampled(sides, *_probabilities(cells))})

    def _with(self, probes: tuple[tuple[int, ...], ...]) -> "_Gathered":
        """The sides and cells with probes; the last ones are kept, for the replicates."""
        if probes not in self._gathered:
            for blank in (0, 1):
                self._run(blank, probes[blank])
            first, second = self.sides
            probed = first.with_probes(probes[0]), second.with_probes(probes[1])
            self._gathered = {NO_PROBES: self._gathered[NO_PROBES], probes: self._gather(probed)}
        return self._gathered[probes]

    def sampled(
        self, *, replicate: int | None = None, probes: Sequence[Sequence[int]] = NO_PROBES
    ) -> Sampled:
        """The contexts with their weights: those of the sample, or of a replicate."""
        samples = self._with(tuple(map(tuple, probes))).samples
        if replicate not in samples:
            generator = torch.Generator().manual_seed(
                (self._seed * REPLICATES + (replicate or 0) + 1) % 2**63
            )
            first, second = samples[None].sides
            samples[replicate] = samples[None].weighted(
                (first.replicate(generator), second.replicate(generator)),
                sign=(-1) ** (replicate or 0),
            )
        return samples[replicate]

    @computed_once
    def missing_entropies(self) -> list[PairEntropies]:
        """What sampled cells lack of the entropies of whole rows; first without a replicate."""
        return self._missing([None, *range(REPLICATES)])

    @computed_once
    def missing_entropy(self) -> PairEntropies:
        """The same without replicates, which take far longer."""
        return self._missing([None])[0]

    def _missing(self, numbers: Sequence[int | None]) -> list[PairEntropies]:
        samples = [self.sampled(replicate=number) for number in numbers]
        rows = [
            [self._rows[t][c] for c in side.places.tolist()] for t, side in enumerate(self.sides)
        ]
        cells = self._gathered[NO_PROBES].cells
        return [
            whole - one.cell_entropies([_masses(cells[1 - t], one.sides[1 - t]) for t in (0, 1)])
            for one, whole in zip(samples, row_entropies(samples, rows), strict=True)
        ]

    def tables(
        self,
        *,
        replicate: int | None = None,
        probes: Sequence[Sequence[int]] = NO_PROBES,
        law: Law | None = None,
    ) -> PairTables:
        """The tables of masses; with the weights of a replicate, or with probes."""
        sides = self.sampled(replicate=replicate, probes=probes).sides
        cells = self._with(tuple(map(tuple, probes))).cells
        logs = [_masses(cells[outcome], sides[outcome]) for outcome in (0, 1)]
        masked = []
        for blank, side in enumerate(sides):
            own = self._masked[blank].log()
            held = own.clone()
            held[side.places[side.certain]] = -torch.inf
            tail = torch.logsumexp(held, dim=0)
            masked.append(_masses((own[side.places][None], tail[None]), side)[0])
        first, second = (
            replace(self.whole.supports[t].part(side.places.tolist()), log_weights=side.log_weights)
            for t, side in enumerate(sides)
        )
        return PairTables.from_logits(
            DenseLogits(logs[0].T.contiguous()),
            DenseLogits(logs[1]),
            supports=(first, second),
            marginals=MaskedMarginals(masked[0], masked[1]),
            law=law,
        )

    def diagnostics(self) -> dict[str, object]:
        """What has run, and how many tokens are certain and drawn."""
        return {
            **self.whole.diagnostics(),
            "head": [int(side.certain.sum()) for side in self.sides],
            "tail": [int(side.tail.sum()) for side in self.sides],
        }


@dataclass(frozen=True, eq=False)
class _Gathered:
    """The cells of some sides, and samples of them: None is the sample itself, else replicates."""

    cells: Cells
    samples: dict[int | None, Sampled]


def _probabilities(cells: Cells) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """By context's blank instead of by outcome, and without logarithms."""
    swapped = cells[::-1]
    return [inside.exp().numpy() for inside, _ in swapped], [m.exp().numpy() for _, m in swapped]


def _masses(
    cells: tuple[Float[Tensor, "contexts outcomes"], Float[Tensor, " contexts"]], side: Side
) -> Float[Tensor, "contexts outcomes"]:
    """Log masses that sum to one: the head unchanged, the rest distributed by weight."""
    log_p, log_left = cells
    if not side.tail.any():
        return torch.log_softmax(log_p + side.log_weights, dim=1)
    tail = torch.log_softmax(log_p[:, side.tail] + side.log_weights[side.tail], dim=1)
    log_masses = log_p + side.log_weights
    log_masses[:, side.tail] = tail + log_left[:, None]
    # what is impossible in float32 is unlikely here: logarithms stay finite
    return torch.log_softmax(log_masses.clamp(min=-1e4), dim=1)
