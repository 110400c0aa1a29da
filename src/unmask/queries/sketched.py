"""Joints of two blanks from a sketch of the vocabulary, as large as the precision asks for."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from unmask.arguments import Options
from unmask.constructions import CONSTRUCTIONS, build, construction
from unmask.constructions.incompatibility import agreement
from unmask.errors import MethodError, SupportError
from unmask.joints.agreement import Agreement
from unmask.joints.engine import Engine
from unmask.joints.joint import Joint
from unmask.joints.sketched import Sketched
from unmask.lazy import computed_once
from unmask.queries.cost import Cost
from unmask.settings import Settings, Sketch
from unmask.tables.law import Law
from unmask.tables.pair_tables import PairTables
from unmask.tables.sketch import NO_PROBES, REPLICATES, SketchedPair

# contexts per blank of the first sketch, and how much larger every further one is: on dev pairs
# the error bars of smaller ones were too short
_FIRST_SIZE, _GROWTH = 100, 1.6
# as many contexts per blank as the fewest passes give: of a few, an error cannot be estimated
_FEWEST = 50
# a relative residual of the law below which it is solved
_RESIDUAL = 1e-8
# the fills whose standard errors are held to the precision
_LISTED = 10


_INSTEAD = "give support='vocabulary', which runs all of it, or candidates, such as support=300"


def check_sketched(methods: Sequence[str], instead: str = _INSTEAD) -> None:
    """Raise for constructions that a sketch would get wrong; `instead` says what to do."""
    for name in methods:
        if why := construction(name).unsketched:
            raise MethodError(
                f"{name} cannot be estimated from a sketch of the vocabulary: {why}; {instead}"
            )


def sketchable() -> list[str]:
    """The names of the library's constructions that a sketch does for."""
    return [name for name, one in CONSTRUCTIONS.items() if not one.unsketched]


def needs_sketch(methods: Options, shape: tuple[int, ...]) -> list[str]:
    """The constructions that need whole tables: the others are exact without a sketch."""
    return [name for name, given in methods.items() if construction(name).needs(shape, given).whole]


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
        # the rows and the replicates, and both tables of the contexts
        _held_bytes(size, shape, methods) + 16 * size**2,
        storage="dense",
        storage_why="the contexts of a sketch are few",
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
    methods: Mapping[str, Mapping[str, object]],
    pair: SketchedPair,
    sketch: Sketch,
    fill: tuple[int, int] | None = None,
) -> dict[str, Joint]:
    """Grow a sketch until its joints are as precise as requested, at the likeliest fills or one."""
    whole = pair.whole
    most = _most_contexts(whole.shape, sketch, whole.settings, len(methods))
    limit = min(most, max(whole.shape))
    least = min(_FEWEST, max(whole.shape))
    if limit < least:
        raise SupportError(
            f"this sketch takes at least {least:,} contexts per blank, and {limit:,} are allowed; "
            f"allow {2 * least + 1:,} forward passes, and "
            f"{_held_bytes(least, whole.shape, len(methods)) / 1e6:,.0f} MB of memory"
        )
    times_reached = 0
    for size in _sizes(least, limit):
        pair.grow(size)
        if not _is_built(size, limit, sketch):
            continue
        joints = {name: _Built(pair, name, given).joint() for name, given in methods.items()}
        error = max(_largest_error(joint, fill) for joint in joints.values())
        reached = sketch.precision is None or error <= sketch.precision
        # an error that is small once may be small by luck: it must be small with fresh weights too
        times_reached += reached
        if times_reached == 2:
            break
    diagnostics = {"standard_error": error, "precision_reached": reached}
    if sketch.precision is None:
        del diagnostics["precision_reached"]
    return {name: joint.named(name, diagnostics) for name, joint in joints.items()}


def _sizes(least: int, limit: int) -> Iterator[int]:
    """Ever larger sketches, the last of just so many contexts per blank.

    Also where only the last is wanted: what its sample is drawn by comes from the samples before.
    """
    size = max(_FIRST_SIZE, least)
    while size < limit / math.sqrt(_GROWTH):
        yield size
        size = math.ceil(_GROWTH * size)
    yield limit


def _is_built(size: int, limit: int, sketch: Sketch) -> bool:
    """Whether joints and their errors are computed at this size, or it only grows further."""
    return sketch.precision is not None or size == limit


def joint_at(
    method: str, whole: PairTables, sketch: Sketch, fill: tuple[int, int]
) -> tuple[Joint, SketchedPair]:
    """The joint of a sketch of all its passes that holds one fill, and that sketch.

    Without error bars, which take longer than the joint: for means over many texts, whose spread
    says how far they can be trusted.
    """
    certain = [[axis.index(one)] for axis, one in zip(whole.supports, fill, strict=True)]
    pair = SketchedPair(whole, seed=sketch.seed, given=certain)
    most = min(_most_contexts(whole.shape, sketch, whole.settings, 1), max(whole.shape))
    for size in _sizes(_FEWEST, most):
        pair.grow(size)
    return _Built(pair, method, {}).joint(), pair


