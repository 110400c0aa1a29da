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

import numpy as np
from numpy.typing import NDArray

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
        found = np.full((len(self.changes), 2 ** len(self.changes)), math.nan)
        for t, filled, row in self.edges():
            one = self.changes[t]
            values = answers.at(row, one.place)
            found[t, filled] = values[one.mutant] - values[one.wildtype]
        return found


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
    found: NDArray[np.int64] = every[(every >> t & 1) == 0]
    return found


@cache
def _levels(k: int) -> list[NDArray[np.int64]]:
    """Sets by how many they hold, from one on."""
    every = np.arange(2**k)
    sizes = sum((every >> t & 1 for t in range(k)), start=np.zeros_like(every))
    return [every[sizes == size] for size in range(1, k + 1)]


def path_moments(log_odds: Vector) -> tuple[float, float]:
    """The mean and the variance of path sums from none to all, over all orders of the mutations.

    By Hammersley, Clifford and Besag (1974) a path's sum of log-odds is log p(mutant) / p(wild
    type), the same along every path where conditionals are compatible. The last step to a set comes
    equally often from each of its mutations, after the paths to the rest: so by sets, not by
    orders.
    """
    k = len(log_odds)
    mean, variance = np.zeros(2**k), np.zeros(2**k)
    for level in _levels(k):
        ends, spreads = (np.zeros((k, len(level))) for _ in range(2))
        is_last = np.stack([level >> t & 1 for t in range(k)]) == 1
        for t in range(k):
            rest = level[is_last[t]] ^ (1 << t)
            ends[t, is_last[t]] = mean[rest] + log_odds[t, rest]
            spreads[t, is_last[t]] = variance[rest]
        size = is_last.sum(axis=0)
        mean[level] = ends.sum(axis=0) / size
        away = np.where(is_last, ends - mean[level], 0.0)
        variance[level] = ((away**2).sum(axis=0) + spreads.sum(axis=0)) / size
    return float(mean[-1]), float(variance[-1])


def log_mean_over_orders(steps: Vector) -> float:
    """log of the mean over all orders of the probability of filling one after another.

    `steps[t, set]` is the log-probability of the t-th given that just this set is filled.
    """
    k = len(steps)
    found = np.zeros(2**k)
    for level in _levels(k):
        last = np.full((k, len(level)), -math.inf)
        for t in range(k):
            holds = (level >> t & 1) == 1
            rest = level[holds] ^ (1 << t)
            last[t, holds] = found[rest] + steps[t, rest]
        size = sum((level >> t & 1 for t in range(k)), start=np.zeros_like(level))
        found[level] = np.logaddexp.reduce(last, axis=0) - np.log(size)
    return float(found[-1])
