"""Joints of several blanks by their definitions: float64, loops, nothing shared with the library.

`given(t, tokens)` is the model's distribution over the candidates of blank t, where `tokens` holds
a place for every filled blank and None for a masked one.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Given = Callable[[int, tuple[int | None, ...]], Table]


def fills(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(size) for size in shape)))


def without(x: tuple[int, ...], t: int) -> tuple[int | None, ...]:
    return tuple(None if s == t else token for s, token in enumerate(x))


def normalised(table: Table) -> Table:
    return table / table.sum()


def from_function(shape: tuple[int, ...], score: Callable[[tuple[int, ...]], float]) -> Table:
    log = np.array([score(x) for x in fills(shape)]).reshape(shape)
    return normalised(np.exp(log - log.max()))


def independent(given: Given, shape: tuple[int, ...]) -> Table:
    none = (None,) * len(shape)
    return from_function(shape, lambda x: sum(math.log(given(t, none)[i]) for t, i in enumerate(x)))


def conditionals(given: Given, shape: tuple[int, ...]) -> list[Table]:
    every = fills(shape)
    return [
        np.array([given(t, without(x, t))[x[t]] for x in every]).reshape(shape)
        for t in range(len(shape))
    ]


def markov_field(given: Given, shape: tuple[int, ...]) -> Table:
    return normalised(np.prod(conditionals(given, shape), axis=0))


def besag(given: Given, shape: tuple[int, ...], pivot: tuple[int, ...], path: list[int]) -> Table:
    def score(x: tuple[int, ...]) -> float:
        here, total = list(pivot), 0.0
        for t in path:
            q = given(t, without(tuple(here), t))
            total += math.log(q[x[t]]) - math.log(q[pivot[t]])
            here[t] = x[t]
        return total

    return from_function(shape, score)


def steps(given: Given, shape: tuple[int, ...], count: int) -> Table:
    """Steps of Arnold and Gokhale."""
    each = conditionals(given, shape)
    wins = np.sum(each, axis=0)
    mu = normalised(np.ones(shape))
    for _ in range(count):
        inverse = sum(1 / mu.sum(axis=t, keepdims=True) for t in range(len(shape)))
        mu = normalised(wins / inverse)
    return mu


def pseudo_gibbs(given: Given, shape: tuple[int, ...]) -> Table:
    every = fills(shape)
    number = {x: i for i, x in enumerate(every)}
    chain = np.zeros((len(every), len(every)))
    for x in every:
        for t in range(len(shape)):
            for token, p in enumerate(given(t, without(x, t))):
                y = (*x[:t], token, *x[t + 1 :])
                chain[number[x], number[y]] += p / len(shape)
    system = np.vstack([chain.T - np.eye(len(every)), np.ones(len(every))])
    law = np.linalg.lstsq(system, np.append(np.zeros(len(every)), 1.0), rcond=None)[0]
    return normalised(law.reshape(shape))


def log_pool(given: Given, shape: tuple[int, ...]) -> Table:
    law = pseudo_gibbs(given, shape)
    each = [
        np.log(q) + np.log(law.sum(axis=t, keepdims=True))
        for t, q in enumerate(conditionals(given, shape))
    ]
    log = np.mean(each, axis=0)
    return normalised(np.exp(log - log.max()))


def by_order(given: Given, x: tuple[int, ...], order: tuple[int, ...]) -> float:
    filled: list[int | None] = [None] * len(x)
    total = 0.0
    for t in order:
        total += math.log(given(t, tuple(filled))[x[t]])
        filled[t] = x[t]
    return total


def orders(given: Given, shape: tuple[int, ...], mean: str = "arithmetic") -> Table:
    every = list(itertools.permutations(range(len(shape))))

    def score(x: tuple[int, ...]) -> float:
        logs = [by_order(given, x, order) for order in every]
        return math.log(np.mean(np.exp(logs))) if mean == "arithmetic" else float(np.mean(logs))

    return from_function(shape, score)
