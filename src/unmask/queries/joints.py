"""What is asked about one text, checked before anything is paid, and answered with joints.

One blank is the model's own distribution, two are joined from their conditional tables, more from
tables over candidates or, where those would be too large, by filling one blank after another.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from unmask.arguments import Options
from unmask.constructions import (
    CONSTRUCTIONS,
    DEFAULT_METHOD,
    check_methods,
    check_options,
    construct,
)
from unmask.constructions import several as several
from unmask.constructions.besag import check_pivot
from unmask.errors import MethodError, SupportError
from unmask.joints.joint import Joint, rows_of
from unmask.joints.lazy_orders import FillingOrders
from unmask.model.masked_lm import MaskedLM
from unmask.queries.costs.cost import Cost
from unmask.queries.costs.estimate import FEW_PASSES, estimate, estimate_rows
from unmask.queries.costs.forward_passes import by_appetite
from unmask.settings import Settings
from unmask.tables.beams import growing_rows
from unmask.tables.blank_reader import BlankReader
from unmask.tables.candidate_tables import BlankTables
from unmask.tables.elicited import ElicitedSource, one_blank
from unmask.tables.pair_tables import PairTables
from unmask.tables.proposals import (
    AUTO,
    Axes,
    affordable_size,
    choose_axes,
    placeholder_axes,
    sizes_of,
)
from unmask.tables.sizes import (
    check_fits,
    needs_no_table,
    rows_of_a_fill,
    table_bytes,
    table_rows,
)
from unmask.text.cloze import Cloze
from unmask.text.pieces import blanks_of, made_of_pieces
from unmask.text.support import Support

# a run longer than this announces its cost first
_LONG_SECONDS = 10.0


@dataclass(frozen=True)
class Question:
    """Constructions of the blanks of one text: checked, and not yet paid for."""

    cloze: Cloze
    methods: list[str]
    options: dict[str, dict[str, object]]
    support: object
    settings: Settings

    @property
    def blanks(self) -> int:
        """How many blanks the text has."""
        return len(self.cloze.positions)


def question(
    cloze: Cloze,
    *,
    methods: Sequence[str] | None,
    support: object,
    settings: Settings | None,
    options: Options | None,
) -> Question:
    """Constructions by their names, those that fit the number of blanks where none are named."""
    blanks = len(cloze.positions)
    named = _all_methods(blanks, support) if methods is None else methods
    check = several.check_several if blanks > 2 else check_options
    names, chosen = check_methods(named, options, check=check)
    _refuse_support_of_wide_blanks(cloze, support)
    if blanks > 2:
        several.checked_path(chosen.get("hcb", {}).get("path"), blanks)
        if _is_auto(support) and _is_one_by_one(names, chosen):
            # as for two blanks: what needs no table ranges over everything
            support = "vocabulary"
    asked = Question(cloze, names, chosen, support, settings or Settings())
    _refuse_what_has_no_table(asked)
    return asked


def _is_one_by_one(methods: list[str], options: Options) -> bool:
    return methods == ["orders"] and options.get("orders", {}).get("mean") != "geometric"


def _refuse_support_of_wide_blanks(cloze: Cloze, support: object) -> None:
    if cloze.widths is not None and isinstance(support, Mapping):
        raise SupportError(
            f"{made_of_pieces(cloze)}, and support by blank takes one piece each; give words as "
            "targets"
        )


def _all_methods(blanks: int, support: object) -> list[str]:
    if _beyond_tables(blanks, support):
        return ["orders"]
    return list(CONSTRUCTIONS if blanks < 3 else several.CONSTRUCTIONS)


def default_method(blanks: int, support: object) -> str:
    """The construction where none is named: log-pool, or what needs no table."""
    return "orders" if _beyond_tables(blanks, support) else DEFAULT_METHOD


def _refuse_what_has_no_table(asked: Question) -> None:
    if _beyond_tables(asked.blanks, asked.support):
        tables = [method for method in asked.methods if method != "orders"] or ["geometric orders"]
        raise MethodError(
            f"{', '.join(tables)} of {blanks_of(asked.cloze)} would need a table over too many "
            "fills; use method 'orders' alone, which needs none, or give a number of candidates per"
            " blank, such as 4"
        )


def _beyond_tables(blanks: int, support: object) -> bool:
    """Whether nobody gave candidates, and tables of enough of them would take too many rows."""
    return _is_auto(support) and blanks > 2 and affordable_size(blanks) is None


def _is_auto(support: object) -> bool:
    return isinstance(support, str) and support == AUTO


def answer(
    asked: Question, model: MaskedLM, whole: Support, provenance: Mapping[str, object]
) -> dict[str, Joint]:
    """The joints, by the names of their constructions in the order asked."""
    if asked.blanks > 2:
        _check_fits(asked, placeholder_axes(model, whole, asked.support, asked.blanks))
    axes = choose_axes(model, whole, asked.cloze, asked.support, asked.settings)
    about = {**provenance, **axes.diagnostics()}
    if asked.blanks == 1:
        own = own_distribution(
            model, asked.cloze, axes.supports[0], about, passes_before=axes.forward_passes
        )
        return dict.fromkeys(asked.methods, own)
    build = _pair_joints if asked.blanks == 2 else _several_joints
    return build(asked, model, axes, about)


def _check_fits(asked: Question, axes: tuple[Support, ...]) -> None:
    """Refuse tables that are too large before candidates are grown for them."""
    shape = tuple(len(axis) for axis in axes)
    if not needs_no_table(asked.methods, shape, asked.settings.memory_limit, asked.options):
        geometric = asked.methods == ["orders"]
        check_fits(
            shape, asked.settings.memory_limit, geometric=geometric, blanks=blanks_of(asked.cloze)
        )


def _pair_joints(
    asked: Question, model: MaskedLM, axes: Axes, about: Mapping[str, object]
) -> dict[str, Joint]:
    check_pivot(asked.options.get("hcb", {}), axes.supports)
    announce(asked, model, axes.supports)
    tables = pair_tables(asked.cloze, model, axes, asked.settings, about)
    if not all(axis.is_whole(model.vocabulary_size) for axis in axes.supports):
        # how much of the model's mass the candidates hold belongs beside their probabilities
        tables.masked  # noqa: B018
    built = {
        name: construct(name, tables, **asked.options.get(name, {}))
        for name in by_appetite(asked.methods, asked.options)
    }
    return {name: built[name] for name in asked.methods}


def pair_tables(
    cloze: Cloze,
    model: MaskedLM,
    axes: Axes,
    settings: Settings,
    about: Mapping[str, object],
) -> PairTables:
    """Both conditional tables of two blanks; nothing runs until a part is asked for."""
    first, second = axes.supports
    told = {**about, **axes.diagnostics()}
    source = ElicitedSource(model, cloze, (first, second), settings, provenance=told)
    source.forward_passes = axes.forward_passes
    return PairTables(
        source,
        memory_limit=settings.memory_limit,
        half_copies=settings.half_tables,
        progress=settings.progress,
    )


def _several_joints(
    asked: Question, model: MaskedLM, axes: Axes, about: Mapping[str, object]
) -> dict[str, Joint]:
    shape = tuple(len(axis) for axis in axes.supports)
    if needs_no_table(asked.methods, shape, asked.settings.memory_limit, asked.options):
        reader = BlankReader(model, asked.cloze, axes.supports, asked.settings)
        reader.forward_passes = axes.forward_passes
        return {"orders": FillingOrders(reader, diagnostics={**about, "length": len(asked.cloze)})}
    tables = BlankTables(
        model,
        asked.cloze,
        axes.supports,
        asked.settings,
        provenance=about,
        passes_before=axes.forward_passes,
    )
    announce(asked, model, axes.supports)
    # the whole tables first: constructions that need less then find their parts there
    least = ("orders", "hcb", "mlm")
    order = sorted(asked.methods, key=lambda name: least.index(name) if name in least else -1)
    built = {name: several.construct(name, tables, **asked.options.get(name, {})) for name in order}
    return {name: built[name] for name in asked.methods}


# --- what it costs -----------------------------------------------------------------------------


def cost(
    asked: Question, model: MaskedLM, whole: Support, *, examples: int = 1, timed: bool = True
) -> Cost:
    """What the joints cost a text, one of `examples`; `timed` runs the model for a second."""
    axes = placeholder_axes(model, whole, asked.support, asked.blanks)
    if asked.blanks > 2:
        # what will be rejected has no cost
        _check_fits(asked, axes)
    above = 0 if timed else sys.maxsize
    return _cost(asked, model, axes, examples=examples, measured_above=above)


def _cost(
    asked: Question,
    model: MaskedLM,
    axes: tuple[Support, ...],
    *,
    examples: int,
    measured_above: int,
) -> Cost:
    if asked.blanks < 3:
        tables = estimate(
            model,
            asked.cloze,
            asked.methods,
            axes,
            asked.settings,
            asked.options,
            examples=examples,
            measured_above=measured_above,
        )
        growing = _growing(asked, model.vocabulary_size)
        return replace(tables, forward_passes=tables.forward_passes + growing)
    return estimate_rows(
        model,
        asked.cloze,
        _several_cost(asked, axes, model.vocabulary_size),
        asked.settings,
        examples=examples,
        measured_above=measured_above,
    )


def _growing(asked: Question, vocabulary_size: int) -> int:
    """The rows in which the model proposes candidates, at most."""
    sizes = sizes_of(asked.support, asked.blanks, vocabulary_size)
    return growing_rows(asked.blanks) if sizes else 0


def _several_cost(asked: Question, axes: tuple[Support, ...], vocabulary_size: int) -> Cost:
    shape = tuple(len(axis) for axis in axes)
    growing = _growing(asked, vocabulary_size)
    if needs_no_table(asked.methods, shape, asked.settings.memory_limit, asked.options):
        # the probability of one fill; ranking and drawing ask for more as they go
        return Cost(growing + rows_of_a_fill(asked.blanks), len(asked.cloze), 0)
    return Cost(
        growing + table_rows(asked.methods, shape, asked.options),
        len(asked.cloze),
        table_bytes(shape),
        storage="dense",
        storage_why="candidates are few",
    )


def announce(asked: Question, model: MaskedLM, axes: tuple[Support, ...]) -> None:
    """Say what a long run costs before it starts, on whatever stderr is."""
    shown = asked.settings.progress
    if not asked.settings.announce or shown is False or callable(shown):
        return
    found = _cost(asked, model, axes, examples=1, measured_above=FEW_PASSES)
    if found.seconds is not None and found.seconds > _LONG_SECONDS:
        print(f"{', '.join(asked.methods)}: {found}", file=sys.stderr)


def own_distribution(
    model: MaskedLM,
    cloze: Cloze,
    support: Support,
    provenance: Mapping[str, object],
    *,
    passes_before: int = 0,
) -> Joint:
    """The model's distribution at a single blank, over a support."""
    log_p, captured = one_blank(model, cloze, support)
    return Joint(
        partial(rows_of, log_p),
        (support,),
        method="mlm",
        diagnostics={
            **provenance,
            "forward_passes": passes_before + 1,
            "length": len(cloze),
            "captured_mass": [captured],
        },
        device=log_p.device,
    )
