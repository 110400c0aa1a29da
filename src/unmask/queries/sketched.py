"""Joints of two blanks from a sketch of the vocabulary, as large as the precision asks for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from unmask.arguments import Options
from unmask.constructions import construct, construction
from unmask.constructions.besag import walked_path
from unmask.constructions.solvers.fits import STATIONARY_LAW, direct_law
from unmask.errors import MethodError
from unmask.joints.joint import Joint
from unmask.joints.sketched import Sketched
from unmask.lazy import computed_once
from unmask.queries.costs.cost import Cost
from unmask.settings import Settings
from unmask.tables.pair_tables import PairTables
from unmask.tables.sketch import REPLICATES, Sketch, SketchedPair
from unmask.text.support import place_at_blank

# contexts per blank of the first sketch, and how much larger every further one is
_FIRST_SIZE, _GROWTH = 100, 1.6
# the fills whose standard errors are held to the precision
_LISTED = 10


def check_sketched(methods: Sequence[str]) -> None:
    """Raise for constructions that a sketch would get wrong."""
    for name in methods:
        if why := construction(name).unsketched:
            raise MethodError(
                f"{name} cannot be had from a sketch of the vocabulary: {why}; give "
                "support='vocabulary' (--exact), which runs all of it, or candidates, such as "
                "support=300"
            )


def needs_sketch(methods: Sequence[str], shape: tuple[int, ...], options: Options) -> list[str]:
    """The constructions that need whole tables: the others are exact as they are."""
    return [
        name for name in methods if construction(name).needs(shape, options.get(name, {})).whole
    ]


def cost_of_sketch(sketch: Sketch, shape: tuple[int, ...], settings: Settings, length: int) -> Cost:
    """The most that a sketch may cost."""
    size = min(most_contexts(shape, sketch, settings), max(shape))
    return Cost(
        min(sketch.passes, 2 * size + 1),
        length,
        # a row of the vocabulary per context, and both tables of the contexts
        4 * size * sum(shape) + 16 * size**2,
        storage="dense",
        storage_why="the contexts of a sketch are few",
        at_most=sketch.precision is not None,
    )


def sketched_joints(
    methods: Sequence[str], options: Options, whole: PairTables, sketch: Sketch
) -> dict[str, Joint]:
    """The joints, by name; those that need no table stay exact.

    `whole` are the tables of the vocabulary, not elicited.
    """
    given = {name: dict(options.get(name, {})) for name in methods}
    sketchy = needs_sketch(methods, whole.shape, options)
    found: dict[str, Joint] = {}
    if sketchy:
        pair = SketchedPair(
            whole, seed=sketch.seed, given=_pivots(whole, given.get("hcb", {}), sketchy)
        )
        found = precise_joints({name: given[name] for name in sketchy}, pair, sketch)
    return {
        name: found[name] if name in found else construct(name, whole, **given[name])
        for name in methods
    }


def precise_joints(
    methods: Mapping[str, Mapping[str, object]],
    pair: SketchedPair,
    sketch: Sketch,
    fill: tuple[int, int] | None = None,
) -> dict[str, Joint]:
    """Grow a sketch until its joints are as precise as requested, at the likeliest fills or one."""
    whole = pair.whole
    axes, limit = whole.supports, most_contexts(whole.shape, sketch, whole.settings)
    size = limit if sketch.precision is None else min(_FIRST_SIZE, limit)
    while True:
        pair.grow(size)
        built = [_Built(pair, name, given) for name, given in methods.items()]
        joints = {one.method: one.joint() for one in built}
        error = max(_largest_error(joint, fill) for joint in joints.values())
        reached = sketch.precision is None or error <= sketch.precision
        if reached or pair.size >= min(limit, max(map(len, axes))):
            break
        size = min(limit, math.ceil(_GROWTH * size))
    known = {"standard_error": error, "precision_reached": reached}
    if sketch.precision is None:
        del known["precision_reached"]
    return {name: joint.named(name, known) for name, joint in joints.items()}


def most_contexts(shape: tuple[int, ...], sketch: Sketch, settings: Settings) -> int:
    """How many contexts per blank the passes allow, and the memory: 4 bytes per token of a row."""
    return max(2, min((sketch.passes - 1) // 2, settings.memory_limit // (4 * sum(shape))))


def _largest_error(joint: Joint, fill: tuple[int, int] | None) -> float:
    if fill is not None:
        return joint.standard_error(lambda one: one.log_prob(*fill))
    errors = [one.error or 0.0 for one in joint.top(min(_LISTED, math.prod(joint.shape)))]
    return math.sqrt(math.fsum(error**2 for error in errors) / len(errors))


def _pivots(
    whole: PairTables, options: Mapping[str, object], methods: Sequence[str]
) -> Sequence[Sequence[int]]:
    """The pivot of hcb, which must be certain to be there."""
    pivot = options.get("pivot")
    if "hcb" not in methods or pivot is None:
        return (), ()
    *_, last = walked_path(options.get("path"), options.get("pivot_axis", 0), 2)
    place = [place_at_blank(whole.supports, last, pivot)]
    return ((), place) if last else (place, ())


@dataclass(frozen=True, eq=False)
class _Built:
    """One construction over a sketch, with tokens besides: its joint, and how far that is sure."""

    pair: SketchedPair
    method: str
    options: Mapping[str, object]
    probes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def joint(self, replicate: int | None = None) -> Joint:
        """The joint, or one of its replicates, which has none of its own."""
        tables = self.pair.tables(replicate=replicate, probes=self.probes)
        if replicate is not None:
            tables.remember(STATIONARY_LAW, partial(direct_law, tables))
        return construct(self.method, tables, **self.options).named(
            self.method,
            sketch=Sketched(
                self.pair.whole.supports,
                partial(self.holding, replicate=replicate),
                partial(self._replicates, replicate),
                self.pair.diagnostics,
            ),
        )

    def _replicates(self, of: int | None) -> list[Joint]:
        return self.replicates if of is None else []

    @computed_once
    def replicates(self) -> list[Joint]:
        """The joint as other samples might have given it."""
        return [self.joint(replicate) for replicate in range(REPLICATES)]

    def holding(self, places: Mapping[int, int], replicate: int | None = None) -> Joint:
        """The joint with further tokens on its axes: up to a forward pass for each."""
        first, second = (
            (*self.probes[axis], *([places[axis]] if axis in places else [])) for axis in (0, 1)
        )
        return _Built(self.pair, self.method, self.options, (first, second)).joint(replicate)
