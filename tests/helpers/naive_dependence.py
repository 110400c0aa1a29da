"""Dependence by its definitions: loops over pairs and tokens, full logits, float64.

`logits(ids)` are those of one text at every position, as a table of positions by vocabulary.
Places are lists of positions.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Logits = Callable[[Sequence[int]], Array]
Places = Sequence[Sequence[int]]


def written(ids: Sequence[int], positions: Sequence[int], tokens: Sequence[int]) -> list[int]:
    found = list(ids)
    for position, token in zip(positions, tokens, strict=True):
        found[position] = token
    return found


def log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def pmi(logits: Logits, ids: Sequence[int], places: Places, mask: int) -> Array:
    """Nats."""
    found = np.full((len(places), len(places)), np.nan)
    for i, j in combinations(range(len(places)), 2):
        total = 0.0
        both = written(ids, [*places[i], *places[j]], [mask] * (len(places[i]) + len(places[j])))
        together = log_softmax(logits(both))
        for place in (places[i], places[j]):
            alone = log_softmax(logits(written(ids, place, [mask] * len(place))))
            total += sum(alone[p, ids[p]] - together[p, ids[p]] for p in place)
        found[i, j] = found[j, i] = total / 2
    return found


def told(logits: Logits, ids: Sequence[int], one: Sequence[int], other: Sequence[int]) -> float:
    """E KL(q(. | a) || m) over every fill a of one place, in nats; both are masked in ids."""
    before = log_softmax(logits(ids))
    total = 0.0
    for fill in product(range(before.shape[1]), repeat=len(one)):
        weight = math.exp(sum(before[p, token] for p, token in zip(one, fill, strict=True)))
        after = log_softmax(logits(written(ids, one, fill)))
        total += weight * sum(
            float((np.exp(after[p]) * (after[p] - before[p])).sum()) for p in other
        )
    return total


def information(
    logits: Logits, ids: Sequence[int], places: Places, mask: int, *, blanks: bool = False
) -> Array:
    """Bits; of `blanks`, all of which are masked."""
    found = np.full((len(places), len(places)), np.nan)
    for i, j in combinations(range(len(places)), 2):
        hidden = [p for place in places for p in place] if blanks else [*places[i], *places[j]]
        masked = written(ids, hidden, [mask] * len(hidden))
        both = told(logits, masked, places[i], places[j]) + told(
            logits, masked, places[j], places[i]
        )
        found[i, j] = found[j, i] = both / 2 / math.log(2)
    return found


def jacobian(
    logits: Logits, ids: Sequence[int], places: Places, mask: int, tokens: Sequence[Sequence[int]]
) -> Array:
    """Nats; places of one token each, with their candidates."""
    size = len(places)
    blocks: dict[tuple[int, int], Array] = {}
    for i in range(size):
        (here,) = places[i]
        rows = [logits(written(ids, [here], [token])) for token in tokens[i]]
        for j in range(size):
            if i == j:
                continue
            table = np.stack([log_softmax(row)[places[j][0], list(tokens[j])] for row in rows])
            blocks[i, j] = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    values = np.full((size, size), np.nan)
    for i, j in combinations(range(size), 2):
        values[i, j] = values[j, i] = np.linalg.norm((blocks[i, j] + blocks[j, i].T) / 2)
    return values
