"""What accuracy costs in one setting: the figure of forward passes against P-NLL, and its table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from unmask.constructions import CONSTRUCTIONS
from unmask.errors import UnmaskError
from unmask.evaluation.reports.html.charts import WITHOUT, drawn
from unmask.evaluation.reports.summary import Summary
from unmask.evaluation.reports.tables import Column, ReportTable
from unmask.evaluation.rows import WHOLE_VOCABULARY
from unmask.evaluation.run import EvaluationPlan
from unmask.plots.trade_off import Point, frontier
from unmask.printable import quoted
from unmask.queries.costs.passes import forward_passes
from unmask.resampling import Estimate

_COLUMNS = (Column(name="construction"), Column(name="forward passes"), Column(name="P-NLL"))


class Frontier(NamedTuple):
    """The figure, or the reason why there is none, and its numbers."""

    picture: str
    table: ReportTable


def passes_by_label(plans: Iterable[EvaluationPlan], support: str) -> dict[str, int]:
    """The forward passes of one pair by the label of a construction, over the support of that name.

    Earlier versions did not keep how many tokens a support has: their plans are not counted, nor
    are those of sketches, whose constructions share as many as the precision asks for, nor
    constructions of one's own, which a report does not import.
    """
    return {
        one.label: forward_passes(
            {one.method: one.options},
            (plan.support_size, plan.support_size),
            whole_vocabulary=plan.support == WHOLE_VOCABULARY,
        )
        for plan in plans
        if plan.support_name == support and plan.support_size is not None and plan.sketch is None
        for one in plan.constructions
        if one.method in CONSTRUCTIONS
    }


def frontier_points(
    summaries: Iterable[Summary], forward_passes: Mapping[str, float]
) -> list[Point]:
    """Points of a run's summaries of one setting, for `unmask.plots.frontier`.

    Args:
        summaries: Summaries of a `report`.
        forward_passes: What a pair costs, by construction.
    Returns:
        A point per construction.
    Raises:
        UnmaskError: What a construction costs is missing.
    Examples:
        >>> from unmask.evaluation import frontier_points, read_run, report
        >>> from unmask.resampling import Resampling
        >>> combined = report([read_run("results")], resampling=Resampling(resamples=100))
        >>> points = frontier_points(combined.summaries(), {"log-pool": 500})
        >>> [point.construction for point in points]
        ['log-pool']
    """
    measured = [one for one in summaries if one.pairwise_ppl is not None]
    if len({one.group.setting for one in measured}) > 1:
        raise UnmaskError("a frontier is of one setting: give the summaries of one model and mask")
    unknown = {one.group.construction for one in measured} - forward_passes.keys()
    if unknown:
        raise UnmaskError(f"what does {quoted(min(unknown))} cost? Give its forward passes")
    return [
        Point(name, forward_passes[name], *map(math.log, (ppl.value, ppl.low, ppl.high)))
        for one in measured
        if (ppl := one.pairwise_ppl) and (name := one.group.construction)
    ]


def frontier_part(
    summaries: Sequence[Summary], passes: Mapping[str, int], *, key: str, title: str
) -> Frontier | None:
    """Figure and table of a setting's constructions; None where there are no two to compare."""
    measured = [
        one
        for one in summaries
        if one.group.construction in passes
        and one.pairwise_ppl is not None
        and math.isfinite(one.pairwise_ppl.value)
    ]
    if len(measured) < 2:
        return None
    points = sorted(frontier_points(measured, passes), key=lambda one: one.forward_passes)
    rows = [
        (
            one.construction,
            f"{one.forward_passes:,}",
            Estimate(one.value, math.nan, one.low, one.high),
        )
        for one in points
    ]
    return Frontier(_figure(points, key=key, title=title), ReportTable("", _COLUMNS, tuple(rows)))


def _figure(points: Sequence[Point], *, key: str, title: str) -> str:
    if find_spec("matplotlib") is None:
        return WITHOUT
    label = f"P-NLL against forward passes: {title}. The table below has the same numbers."
    return drawn(frontier(points), key=key, label=label)
