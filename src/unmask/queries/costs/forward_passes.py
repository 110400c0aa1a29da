"""How many rows of the model constructions need together, and which parts of the tables."""

from dataclasses import replace

from unmask.arguments import Options
from unmask.constructions import construction
from unmask.constructions.needs import Needs, together


def all_needs(methods: Options, shape: tuple[int, ...]) -> Needs:
    """The parts of the tables that constructions, each with its options, read together."""
    return together(construction(name).needs(shape, given) for name, given in methods.items())


def forward_passes(
    methods: Options, shape: tuple[int, ...], *, whole_vocabulary: bool = True
) -> int:
    """How many rows the model must run for these constructions together.

    Over less than the whole vocabulary, the mass that the supports capture is read as well.
    """
    if len(shape) == 1:
        return 1
    parts = all_needs(methods, shape)
    return replace(parts, masked=parts.masked or not whole_vocabulary).rows(shape)


def of_contexts(methods: Options, shape: tuple[int, ...]) -> list[str]:
    """The constructions that read single contexts alone, for the probability of one pair."""
    return [
        name
        for name, given in methods.items()
        if construction(name).needs(shape, given).only_contexts()
    ]


def passes_to_rank(methods: Options, shape: tuple[int, ...]) -> int:
    """The most rows that joints of single contexts come to need when they are summed or ranked.

    Ranking and sampling stop as soon as they are certain; entropy and marginals need the tables.
    """
    # what a construction read before the tables were there runs twice
    before = sum(all_needs(methods, shape).some) - 2 * len(of_contexts(methods, shape))
    return 1 + before + sum(shape)
