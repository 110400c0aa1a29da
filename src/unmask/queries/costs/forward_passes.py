"""How many rows of the model constructions need together, and which parts of the tables."""

from collections.abc import Iterable
from dataclasses import replace

from unmask.arguments import Options
from unmask.constructions import construction
from unmask.constructions.needs import Needs, together


def needs(method: str, shape: tuple[int, ...], options: Options | None = None) -> Needs:
    """What a construction reads; with single contexts, for the probability of one pair."""
    return construction(method).needs(shape, (options or {}).get(method, {}))


def all_needs(
    methods: Iterable[str], shape: tuple[int, ...], options: Options | None = None
) -> Needs:
    """The parts of the tables that several constructions read together."""
    given = options or {}
    return together(construction(name).needs(shape, given.get(name, {})) for name in methods)


def forward_passes(
    methods: Iterable[str],
    shape: tuple[int, ...],
    *,
    whole_vocabulary: bool = True,
    options: Options | None = None,
) -> int:
    """How many rows the model must run for these constructions together.

    Over less than the whole vocabulary, the mass that the supports capture is read as well.
    """
    if len(shape) == 1:
        return 1
    parts = all_needs(methods, shape, options)
    return replace(parts, masked=parts.masked or not whole_vocabulary).rows(shape)


def passes_to_rank(
    methods: Iterable[str], shape: tuple[int, ...], options: Options | None = None
) -> int:
    """The most rows that joints of single contexts come to need when they are summed or ranked.

    Ranking and sampling stop as soon as they are certain; entropy and marginals need the tables.
    """
    names = list(methods)
    pairs = [name for name in names if needs(name, shape, options).only_contexts()]
    # what a construction read before the tables were there runs twice
    before = sum(all_needs(names, shape, options).some) - 2 * len(pairs)
    return 1 + before + sum(shape)
