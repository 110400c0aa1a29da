"""How many rows of the model constructions need together, and how often they read the tables."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from unmask.arguments import Options, whole_number
from unmask.constructions import construction
from unmask.constructions.needs import Needs, together
from unmask.names import STEPS
from unmask.tables import kernels
from unmask.tables.storage import Storage

# "made": a table normalised; "copied": both as probabilities, for solvers; "balance", "contest"
# and "step": what the stationary solver, `ag` and `ag-paper` do; "sum": marginals, entropy and J;
# "rank": the likeliest pairs
Kind = Literal["made", "copied", "balance", "contest", "step", "sum", "rank"]
Passes = Mapping[Kind, int]

# the medians until convergence of docs/results/numerics.md: the number is not known before
STATIONARY_PASSES, CONTEST_PASSES = 30, 28
# a joint that is shown: its marginals, its entropy
_SUMS = 2

# bytes per cell that one pass moves where it is not compiled, as on a GPU: counted over the inputs
# and outputs of its tensor operations, with the solvers' copy there; and as many bytes as are read
# in the time of a compiled one: those of solvers are measured (docs/results/numerics.md), the
# others rough
_BYTES: Mapping[Kind, tuple[int, int]] = {
    "made": (70, 10),
    "copied": (150, 20),
    "balance": (100, 10),
    "contest": (385, 17),
    "step": (100, 10),
    "sum": (170, 15),
    "rank": (160, 10),
}
# what each pass of a solver moves besides where there is no room for that copy
_WITHOUT_COPY = 70


# --- rows of the model ----------------------------------------------------------------------------


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
    """The most rows that joints of single contexts need when they are summed or ranked.

    Ranking and sampling stop as soon as they are certain; entropy and marginals need the tables.
    """
    # what a construction read before the tables were there runs twice
    before = sum(all_needs(methods, shape).some) - 2 * len(of_contexts(methods, shape))
    return 1 + before + sum(shape)


# --- tables ---------------------------------------------------------------------------------------


def table_bytes(parts: Needs, shape: tuple[int, ...], width: int | None, kept: Storage) -> int:
    """What tables kept so will take: readouts of some width, cells, and the solvers' copy."""
    cells = shape[0] * shape[-1]
    contexts = [shape[-1] if blank == 0 else shape[0] for blank in parts.whole]
    readouts = sum(4 * width * size if width else 0 for size in contexts)
    dense = 4 * cells * len(contexts) if kept.dense else 0
    return readouts + dense + (kept.copy_bytes * cells if len(parts.whole) == 2 else 0)


def table_passes(methods: Options, shape: tuple[int, ...]) -> Passes:
    """Passes of each kind over the tables of these constructions together.

    With both tables there J is measured too: it, `log-pool` and `pseudo-gibbs` share one solve.
    """
    if len(shape) == 1:
        return {}
    whole = len(all_needs(methods, shape).whole)
    # a joint of single contexts is summed only where the tables are there anyway
    summed = len(methods) - (0 if whole == 2 else len(of_contexts(methods, shape)))
    solvers = {name: construction(name).solver for name in methods}
    steps = [_steps(given) for name, given in methods.items() if solvers[name] == "steps"]
    counts: dict[Kind, int] = {
        "made": whole,
        "copied": int(whole == 2),
        "balance": STATIONARY_PASSES if whole == 2 else 0,
        "contest": CONTEST_PASSES * list(solvers.values()).count("contest"),
        "step": sum(steps),
        "sum": _SUMS * summed + int(whole == 2),
        "rank": summed,
    }
    return {kind: count for kind, count in counts.items() if count}


def _steps(options: Mapping[str, object]) -> int:
    # the joint of the last step is given by the marginals before it
    return (whole_number(options.get("steps", STEPS)) or STEPS) - 1


def table_flop(
    passes: Passes, parts: Needs, shape: tuple[int, ...], width: int | None, kept: Storage
) -> int:
    """Multiplications of readouts with the output embedding, a multiply-add as two."""
    if width is None:
        return 0
    tables = passes.get("made", 0)
    if not kept.dense:
        # sums are read off the copy
        shown = passes.get("rank", 0) + (0 if kept.copied else passes.get("sum", 0))
        tables += len(parts.whole) * (shown + passes.get("copied", 0) * kept.copied)
        if not kept.copied:
            tables += 2 * sum(passes.get(kind, 0) for kind in ("balance", "contest", "step"))
    # rows by themselves, where no table is: both blanks are read with both masked
    rows = 2 * parts.masked * shape[-1]
    for blank, some in enumerate(parts.some):
        rows += some * shape[blank] * (blank not in parts.whole)
    return 2 * width * (tables * shape[0] * shape[-1] + rows)


def compiled_traffic(passes: Passes, shape: tuple[int, ...], kept: Storage) -> int:
    """Bytes that could be read in the time of these passes where they are compiled; else zero."""
    cells = shape[0] * shape[-1]
    compiled = kept.copied and len(shape) == 2 and kernels.available()
    if not compiled or cells < kernels.FEWEST_CELLS:
        return 0
    return cells * sum(count * _BYTES[kind][1] for kind, count in passes.items())


def traffic(passes: Passes, shape: tuple[int, ...], kept: Storage) -> int:
    """Bytes that these passes move through memory where they are not compiled."""
    a_cell = sum(count * _BYTES[kind][0] for kind, count in passes.items())
    if not kept.copied:
        solving = sum(passes.get(kind, 0) for kind in ("balance", "contest", "step"))
        a_cell += _WITHOUT_COPY * solving - passes.get("copied", 0) * _BYTES["copied"][0]
    return shape[0] * shape[-1] * a_cell
