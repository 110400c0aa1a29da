"""Pairwise epistasis in a table of variants: what two mutations do beyond what each does alone."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UnmaskError
from unmask.sequences.residues import written_mutations

Numbers = NDArray[np.float64]
Variant = frozenset[str]
Pair = tuple[str, str]

# how a table of variants may name the wild type
_WILD_TYPES = ("wt", "wild type")
# of the largest score: less is no epistasis
_ROUNDING = 1e-6


def variant_of(mutant: str) -> Variant:
    """The mutations that a name joins, as the scorer reads them; none for the wild type."""
    plain = mutant.strip()
    parts = () if plain.lower() in _WILD_TYPES else re.split("[:,]", plain.upper())
    return frozenset(map(_mutation, parts))


def _mutation(part: str) -> str:
    """A004G is A4G; what is no mutation stays as it is."""
    try:
        (mutation,) = written_mutations(part)
    except UnmaskError:
        return part.strip()
    return str(mutation)


@dataclass(frozen=True, eq=False)
class PairEpistasis:
    """Measured and scored epistasis of pairs of mutations, over the same backgrounds.

    `backgrounds` is how many a pair has, and `kind` says which: all, those other than the wild
    type, or the wild type alone.
    """

    pairs: list[Pair]
    measured: Numbers
    scores: dict[str, Numbers]
    backgrounds: Numbers
    kind: str


def pairwise_epistasis(
    variants: Sequence[Variant],
    measured: Numbers,
    scores: Mapping[str, Numbers],
    *,
    windows: Sequence[object] | None = None,
) -> PairEpistasis:
    """Of every two mutations i and j the mean of s(Sij) - s(Si) - s(Sj) + s(S) over backgrounds S.

    All four variants of a background must be there, and have the same of the `windows` of a long
    sequence that the model read: scores of two windows differ by more than the mutations. A
    method's score of the wild type is 0. Where the wild type was not measured, its measurement
    would be a constant of that one background: then either that background alone counts, for every
    pair, or all others do, whichever gives more pairs. The constant moves all pairs alike in the
    former, which changes no correlation.
    Epistasis of scores below a millionth of the largest score is rounding, and counts as 0.
    """
    methods = list(scores)
    stacked = np.stack([measured, *(scores[name] for name in methods)], axis=1)
    values = _means(variants, stacked)
    wild = frozenset[str]()
    has_wild = wild in values
    # of the wild type the score is 0, whatever a method's own is
    first = values[wild][0] if has_wild else 0.0
    values[wild] = np.array([first, *[0.0] * len(methods)])
    read = {} if windows is None else dict(zip(variants, windows, strict=True))
    each, largest = _changes(values, read), np.abs(stacked[:, 1:]).max(axis=0)
    if has_wild:
        return _pairs(each, methods, largest, lambda _: True, "all")
    alone = _pairs(each, methods, largest, lambda background: not background, "the wild type")
    others = _pairs(each, methods, largest, bool, "others")
    return alone if len(alone.pairs) >= len(others.pairs) else others


def _means(variants: Sequence[Variant], values: Numbers) -> dict[Variant, Numbers]:
    """The numbers of each variant; of one that comes more than once, their mean."""
    by_variant: dict[Variant, list[Numbers]] = {}
    for variant, row in zip(variants, values, strict=True):
        by_variant.setdefault(variant, []).append(row)
    return {variant: np.mean(rows, axis=0) for variant, rows in by_variant.items()}


def _changes(
    values: Mapping[Variant, Numbers], windows: Mapping[Variant, object]
) -> dict[Pair, list[tuple[Variant, Numbers]]]:
    """By pair, every background with s(Sij) - s(Si) - s(Sj) + s(S)."""
    by_pair: dict[Pair, list[tuple[Variant, Numbers]]] = {}
    for variant, both in values.items():
        for one, other in combinations(sorted(variant), 2):
            last, first = variant - {one}, variant - {other}
            background = last - {other}
            others = (last, first, background)
            # the score of the wild type is 0 in any window
            if all(some in values for some in others) and all(
                windows.get(some) == windows.get(variant) for some in others if some
            ):
                change = both - values[first] - values[last] + values[background]
                by_pair.setdefault((one, other), []).append((background, change))
    return by_pair


def _pairs(
    each: Mapping[Pair, list[tuple[Variant, Numbers]]],
    methods: Sequence[str],
    largest: Numbers,
    counts: Callable[[Variant], bool],
    kind: str,
) -> PairEpistasis:
    taken = {
        pair: [change for background, change in values if counts(background)]
        for pair, values in sorted(each.items())
    }
    taken = {pair: values for pair, values in taken.items() if values}
    means = np.array([np.mean(values, axis=0) for values in taken.values()])
    means = means.reshape(len(taken), 1 + len(methods))
    # what is left of scores that add up is rounding
    means[:, 1:][np.abs(means[:, 1:]) <= _ROUNDING * largest] = 0.0
    scores = {name: means[:, place] for place, name in enumerate(methods, start=1)}
    numbers = np.array([len(values) for values in taken.values()], dtype=np.float64)
    return PairEpistasis(list(taken), means[:, 0], scores, numbers, kind)
