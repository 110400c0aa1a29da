"""What a run's summaries say of cost and accuracy: the points of `unmask.plots.frontier`."""

import math
from collections.abc import Iterable, Mapping

from unmask.errors import UnmaskError
from unmask.evaluation.reports.summary import Summary
from unmask.plots.trade_off import Point
from unmask.printable import quoted


def frontier_points(
    summaries: Iterable[Summary], forward_passes: Mapping[str, float]
) -> list[Point]:
    """Points of a run's summaries of one setting; what a pair costs is given by construction."""
    found = [one for one in summaries if one.pairwise_ppl is not None]
    if len({one.group._replace(construction="") for one in found}) > 1:
        raise UnmaskError("a frontier is of one setting: give the summaries of one model and mask")
    unknown = {one.group.construction for one in found} - forward_passes.keys()
    if unknown:
        raise UnmaskError(f"what does {quoted(min(unknown))} cost? Give its forward passes")
    return [
        Point(one.group.construction, forward_passes[one.group.construction], *_nll(one))
        for one in found
    ]


def _nll(summary: Summary) -> tuple[float, float, float]:
    found = summary.pairwise_ppl
    assert found is not None
    return math.log(found.value), math.log(found.low), math.log(found.high)
