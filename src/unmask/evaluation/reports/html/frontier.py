"""What accuracy costs in one setting: the figure of forward passes against P-NLL, and its table.

A run keeps a hash of its vocabulary and not how many tokens it has. Where nothing else says how
many a blank has, costs are written with V, and the figure's axis has one step for each of them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from unmask.evaluation.plan import Construction, Plan
from unmask.evaluation.reports.bootstrap import Estimate
from unmask.evaluation.reports.frontier_points import frontier_points
from unmask.evaluation.reports.html.charts import WITHOUT, drawn
from unmask.evaluation.reports.html.tables import table_of
from unmask.evaluation.reports.summary import Summary
from unmask.evaluation.reports.tables import Column, Table
from unmask.evaluation.rows import WHOLE_VOCABULARY
from unmask.markup import Markup, element, joined, paragraph, text
from unmask.plots.trade_off import frontier
from unmask.queries.costs.forward_passes import forward_passes
from unmask.text.alphabets import ALPHABETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READING = (
    "What each construction costs for the probability of one pair, and what that buys. orders and"
    " sweep cost more where pairs are ranked or summed over."
)
NOT_TO_SCALE = (
    " V is the number of tokens that a blank may have, which a run does not keep: steps along the"
    " axis are not to scale."
)
_COLUMNS = (Column(name="construction"), Column(name="forward passes"), Column(name="P-NLL"))
# more tokens than any vocabulary has, so that costs that do not grow with it are seen
_MANY = 10**9
# how far apart steps are on a logarithmic axis that is not to scale
_STEP = 2.5


@dataclass(frozen=True, order=True)
class Passes:
    """Forward passes of one pair: a multiple of V, and so many more."""

    times: int
    more: int

    def __str__(self) -> str:
        if not self.times:
            return f"{self.more:,}"
        tables = "V" if self.times == 1 else f"{self.times}V"
        return f"{tables} + {self.more}" if self.more else tables


def passes_by_label(plans: Iterable[Plan], support: str) -> dict[str, Passes]:
    """What one pair costs by the label of a construction, over the support of that name."""
    return {
        one.label: _passes(one, plan)
        for plan in plans
        if plan.support_name == support
        for one in plan.constructions
    }


def frontier_part(
    summaries: Sequence[Summary],
    passes: Mapping[str, Passes],
    colours: Mapping[str, str],
    *,
    key: str,
    title: str,
) -> Markup:
    """Figure and table of a setting's constructions; nothing where there are no two to compare."""
    found = [one for one in summaries if one.group.construction in passes and _is_finite(one)]
    if len(found) < 2:
        return Markup("")
    costs = {one.group.construction: passes[one.group.construction] for one in found}
    nlls = {
        one.construction: Estimate(one.value, math.nan, one.low, one.high)
        for one in frontier_points(found, dict.fromkeys(costs, 1))
    }
    rows = [(name, str(costs[name]), nlls[name]) for name in sorted(costs, key=costs.__getitem__)]
    shown = table_of(Table("", _COLUMNS, tuple(rows)), colours, caption="Forward passes and P-NLL")
    return joined(
        [
            _figure(found, costs, key=key, title=title),
            element("details", element("summary", text("Numbers by forward passes")), shown),
        ]
    )


def _passes(one: Construction, plan: Plan) -> Passes:
    size = _size(plan.support)
    known = size or _MANY
    rows = forward_passes(
        [one.method],
        (known, known),
        whole_vocabulary=plan.support == WHOLE_VOCABULARY,
        options={one.method: one.options},
    )
    return Passes(0, rows) if size else Passes(*divmod(rows, _MANY))


def _size(support: str | tuple[str, ...]) -> int | None:
    if not isinstance(support, str):
        return len(support)
    return len(ALPHABETS[support]) if support in ALPHABETS else None


def _is_finite(one: Summary) -> bool:
    return one.pairwise_ppl is not None and math.isfinite(one.pairwise_ppl.value)


def _figure(
    found: Sequence[Summary], costs: Mapping[str, Passes], *, key: str, title: str
) -> Markup:
    if find_spec("matplotlib") is None:
        return paragraph(WITHOUT)
    grows = any(cost.times for cost in costs.values())
    figure = _in_steps(found, costs) if grows else _to_scale(found, costs)
    label = f"P-NLL against forward passes: {title}. The table beside has the same numbers."
    caption = element("figcaption", text(READING + NOT_TO_SCALE * grows))
    return element("figure", drawn(figure, key=key, label=label), caption, tabindex="0")


def _to_scale(found: Sequence[Summary], costs: Mapping[str, Passes]) -> "Figure":
    return frontier(frontier_points(found, {name: cost.more for name, cost in costs.items()}))


def _in_steps(found: Sequence[Summary], costs: Mapping[str, Passes]) -> "Figure":
    steps = {cost: _STEP**place for place, cost in enumerate(sorted(set(costs.values())))}
    figure = frontier(frontier_points(found, {name: steps[cost] for name, cost in costs.items()}))
    (panel,) = figure.axes
    panel.set_xticks(list(steps.values()), list(map(str, steps)))
    panel.minorticks_off()
    return figure
