"""Joints of two blanks from a sketch of the vocabulary, as large as the precision asks for."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import torch

from unmask.arguments import Options
from unmask.constructions import CONSTRUCTIONS, build, construction
from unmask.errors import MethodError, SupportError
from unmask.joints.joint import Joint
from unmask.joints.sketched import Sketched, spread
from unmask.queries.cost import Cost
from unmask.settings import Settings, Sketch
from unmask.tables.pair_tables import PairTables
from unmask.tables.sketch import REPLICATES, SketchedPair

# contexts per blank of the first sketch, and how much larger every further one is: on dev pairs
# the error bars of smaller ones were too short
_FIRST_SIZE, _GROWTH = 100, 1.6
# as many contexts per blank as the fewest passes give: of a few, an error cannot be estimated
_FEWEST = 50
# the fills whose standard errors are held to the precision
_LISTED = 10
# tables of pairs of contexts that are held at once: of the law and of J, and of a construction
_TABLES, _TABLES_PER_METHOD = 12, 3


_INSTEAD = "give support='vocabulary', which runs all of it, or candidates, such as support=300"


def check_sketched(methods: Sequence[str], instead: str = _INSTEAD) -> None:
    """Raise for constructions that a sketch would get wrong; `instead` says what to do."""
    for name in methods:
        if why := construction(name).unsketched:
            raise MethodError(
                f"{name} cannot be estimated from a sketch of the vocabulary: {why}; {instead}"
            )


def sketchable() -> list[str]:
    """The names of the library's constructions that can be estimated from a sketch."""
    return [name for name, recipe in CONSTRUCTIONS.items() if not recipe.unsketched]


def needs_sketch(methods: Options, shape: tuple[int, ...]) -> list[str]:
    """The constructions that need whole tables: the others are exact without a sketch."""
    return [
        name
        for name, of_method in methods.items()
        if construction(name).needs(shape, of_method).whole
    ]


def cost_of_sketch(
    sketch: Sketch,
    shape: tuple[int, ...],
    settings: Settings,
    length: int,
    methods: int,
) -> Cost:
    """The most that a sketch for so many constructions may cost."""
    size = min(_most_contexts(shape, sketch, settings, methods), max(shape))
    return Cost(
        min(sketch.max_passes, 2 * size + 1),
        length,
        _held_bytes(size, shape, methods),
        at_most=sketch.precision is not None,
    )


def sketched_joints(methods: Options, whole: PairTables, sketch: Sketch) -> dict[str, Joint]:
    """The joints, by name; those that need no table stay exact.

    `whole` are the tables of the vocabulary, not elicited.
    """
    joints: dict[str, Joint] = {}
    if sketchy := needs_sketch(methods, whole.shape):
        pair = SketchedPair(whole, seed=sketch.seed)
        joints = precise_joints({name: methods[name] for name in sketchy}, pair, sketch)
    return {
        name: joints[name] if name in joints else build(name, whole, options)
        for name, options in methods.items()
    }


def precise_joints(
    methods: Options, pair: SketchedPair, sketch: Sketch, fill: tuple[int, int] | None = None
) -> dict[str, Joint]:
    """Grow a sketch until its joints are as precise as requested, at the likeliest fills or one.

    At a certain fill those that need no table are exact: they do not decide how large it must be.
    """
    shape, diagnostics = pair.whole.shape, dict[str, object]()
    deciding = needs_sketch(methods, shape) or list(methods)
    limit = min(_most_contexts(shape, sketch, pair.whole.settings, len(deciding)), max(shape))
    least = min(_FEWEST, max(shape))
    if limit < least:
        raise SupportError(
            f"this sketch takes at least {least:,} contexts per blank, and {limit:,} are allowed; "
            f"allow {2 * least + 1:,} forward passes, and "
            f"{_held_bytes(least, shape, len(deciding)) / 1e6:,.0f} MB of memory"
        )
    forms = {
        name: partial(form, **methods[name])
        for name in methods
        if (form := construction(name).sketched)
    }
    size, times_reached = max(_FIRST_SIZE, least), 0
    # an error that is small once may be small by luck: it must be small with fresh weights too
    while times_reached < 2:
        is_last = size >= limit / math.sqrt(_GROWTH)
        # smaller ones too, where only the last is wanted: its sample is drawn by what theirs say
        pair.grow(limit if is_last else size)
        if sketch.precision is not None or is_last:
            engines = {name: Sketched(pair, forms[name]) for name in deciding}
            error = max(_stated_error(engine, fill) for engine in engines.values())
            diagnostics = {"standard_error": error}
            if sketch.precision is not None:
                diagnostics["precision_reached"] = error <= sketch.precision
                times_reached += error <= sketch.precision
        if is_last:
            break
        size = math.ceil(_GROWTH * size)
    sampled = pair.sampled()
    facts = {"tables": "dense", "passes": 0, "converged": sampled.is_solved()}
    facts["residual"] = float(sampled.residuals[0])
    joints = {}
    for name, form in forms.items():
        engine = engines[name] if name in engines else Sketched(pair, form)
        joints[name] = Joint(
            engine,
            engine.supports,
            method=name,
            diagnostics={**facts, **(diagnostics if name in engines else {})},
            agreement=engine.agreement,
        )
    return joints


def joints_at(
    methods: Mapping[str, Mapping[str, object]],
    whole: PairTables,
    sketch: Sketch,
    fill: tuple[int, int],
    *,
    replicates: int = REPLICATES,
) -> tuple[dict[str, Joint], SketchedPair]:
    """The joints of a sketch that is precise at one fill, given by its ids, and that sketch.

    All of them are read from its masses, those too that need no table: so their sums are known.
    Error bars, for which replicates serve, take longer than a joint: a mean over many texts, whose
    spread says how far it can be trusted, does without.
    """
    certain = [[axis.index(token)] for axis, token in zip(whole.supports, fill, strict=True)]
    pair = SketchedPair(whole, seed=sketch.seed, given=certain, replicates=replicates)
    return precise_joints(methods, pair, sketch, fill), pair


def _held_bytes(size: int, shape: tuple[int, ...], methods: int) -> int:
    """Rows of the vocabulary in float32, and tables of pairs of contexts in float64."""
    return 4 * sum(shape) * size + 8 * (_TABLES + _TABLES_PER_METHOD * methods) * size**2


def _most_contexts(shape: tuple[int, ...], sketch: Sketch, settings: Settings, methods: int) -> int:
    """The number of contexts per blank that the passes allow, and the memory."""
    row_bytes, pair_bytes = 4 * sum(shape), 8 * (_TABLES + _TABLES_PER_METHOD * methods)
    # the largest size whose bytes are within the limit
    root = math.isqrt(row_bytes**2 + 4 * pair_bytes * settings.memory_limit)
    return max(2, min((sketch.max_passes - 1) // 2, (root - row_bytes) // (2 * pair_bytes)))


def _stated_error(engine: Sketched, fill: tuple[int, int] | None) -> float:
    """The error of a fill, or the root mean square of those of the likeliest."""
    cells = [cell for cell, _ in engine.best(_LISTED)]
    if fill is not None:
        pairs = zip(engine.supports, fill, strict=True)
        cells = [tuple(axis.index(token) for axis, token in pairs)]
    return float(spread(engine.log_probs(torch.tensor(cells))).square().mean().sqrt())
