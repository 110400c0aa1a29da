"""What accuracy costs in one setting: the figure of forward passes against P-NLL, and its table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from unmask.evaluation.plan import Construction, Plan
from unmask.evaluation.reports.bootstrap import Estimate
from unmask.evaluation.reports.frontier_points import frontier_points
from unmask.evaluation.reports.html.charts import WITHOUT, drawn
from unmask.evaluation.reports.summary import Summary
from unmask.evaluation.reports.tables import Column, Table
from unmask.evaluation.rows import WHOLE_VOCABULARY
from unmask.plots.trade_off import Point, frontier
from unmask.queries.costs.forward_passes import forward_passes

_COLUMNS = (Column(name="construction"), Column(name="forward passes"), Column(name="P-NLL"))


@dataclass(frozen=True)
class Frontier:
    """The figure, or a sentence that says why there is none, and its numbers."""

    picture: str
    table: Table


def passes_by_label(plans: Iterable[Plan], support: str) -> dict[str, int]:
    """The forward passes of one pair by the label of a construction, over the support of that name.

    Earlier versions did not keep how many tokens a support has: their plans are not counted.
    """
    return {
        one.label: _passes(one, plan.support_size, whole=plan.support == WHOLE_VOCABULARY)
        for plan in plans
        if plan.support_name == support and plan.support_size is not None
        for one in plan.constructions
    }


def frontier_part(
    summaries: Sequence[Summary], passes: Mapping[str, int], *, key: str, title: str
) -> Frontier | None:
    """Figure and table of a setting's constructions; None where there are no two to compare."""
    found = [one for one in summaries if one.group.construction in passes and _is_finite(one)]
    if len(found) < 2:
        return None
    points = sorted(frontier_points(found, passes), key=lambda one: one.forward_passes)
    rows = [
        (
            one.construction,
            f"{one.forward_passes:,}",
            Estimate(one.value, math.nan, one.low, one.high),
        )
        for one in points
    ]
    return Frontier(_figure(points, key=key, title=title), Table("", _COLUMNS, tuple(rows)))


def _passes(one: Construction, size: int, *, whole: bool) -> int:
    return forward_passes(
        [one.method], (size, size), whole_vocabulary=whole, options={one.method: one.options}
    )


def _is_finite(one: Summary) -> bool:
    return one.pairwise_ppl is not None and math.isfinite(one.pairwise_ppl.value)


def _figure(points: Sequence[Point], *, key: str, title: str) -> str:
    if find_spec("matplotlib") is None:
        return WITHOUT
    label = f"P-NLL against forward passes: {title}. The table beside has the same numbers."
    return drawn(frontier(points), key=key, label=label)
