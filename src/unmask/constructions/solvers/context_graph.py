"""Contexts of several blanks as nodes of a graph: the view that the solvers take of tables.

A line is a context of one blank: tokens for all the others. k lines, one per blank, meet in every
fill. What a blank's conditional says of a fill counts as wins of its line over the other k - 1, so
that AG's objective is Luce's choice among k (for two blanks Bradley and Terry's), its curvature a
Laplacian of the graph whose edges join the lines of a fill, and pseudo-Gibbs sampling a walk on it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.solvers.descent import Pass
from unmask.constructions.solvers.forest import Index, Vector
from unmask.constructions.solvers.groups import Labels, Matrix
from unmask.tables.protocol import Tables

Scores = Float[Tensor, "*shape"]

# Blocks of fills meet through lines that hold next to nothing, and these weigh the blocks.
_NEGLIGIBLE = 1e-150


class ContextGraph:
    """What the solvers need of tables over candidates: vectors over the lines of all blanks."""

    # a pass over tables of candidates is cheap
    max_passes = 1000

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.shape = shape = tables.shape
        self.line_shapes = [
            tuple(1 if s == t else size for s, size in enumerate(shape)) for t in range(len(shape))
        ]
        self.sizes = [math.prod(one) for one in self.line_shapes]

    def split(self, vector: Vector) -> tuple[Tensor, ...]:
        """The part of each blank, of size 1 along it."""
        parts = torch.from_numpy(np.ascontiguousarray(vector)).split(self.sizes)
        return tuple(part.reshape(one) for part, one in zip(parts, self.line_shapes, strict=True))

    def stack(self, parts: Sequence[Tensor]) -> Vector:
        """All parts in one vector."""
        whole = (part.expand(one) for part, one in zip(parts, self.line_shapes, strict=True))
        stacked: Vector = torch.cat([part.reshape(-1) for part in whole]).double().numpy()
        return stacked

    def numbers(self) -> tuple[Tensor, ...]:
        """The place of each line in such a vector."""
        return self.split(np.arange(sum(self.sizes), dtype=np.float64))

    def contest(
        self, log_weights: Sequence[Tensor], pull: Sequence[Tensor] | None
    ) -> Callable[[Vector], Pass]:
        """A contest in which contexts are weighted; there are no further wins to pull towards."""
        assert pull is None
        wins = [q * log.exp() for q, log in zip(self.conditionals(), log_weights, strict=True)]
        return lambda point: read_contest(self, wins, point)

    def flows(self) -> "LineFlows":
        """Pseudo-Gibbs sampling as mass that moves."""
        return LineFlows(self)

    def conditionals(self) -> list[Scores]:
        """q(x_t | x_-t) of every blank, as probabilities in float64."""
        return [self._tables.log_given_others(t).exp() for t in range(len(self.shape))]


def read_contest(lines: ContextGraph, wins: Sequence[Scores], point: Vector) -> Pass:
    """Gradient, curvature and strongest edges of a contest at log strengths `-point`.

    The gradient is wins times what is expected of the others, minus what the others won times what
    was expected of it: nothing cancels that is not small itself.
    """
    shares = torch.softmax(
        torch.stack([-part.expand(lines.shape) for part in lines.split(point)]), dim=0
    )
    total = torch.stack(list(wins)).sum(dim=0)
    blanks = range(len(wins))
    others = [torch.stack([shares[s] for s in blanks if s != t]).sum(dim=0) for t in blanks]
    lost = [torch.stack([wins[s] for s in blanks if s != t]).sum(dim=0) for t in blanks]
    gradient = [
        (wins[t] * others[t] - lost[t] * shares[t]).sum(dim=t, keepdim=True) for t in blanks
    ]
    degree = [(total * shares[t] * others[t]).sum(dim=t, keepdim=True) for t in blanks]
    edges = _strongest_edges(lines, total, shares)
    return Pass(
        lines.stack(gradient),
        lines.stack(degree).clip(min=1e-300),
        edges,
        lambda first, second: _between(
            lines,
            lambda t, s: (total * shares[t] * shares[s], wins[t] * shares[s] - wins[s] * shares[t]),
            first,
            second,
        ),
        _NEGLIGIBLE,
    )


def _between(
    lines: ContextGraph,
    meeting: Callable[[int, int], tuple[Scores, Scores]],
    first: Labels,
    second: Labels,
) -> tuple[Matrix, Matrix]:
    """Sums over all fills of what passes between lines of two blanks, by the lines' groups."""
    (rows, row_count), (columns, column_count) = first, second
    by_row, by_column = (
        [part.expand(lines.shape).reshape(-1).long() for part in lines.split(label.astype(float))]
        for label in (rows, columns)
    )
    sums = torch.zeros(2, row_count * column_count, dtype=torch.float64)
    for t, s in itertools.permutations(range(len(lines.shape)), 2):
        place = by_row[t] * column_count + by_column[s]
        for total, passing in zip(sums, meeting(t, s), strict=True):
            total.index_add_(0, place, passing.reshape(-1))
    strength, net = sums.reshape(2, row_count, column_count).numpy()
    return strength, net


