"""Validate a request for joints of one text, estimate its cost, run the model, build the joints.

One blank is the model's own distribution, two are joined from their conditional tables, more from
tables over candidates or, where those would be too large, by filling one blank after another.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from unmask.arguments import Options
from unmask.constructions import (
    CONSTRUCTIONS,
    DEFAULT_METHOD,
    METHOD_WITHOUT_TABLES,
    check_methods,
    construct,
    construction,
    constructions_of,
)
from unmask.constructions.besag import check_pivot
from unmask.errors import MethodError, SupportError
from unmask.joints.engine import Engine
from unmask.joints.joint import Joint
from unmask.joints.lazy_orders import LazyOrders
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.queries.costs.cost import Cost, predicted
from unmask.queries.costs.estimate import measured
from unmask.queries.costs.flops import weight_bytes
from unmask.queries.costs.forward_passes import all_needs, forward_passes
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
from unmask.tables.elicited import ElicitedSource, masked_distributions
from unmask.tables.pair_tables import PairTables
from unmask.tables.proposals import (
    AUTO,
    Axes,
    affordable_size,
    choose_axes,
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
    """Constructions of the blanks of one text: checked, and nothing has run."""

    cloze: Cloze
    methods: list[str]
    options: dict[str, dict[str, object]]
    support: object
    settings: Settings

    @property
    def blanks(self) -> int:
        """How many blanks the text has."""
        return len(self.cloze.positions)

    def without_tables(self) -> bool:
        """Whether fills can be scored one by one, whatever the supports."""
        return all(
            construction(name).without_tables(self.options.get(name, {})) for name in self.methods
        )

    def is_scored_by_fills(self, shape: tuple[int, ...]) -> bool:
        """Whether fills of more than two blanks are better scored one by one than from a table."""
        if self.blanks < 3 or not self.without_tables():
            return False
        too_large = table_bytes(shape) > self.settings.memory_limit
        return too_large or self.table_rows(shape) > AFFORDABLE_ROWS

    def table_rows(self, shape: tuple[int, ...]) -> int:
        """Forward passes behind the tables of candidates."""
        return forward_passes(self.methods, shape, whole_vocabulary=False, options=self.options)


def check_request(
    cloze: Cloze,
    *,
    methods: Sequence[str] | None,
    support: object,
    settings: Settings | None,
    options: Options | None,
) -> JointRequest:
    """Constructions by their names, those that fit the number of blanks where none are named."""
    blanks = len(cloze.positions)
    if methods is None:
        beyond = _beyond_tables(blanks, support)
        methods = [METHOD_WITHOUT_TABLES] if beyond else constructions_of(blanks)
        if isinstance(support, Sketch):
            methods = [name for name in methods if name in sketchable()]
    names, chosen = check_methods(methods, options, max(2, blanks))
    if isinstance(support, Sketch) and blanks == 2:
        check_sketched(names)
    if cloze.widths is not None and isinstance(support, Mapping):
        raise SupportError(
            f"{made_of_pieces(cloze)}, and support by blank takes one piece each; give words as "
            "targets"
        )
    request = JointRequest(cloze, names, chosen, support, settings or Settings())
    if blanks > 2 and _is_auto(support) and request.without_tables():
        # as for two blanks: what needs no table ranges over everything
        request = replace(request, support="tokens")
    if _beyond_tables(blanks, request.support):
        tables = [
            name for name in names if not construction(name).without_tables(chosen.get(name, {}))
        ]
        raise MethodError(
            f"{', '.join(tables)} of {blanks_of(cloze)} would need a table over too many fills; "
            f"use method {METHOD_WITHOUT_TABLES!r} alone, with its arithmetic mean, which needs "
            "none, or give a number of candidates per blank, such as 4"
        )
    return request


def default_method(blanks: int, support: object) -> str:
    """The construction where none is named: log-pool, or what needs no table."""
    return METHOD_WITHOUT_TABLES if _beyond_tables(blanks, support) else DEFAULT_METHOD


def _beyond_tables(blanks: int, support: object) -> bool:
    """Whether no candidates are given, and tables of enough of them would take too many rows."""
    return _is_auto(support) and blanks > 2 and affordable_size(blanks) is None


def _is_auto(support: object) -> bool:
    return isinstance(support, str) and support == AUTO


# --- the joints --------------------------------------------------------------------------------


def build_joints(
    request: JointRequest, model: MaskedLM, whole: Support, provenance: Mapping[str, object]
) -> dict[str, Joint]:
    """The joints, by the names of their constructions in the order requested."""
    if request.blanks > 2:
        _check_fits(request, placeholder_axes(model, whole, request.support, request.blanks))
    axes = choose_axes(model, whole, request.cloze, request.support, request.settings)
    about = {**provenance, **axes.diagnostics()}
    if request.blanks == 1:
        own = _own_distribution(request, model, axes, about)
        return dict.fromkeys(request.methods, own)
    check_pivot(request.options.get("hcb", {}), axes.supports)
    if request.is_scored_by_fills(tuple(len(axis) for axis in axes.supports)):
        return {request.methods[0]: _joint_by_fills(request, model, axes, about)}
    if isinstance(request.support, Sketch):
        not_elicited = pair_tables(request.cloze, model, axes, request.settings, about)
        return sketched_joints(request.methods, request.options, not_elicited, request.support)
    tables = _tables(request, model, axes, about)
    # together and first, so that single contexts are found in whole tables; a function of the
    # caller's may still reject its options
    ours = [name for name in request.methods if name in CONSTRUCTIONS]
    needed = all_needs(ours, tables.shape, request.options)
    whole_vocabulary = all(axis.is_whole(model.vocabulary_size) for axis in axes.supports)
    # how much of the model's mass candidates hold belongs beside their probabilities
    tables.elicit(needed.whole, masked=needed.masked or not whole_vocabulary)
    return {
        name: construct(name, tables, **request.options.get(name, {})) for name in request.methods
    }


def _tables(
    request: JointRequest, model: MaskedLM, axes: Axes, about: Mapping[str, object]
) -> PairTables | CandidateTables:
    announce = _announcement(request, model, axes.supports)
    if request.blanks == 2:
        tables = pair_tables(request.cloze, model, axes, request.settings, about)
        reader = tables.source.reader if isinstance(tables.source, ElicitedSource) else None
        if reader is not None:
            reader.after_first_batch = announce
        return tables
    several = CandidateTables(
        model,
        request.cloze,
        axes.supports,
        request.settings,
        provenance=about,
        passes_before=axes.forward_passes,
    )
    several.reader.after_first_batch = announce
    return several


def pair_tables(
    cloze: Cloze,
    model: MaskedLM,
    axes: Axes,
    settings: Settings,
    about: Mapping[str, object],
) -> PairTables:
    """Both conditional tables of two blanks; nothing runs until a part is read."""
    first, second = axes.supports
    source = ElicitedSource(
        model,
        cloze,
        (first, second),
        settings,
        provenance={**about, **axes.diagnostics()},
        passes_before=axes.forward_passes,
    )
    return PairTables(source, settings)


def _joint_by_fills(
    request: JointRequest, model: MaskedLM, axes: Axes, about: Mapping[str, object]
) -> Joint:
    reader = BlankReader(
        model, request.cloze, axes.supports, request.settings, passes_before=axes.forward_passes
    )
    known = {**about, "length": len(request.cloze)}
    return Joint(LazyOrders(reader), axes.supports, method=request.methods[0], diagnostics=known)


def _own_distribution(
    request: JointRequest, model: MaskedLM, axes: Axes, about: Mapping[str, object]
) -> Joint:
    """The model's distribution at a single blank: there is nothing to construct."""
    reader = RowReader(model, request.settings, forward_passes=axes.forward_passes)
    ((log_p, captured),) = masked_distributions(reader, request.cloze, axes.supports)
    return Joint(
        Engine.of_table(log_p),
        axes.supports,
        method="mlm",
        diagnostics={
            **about,
            "forward_passes": reader.forward_passes,
            "length": len(request.cloze),
            "captured_mass": [captured],
        },
    )


