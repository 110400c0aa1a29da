"""Validate a request for joints of one text, estimate its cost, run the model, build the joints.

One blank is the model's own distribution, two are joined from their conditional tables, more from
tables over candidates or, where those would be too large, by filling one blank after another.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from unmask.constructions import (
    CONSTRUCTIONS,
    DEFAULT_METHOD,
    METHOD_WITHOUT_TABLES,
    build,
    construction,
)
from unmask.constructions.construction import Given
from unmask.errors import MethodError, SupportError
from unmask.joints.engine import Engine
from unmask.joints.joint import Joint
from unmask.joints.lazy_orders import LazyOrders
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.queries.cost import Cost, forward_passes, measured, predicted
from unmask.queries.sketched import (
    check_sketched,
    cost_of_sketch,
    needs_sketch,
    sketchable,
    sketched_joints,
)
from unmask.settings import Settings, Sketch
from unmask.tables.beams import growing_rows
from unmask.tables.blank_reader import BlankReader
from unmask.tables.candidate_tables import CandidateTables
from unmask.tables.pair_tables import PairTables
from unmask.tables.proposals import (
    affordable_size,
    choose_axes,
    is_auto,
    placeholder_axes,
    sizes_of,
)
from unmask.tables.sizes import AFFORDABLE_ROWS, check_fits, rows_of_a_fill, table_bytes
from unmask.text.cloze import Cloze
from unmask.text.pieces import blanks_of, made_of_pieces
from unmask.text.support import Support

# a run longer than this announces its cost, as soon as its first batch has shown it
_LONG_SECONDS = 10.0


@dataclass(frozen=True)
class JointRequest:
    """Constructions of the blanks of one text, each with its options: checked, nothing has run."""

    cloze: Cloze
    blanks: int
    methods: Mapping[str, Given]
    support: object
    settings: Settings
    provenance: Mapping[str, object]

    def __post_init__(self) -> None:
        """Reject blanks and supports that the constructions do not fit."""
        if isinstance(self.support, Sketch) and self.blanks == 2:
            check_sketched(list(self.methods))
        if self.cloze.widths is not None and isinstance(self.support, Mapping):
            raise SupportError(
                f"{made_of_pieces(self.cloze)}, and support by blank takes one piece each; give "
                "words as targets"
            )
        if self.blanks < 3 or not is_auto(self.support):
            return
        if not (tables := self.of_tables()):
            # as for two blanks: what needs no table ranges over everything
            object.__setattr__(self, "support", "tokens")
        elif affordable_size(self.blanks) is None:
            raise MethodError(
                f"{', '.join(tables)} of {blanks_of(self.cloze)} would need a table over too many "
                f"fills; use method {METHOD_WITHOUT_TABLES!r} alone, with its arithmetic mean, "
                "which needs none, or give a number of candidates per blank, such as 4"
            )

    def of_tables(self) -> list[str]:
        """The constructions that cannot score fills one by one."""
        methods = self.methods.items()
        return [name for name, options in methods if not construction(name).without_tables(options)]

    def is_scored_by_fills(self, shape: tuple[int, ...]) -> bool:
        """True if fills of more than two blanks are better scored one by one than from a table."""
        if self.blanks < 3 or self.of_tables():
            return False
        rows = forward_passes(self.methods, shape, whole_vocabulary=False)
        return table_bytes(shape) > self.settings.memory_limit or rows > AFFORDABLE_ROWS

    def check_fits(self, axes: tuple[Support, ...]) -> None:
        """Raise for tables of several blanks that are too large."""
        shape = tuple(map(len, axes))
        if self.blanks > 2 and not self.is_scored_by_fills(shape):
            alone = list(self.methods) == [METHOD_WITHOUT_TABLES]
            limit, blanks = self.settings.memory_limit, blanks_of(self.cloze)
            check_fits(shape, limit, geometric=alone, blanks=blanks)


def default_method(blanks: int, support: object) -> str:
    """The construction where none is named: log-pool, or what needs no table for many blanks."""
    few = blanks < 3 or not is_auto(support) or affordable_size(blanks) is not None
    return DEFAULT_METHOD if few else METHOD_WITHOUT_TABLES


def default_methods(blanks: int, support: object) -> list[str]:
    """The constructions where several may be: all that fit the blanks and the support."""
    if default_method(blanks, support) == METHOD_WITHOUT_TABLES:
        return [METHOD_WITHOUT_TABLES]
    return sketchable() if isinstance(support, Sketch) else list(CONSTRUCTIONS)


def build_joints(request: JointRequest, model: MaskedLM, whole: Support) -> dict[str, Joint]:
    """The joints, by the names of their constructions in the order requested."""
    cloze, settings, methods = request.cloze, request.settings, request.methods
    if request.blanks > 2:
        # before candidates are grown for tables that are too large
        request.check_fits(placeholder_axes(model, whole, request.support, request.blanks))
    axes = choose_axes(model, whole, cloze, request.support, settings)
    supports, facts = axes.supports, {**request.provenance, **axes.diagnostics}
    reader = RowReader(model, settings, forward_passes=axes.forward_passes)
    if request.blanks == 1:
        # the model's own distribution: there is nothing to construct
        ((log_p, captured),) = BlankReader(reader, cloze, supports).all_masked()
        counts = {"forward_passes": reader.forward_passes, "captured_mass": [captured]}
        facts |= {**counts, "length": len(cloze)}
        joint = Joint(Engine.of_table(log_p), supports, method="mlm", diagnostics=facts)
        return dict.fromkeys(methods, joint)
    for name, options in methods.items():
        construction(name).check_axes(options, supports)
    if request.blanks > 2 and request.is_scored_by_fills(tuple(map(len, supports))):
        (method,) = methods
        engine = LazyOrders(BlankReader(reader, cloze, supports))
        facts |= {"length": len(cloze)}
        return {method: Joint(engine, supports, method=method, diagnostics=facts)}
    tables: PairTables | CandidateTables
    if request.blanks > 2:
        tables = CandidateTables(reader, cloze, supports, facts)
    else:
        tables = PairTables(BlankReader(reader, cloze, supports, facts))
        if isinstance(request.support, Sketch):
            return sketched_joints(methods, tables, request.support)
    reader.after_first_batch = partial(_announce, request, model, supports)
    # first, so that single contexts are found in whole tables; a function of the caller's may
    # still reject its options
    parts = [
        construction(name).needs(tables.shape, options)
        for name, options in methods.items()
        if name in CONSTRUCTIONS
    ]
    # how much of the model's mass candidates hold belongs beside their probabilities
    is_part = not all(axis.is_whole(model.vocabulary_size) for axis in supports)
    masked = is_part or any(part.masked for part in parts)
    tables.elicit(sorted({blank for part in parts for blank in part.whole}), masked=masked)
    return {name: build(name, tables, options) for name, options in methods.items()}


# --- what they cost ----------------------------------------------------------------------------


def cost(
    request: JointRequest, model: MaskedLM, whole: Support, *, examples: int = 1, timed: bool = True
) -> Cost:
    """The cost of the joints per text, one of `examples`; `timed` runs the model for a second."""
    axes = placeholder_axes(model, whole, request.support, request.blanks)
    # what will be rejected has no cost
    request.check_fits(axes)
    counted = _counted(request, model, axes)
    return measured(model, request.cloze, counted, request.settings, examples) if timed else counted


def _counted(request: JointRequest, model: MaskedLM, axes: tuple[Support, ...]) -> Cost:
    """The cost as far as it is known before the model runs."""
    methods, settings, length = request.methods, request.settings, len(request.cloze)
    shape, sketch = tuple(map(len, axes)), request.support
    if request.is_scored_by_fills(shape):
        # the probability of one fill; ranking and drawing read more as they go
        cost = Cost(rows_of_a_fill(request.blanks), length, 0)
    elif request.blanks > 2:
        rows = forward_passes(methods, shape, whole_vocabulary=False)
        cost = Cost(rows, length, table_bytes(shape))
    elif request.blanks == 2 and isinstance(sketch, Sketch) and needs_sketch(methods, shape):
        count = len(needs_sketch(methods, shape))
        cost = cost_of_sketch(sketch, shape, settings, length, count)
    else:
        cost = predicted(methods, axes, model, length, settings)
    if not sizes_of(request.support, request.blanks, model.vocabulary_size):
        return cost
    return replace(cost, forward_passes=cost.forward_passes + growing_rows(request.blanks))


def _announce(
    request: JointRequest, model: MaskedLM, axes: tuple[Support, ...], seconds_per_row: float
) -> None:
    """Print the cost of a long run to the stderr of the time when its first batch has run."""
    progress = request.settings.progress
    if not request.settings.announce or progress is False or callable(progress):
        return
    cost = _counted(request, model, axes)
    seconds = cost.forward_passes * seconds_per_row
    if seconds > _LONG_SECONDS:
        print(f"{', '.join(request.methods)}: {replace(cost, seconds=seconds)}", file=sys.stderr)
