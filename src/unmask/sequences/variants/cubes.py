"""All contexts of a block of mutations: every subset of the others mutated, one position masked.

Sets of mutations are numbered by their bits, the first mutation the lowest. Beyond so many
mutations they are cut into blocks, in the order of positions: each block with the earlier ones
mutated and the later ones at wild type. Log-odds of blocks add up: for compatible conditionals to
the log-odds of all, whatever the blocks.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.sequences.variants.conventions import mutated
from unmask.sequences.variants.reading import Change, Frame
from unmask.sequences.variants.rows import Answers, Changed, Row

# k 2^(k-1) forward passes for k mutations: 11,264 for eleven
LARGEST_BLOCK = 11
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """Some mutations, and those that are in place before them."""

    frame: Frame
    changes: tuple[Change, ...]
    before: Changed = ()

    def row(self, filled: int, masked: Sequence[int]) -> Row:
        """The wild type with a set of the changes made, and some of their places masked."""
        made = tuple(
            (one.place, one.mutant) for t, one in enumerate(self.changes) if filled >> t & 1
        )
        return Row(self.frame, self.before + made, tuple(self.changes[t].place for t in masked))

    def edges(self) -> Iterator[tuple[int, int, Row]]:
        """Every mutation masked, given every set of the others."""
        k = len(self.changes)
        made = [self.row(filled, ()).changed for filled in range(2**k)]
        for t, one in enumerate(self.changes):
            for filled in sets_without(t, k).tolist():
                yield t, filled, Row(self.frame, made[filled], (one.place,))

    def log_odds(self, answers: Answers) -> Vector:
        """log q(mutant) - log q(wild type) by mutation and by set of the others; else nothing."""
        odds = np.full((len(self.changes), 2 ** len(self.changes)), math.nan)
        for t, filled, row in self.edges():
            one = self.changes[t]
            values = answers.at(row, one.place)
            odds[t, filled] = values[one.mutant] - values[one.wildtype]
        return odds


def blocks_of(frame: Frame, changes: Sequence[Change], largest: int = LARGEST_BLOCK) -> list[Block]:
    """Blocks of nearly equal size, in the order of positions."""
    count = -(-len(changes) // largest)
    cuts = [round(n * len(changes) / count) for n in range(count + 1)]
    return [
        Block(frame, tuple(changes[start:stop]), mutated(changes[:start]))
        for start, stop in pairwise(cuts)
    ]


@cache
def sets_without(t: int, k: int) -> NDArray[np.int64]:
    """The sets of k that lack one."""
    every = np.arange(2**k)
    sets: NDArray[np.int64] = every[(every >> t & 1) == 0]
    return sets


class _Level(NamedTuple):
    """Sets of one size: which mutation may be the last of each, and the set before it."""

    sets: NDArray[np.int64]
    is_last: NDArray[np.bool_]
    before: NDArray[np.int64]


@cache
def _levels(k: int) -> list[_Level]:
    """Sets by how many they hold, from one on; a line per mutation."""
    every, bits = np.arange(2**k), 1 << np.arange(k)[:, None]
    sizes = ((every & bits) > 0).sum(axis=0)
    levels = [every[sizes == size] for size in range(1, k + 1)]
    return [_Level(sets, (sets & bits) > 0, sets ^ bits) for sets in levels]


def path_moments(log_odds: Vector) -> tuple[Vector, Vector]:
    """By set, the mean and variance of path sums from none to the set, over all orders.

    By Hammersley, Clifford and Besag (1974) a path's sum of log-odds is log p(mutant) / p(wild
    type), the same along every path where conditionals are compatible. The last step to a set comes
    equally often from each of its mutations, after the paths to the rest: so by sets, not by
    orders.
    """
    k = len(log_odds)
    mean, variance = np.zeros((2, 2**k))
    for sets, is_last, before in _levels(k):
        ends = np.where(is_last, mean[before] + _each(log_odds, before), 0.0)
        size = is_last.sum(axis=0)
        mean[sets] = ends.sum(axis=0) / size
        away = np.where(is_last, ends - mean[sets], 0.0)
        spreads = np.where(is_last, variance[before], 0.0)
        variance[sets] = ((away**2).sum(axis=0) + spreads.sum(axis=0)) / size
    return mean, variance


def log_mean_over_orders(steps: Vector) -> float:
    """log of the mean over all orders of the probability of filling one after another.

    `steps[t, set]` is the log-probability of the t-th given that just this set is filled.
    """
    k = len(steps)
    so_far = np.zeros(2**k)
    for sets, is_last, before in _levels(k):
        ends = np.where(is_last, so_far[before] + _each(steps, before), -math.inf)
        so_far[sets] = np.logaddexp.reduce(ends, axis=0) - np.log(is_last.sum(axis=0))
    return float(so_far[-1])


def _each(steps: Vector, before: NDArray[np.int64]) -> Vector:
    """The step of every mutation from the set before it."""
    return np.take_along_axis(steps, before, axis=1)


def by_mutation(by_set: Vector) -> Tensor:
    """Numbers of all sets, with an axis per mutation."""
    # bits count from the lowest, axes from the first
    k = len(by_set).bit_length() - 1
    return torch.from_numpy(by_set).view((2,) * k).permute(*reversed(range(k)))