def _check_fits(request: JointRequest, axes: tuple[Support, ...]) -> None:
    """Raise for tables that are too large before candidates are grown for them."""
    shape = tuple(len(axis) for axis in axes)
    if not request.is_scored_by_fills(shape):
        alone = request.methods == [METHOD_WITHOUT_TABLES]
        limit, blanks = request.settings.memory_limit, blanks_of(request.cloze)
        check_fits(shape, limit, geometric=alone, blanks=blanks)


# --- what they cost ----------------------------------------------------------------------------


def cost(
    request: JointRequest, model: MaskedLM, whole: Support, *, examples: int = 1, timed: bool = True
) -> Cost:
    """What the joints cost per text, one of `examples`; `timed` runs the model for a second."""
    axes = placeholder_axes(model, whole, request.support, request.blanks)
    if request.blanks > 2:
        # what will be rejected has no cost
        _check_fits(request, axes)
    found = _counted(request, model, axes)
    return measured(model, request.cloze, found, request.settings, examples) if timed else found


def _counted(request: JointRequest, model: MaskedLM, axes: tuple[Support, ...]) -> Cost:
    """The cost as far as it is known before the model runs."""
    shape, layer = tuple(len(axis) for axis in axes), model.output_embedding
    if request.blanks > 2:
        found = _cost_of_several(request, shape)
    elif (
        request.blanks == 2
        and isinstance(request.support, Sketch)
        and (sketchy := needs_sketch(request.methods, shape, request.options))
    ):
        width = None if layer is None else layer.weight.shape[1]
        found = cost_of_sketch(
            request.support, shape, request.settings, len(request.cloze), len(sketchy), width
        )
        found = replace(found, model_bytes=weight_bytes(model))
    else:
        found = predicted(
            request.methods,
            shape,
            length=len(request.cloze),
            width=None if layer is None else layer.weight.shape[1],
            settings=request.settings,
            model_bytes=weight_bytes(model),
            whole_vocabulary=all(axis.is_whole(model.vocabulary_size) for axis in axes),
            options=request.options,
        )
    if not sizes_of(request.support, request.blanks, model.vocabulary_size):
        return found
    return replace(found, forward_passes=found.forward_passes + growing_rows(request.blanks))


def _cost_of_several(request: JointRequest, shape: tuple[int, ...]) -> Cost:
    if request.is_scored_by_fills(shape):
        # the probability of one fill; ranking and drawing read more as they go
        return Cost(rows_of_a_fill(request.blanks), len(request.cloze), 0)
    return Cost(
        request.table_rows(shape),
        len(request.cloze),
        table_bytes(shape),
        storage="dense",
        storage_why="candidates are few",
    )


def _announcement(
    request: JointRequest, model: MaskedLM, axes: tuple[Support, ...]
) -> Callable[[float], None] | None:
    """What says the cost of a long run once its first batch has run, on whatever stderr is."""
    shown = request.settings.progress
    if not request.settings.announce or shown is False or callable(shown):
        return None

    def announce(seconds_per_row: float) -> None:
        found = _counted(request, model, axes)
        seconds = found.forward_passes * seconds_per_row
        if seconds > _LONG_SECONDS:
            said = replace(found, seconds=seconds)
            print(f"{', '.join(request.methods)}: {said}", file=sys.stderr)

    return announce