def joints_at(
    methods: Mapping[str, Mapping[str, object]],
    whole: PairTables,
    sketch: Sketch,
    fill: tuple[int, int],
) -> tuple[dict[str, Joint], SketchedPair]:
    """The joints of a sketch that is precise at one fill, given by its ids, and that sketch.

    All of them are read from its masses, those too that need no table: so their sums are known.
    """
    certain = [[axis.index(one)] for axis, one in zip(whole.supports, fill, strict=True)]
    pair = SketchedPair(whole, seed=sketch.seed, given=certain)
    # at a certain fill the others are exact: they do not decide how large a sketch must be
    growing = needs_sketch(methods, whole.shape) or list(methods)
    joints = precise_joints({name: methods[name] for name in growing}, pair, sketch, fill)
    return {
        name: joints[name] if name in joints else _Built(pair, name, given).joint()
        for name, given in methods.items()
    }, pair


def _held_bytes(size: int, shape: tuple[int, ...], methods: int) -> int:
    """Rows of the vocabulary in float32, and of every construction its replicates in float64."""
    return 4 * sum(shape) * size + 8 * REPLICATES * methods * size**2


def _most_contexts(shape: tuple[int, ...], sketch: Sketch, settings: Settings, methods: int) -> int:
    """How many contexts per blank the passes allow, and the memory."""
    rows, replicates = 4 * sum(shape), 8 * REPLICATES * methods
    # the largest size whose bytes are within the limit
    root = math.isqrt(rows**2 + 4 * replicates * settings.memory_limit)
    return max(2, min((sketch.max_passes - 1) // 2, (root - rows) // (2 * replicates)))


def _largest_error(joint: Joint, fill: tuple[int, int] | None) -> float:
    if fill is not None:
        return joint.standard_error(lambda one: one.log_prob(*fill))
    errors = [one.error or 0.0 for one in joint.top(min(_LISTED, math.prod(joint.shape)))]
    return math.sqrt(math.fsum(error**2 for error in errors) / len(errors))


def tables_of(
    pair: SketchedPair, *, replicate: int | None = None, probes: Sequence[Sequence[int]] = NO_PROBES
) -> PairTables:
    """The tables of a sketch, with estimates of their law and of J from whole rows."""
    sampled = pair.sampled(replicate=replicate, probes=probes)
    log_a, log_b = (torch.from_numpy(np.log(masses)) for masses in sampled.masses)
    law = Law(
        (log_b[None], log_a[:, None]),
        passes=0,
        residual=sampled.residual,
        converged=sampled.residual < _RESIDUAL,
        incompatibility=sampled.incompatibility,
    )
    return pair.tables(replicate=replicate, probes=probes, law=law)


@dataclass(frozen=True, eq=False)
class _Built:
    """One construction over a sketch, or a replicate of it, with tokens besides."""

    pair: SketchedPair
    method: str
    options: Mapping[str, object]
    probes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    replicate: int | None = None

    def joint(self) -> Joint:
        """The joint. Of a replicate its table alone is kept: there are many of them."""
        tables = self._tables()
        sketch = Sketched(
            self.pair.whole.supports,
            self.holding,
            self.replicates,
            self.pair.diagnostics,
            self.missing_entropy,
        )
        joint = build(self.method, tables, self.options, sketch)
        if self.replicate is None:
            return joint
        return Joint(
            Engine.of_table(joint.scores(slice(0, tables.shape[0]))),
            tables.supports,
            method=self.method,
            agreement=self._agreement,
            sketch=sketch,
        )

    def _tables(self) -> PairTables:
        return tables_of(self.pair, replicate=self.replicate, probes=self.probes)

    def _agreement(self) -> Agreement | None:
        return agreement(self._tables())

    def missing_entropy(self, axes: Sequence[int]) -> float:
        """What the entropy of some blanks lacks in the cells of the sketch."""
        pair, number = self.pair, self.replicate
        missing = pair.missing_entropy if number is None else pair.missing_entropies[1 + number]
        return missing.both if len(axes) == 2 else missing.blanks[axes[0]]

    def replicates(self) -> list[Joint]:
        """The joint as other samples might have given it; a replicate has none of its own."""
        return self._replicates if self.replicate is None else []

    @computed_once
    def _replicates(self) -> list[Joint]:
        replicates = []
        # watched and cancelled like sweeps over tables: of a large sketch they take seconds
        with self.pair.whole.bar("error bars", REPLICATES) as bar:
            for number in range(REPLICATES):
                # by an object of its own: one that kept itself would live until a collection
                replicates.append(replace(self, replicate=number).joint())
                bar.update(1)
        return replicates

    def holding(self, places: Mapping[int, int]) -> Joint:
        """The joint with further tokens on its axes: up to a forward pass for each."""
        first, second = (
            (*self.probes[axis], *([places[axis]] if axis in places else [])) for axis in (0, 1)
        )
        return replace(self, probes=(first, second)).joint()