def _strongest_edges(
    lines: ContextGraph, total: Scores, shares: Float[Tensor, "..."]
) -> tuple[Index, Index, Vector]:
    """Every line's heaviest edge to a line of another blank, each edge once."""
    numbers, ends, weights = lines.numbers(), [], []
    for t in range(len(shares)):
        rivals = shares.clone()
        rivals[t] = -1.0
        best, rival = rivals.max(dim=0)
        heaviest, where = (total * shares[t] * best).max(dim=t, keepdim=True)
        rival_line = torch.stack([number.expand(lines.shape) for number in numbers])
        across = rival_line.gather(0, rival.unsqueeze(0))[0].gather(t, where)
        ends.append(torch.stack([numbers[t].reshape(-1), across.reshape(-1)], dim=1).long())
        weights.append(heaviest.reshape(-1))
    pairs = torch.cat(ends).sort(dim=1).values.numpy()
    unique, first = np.unique(pairs, axis=0, return_index=True)
    return unique[:, 0], unique[:, 1], torch.cat(weights).numpy()[first]


class LineFlows:
    """Pseudo-Gibbs sampling as mass that moves between lines; see `solvers.balance.Flows`.

    A line's mass goes to the fills on it by its conditional, and from each fill in equal parts to
    its lines of the other blanks.
    """

    def __init__(self, lines: ContextGraph) -> None:
        self._lines, self._given = lines, lines.conditionals()
        self.passes = 0

    def read(self, mass: Vector) -> Pass:
        """What leaves minus what enters as a contest of equals, each context by its mass."""
        self.passes += 1
        moved = self._moved(mass)
        blanks = len(moved)
        here = read_contest(self._lines, moved, np.zeros(len(mass)))
        return replace(
            here,
            between=lambda first, second: _between(
                self._lines,
                # a line's mass leaves by its own conditional, whatever the other blanks' say
                lambda t, s: ((moved[t] + moved[s]) / (2 * blanks), (moved[t] - moved[s]) / blanks),
                first,
                second,
            ),
        )

    def balance(self, mass: Vector) -> Vector:
        """k - 1 times what leaves minus what enters, pair by pair."""
        self.passes += 1
        moved = self._moved(mass)
        blanks = range(len(moved))
        net = [
            torch.stack([moved[t] - moved[s] for s in blanks if s != t])
            .sum(dim=(0, t + 1))
            .unsqueeze(t)
            for t in blanks
        ]
        return self._lines.stack(net)

    def pushed(self, mass: Vector) -> Vector:
        """What enters each line when every mass moves once: positive sums, nothing cancels."""
        self.passes += 1
        moved = self._moved(mass)
        total = torch.stack(moved).sum(dim=0)
        blanks = range(len(moved))
        entering = [
            (total - moved[t]).clamp(min=0).sum(dim=t, keepdim=True) / (len(moved) - 1)
            for t in blanks
        ]
        return np.maximum(self._lines.stack(entering), 1e-300)

    def _moved(self, mass: Vector) -> list[Scores]:
        parts = self._lines.split(mass)
        return [given * part for given, part in zip(self._given, parts, strict=True)]
