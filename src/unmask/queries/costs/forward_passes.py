"""How many rows of the model constructions need together, and which parts of the tables."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from unmask.arguments import Options, whole_number
from unmask.constructions.needs import Needs
from unmask.constructions.own import OWN
from unmask.constructions.sweep import CONTEXTS


def needs(
    method: str, shape: tuple[int, ...], options: Mapping[str, object] | None = None
) -> Needs:
    """What a construction asks for: for `orders` and `sweep`, for the probability of one pair."""
    given = options or {}
    if method in OWN:
        return OWN[method].parts()
    if method == "mlm":
        return Needs(masked=True)
    if method == "hcb":
        masked = given.get("pivot") is None
        if given.get("pivot_axis"):
            return Needs(masked, whole_b=True, some_a=1)
        return Needs(masked, whole_a=True, some_b=1)
    if method == "orders" and given.get("mean") != "geometric":
        return Needs(masked=True, some_a=1, some_b=1)
    if method == "sweep":
        contexts = whole_number(given.get("contexts", CONTEXTS)) or CONTEXTS
        some_a, some_b = (1 + min(contexts, size) for size in (shape[1], shape[0]))
        return Needs(masked=True, some_a=some_a, some_b=some_b)
    masked = method not in ("mrf", "mrf-logit", "ag-paper")
    return Needs(masked, whole_a=True, whole_b=True)


def all_needs(
    methods: Iterable[str], shape: tuple[int, ...], options: Options | None = None
) -> Needs:
    """The parts of the tables that several constructions ask for together."""
    given = options or {}
    each = [needs(method, shape, given.get(method)) for method in methods]
    return Needs(
        any(one.masked for one in each),
        any(one.whole_a for one in each),
        any(one.whole_b for one in each),
        sum(one.some_a for one in each),
        sum(one.some_b for one in each),
    )


def by_appetite(methods: Iterable[str], options: Options | None = None) -> list[str]:
    """The constructions that need most of the tables first, so that others find their parts."""
    given = options or {}
    return sorted(
        methods,
        key=lambda method: needs(method, (1, 1), given.get(method)).tables(),
        reverse=True,
    )


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
    together = all_needs(methods, shape, options)
    return replace(together, masked=together.masked or not whole_vocabulary).rows(shape)


def passes_to_rank(
    methods: Iterable[str], shape: tuple[int, ...], options: Options | None = None
) -> int:
    """The most rows that joints of single contexts come to ask for when they are summed or ranked.

    Ranking and sampling stop as soon as they are certain; entropy and marginals need the tables.
    """
    together = all_needs(methods, shape, options)
    pairs = [m for m in methods if needs(m, shape, (options or {}).get(m)).only_pairs()]
    # what a construction asked for before the tables were there is paid for twice
    before = together.some_a + together.some_b - 2 * len(pairs)
    return 1 + before + sum(shape)
