"""NLLs by how many tokens stand between the blanks, as the paper's token distance analysis has it.

Only the numbers; drawing them is for others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unmask.errors import UnmaskError
from unmask.evaluation.bootstrap import DEFAULT, Estimate, Resampling, means
from unmask.evaluation.rows import Group, Row, grouped, measured
from unmask.printable import quoted

LEAST_COUNT = 30


@dataclass(frozen=True)
class DistanceBin:
    """The examples whose token distance is from `first` to `last`, of one construction.

    NLLs are means in nats per token.
    """

    group: Group
    first: int
    last: int
    examples: int
    pairwise_nll: Estimate
    unary_nll: Estimate


def by_distance(
    rows: Iterable[Row], least_count: int = LEAST_COUNT, resampling: Resampling = DEFAULT
) -> list[DistanceBin]:
    """Mean NLLs a token distance; rare distances are pooled, so that no bin is nearly empty.

    All constructions of a setting get the same bins, so that their lines can be laid over each
    other. A setting with fewer than `least_count` examples is one bin, of the examples it has.
    """
    if least_count < 1:
        raise UnmaskError(f"least_count is a number from 1, not {quoted(least_count)}")
    settings: dict[Group, dict[Group, list[Row]]] = {}
    for group, found in grouped(rows).items():
        if usable := measured(found):
            settings.setdefault(group._replace(construction=""), {})[group] = usable
    return [
        one
        for constructions in settings.values()
        for one in _setting_bins(constructions, least_count, resampling)
    ]


def pooled(counts: Mapping[int, int], least_count: int) -> list[tuple[int, int]]:
    """First and last distance of every bin: a distance alone where that is enough.

    Where it is not, it is pooled with the next ones until they are; what is left over at the far
    end joins the last bin.
    """
    bins: list[tuple[int, int]] = []
    pending: list[int] = []
    for distance in sorted(counts):
        pending.append(distance)
        if sum(counts[one] for one in pending) >= least_count:
            bins.append((pending[0], distance))
            pending = []
    if pending:
        first = bins.pop()[0] if bins else pending[0]
        bins.append((first, pending[-1]))
    return bins


def _setting_bins(
    constructions: Mapping[Group, Sequence[Row]], least_count: int, resampling: Resampling
) -> Iterable[DistanceBin]:
    counted = [Counter(row.token_distance for row in rows) for rows in constructions.values()]
    # the smallest count of any construction: where some failed, bins hold for them too
    every = set().union(*counted)
    counts = {distance: min(count[distance] for count in counted) for distance in every}
    bins = pooled(counts, least_count)
    for group, rows in constructions.items():
        for first, last in bins:
            inside = [row for row in rows if first <= row.token_distance <= last]
            if inside:
                yield _bin(group, (first, last), inside, resampling)


def _bin(
    group: Group, ends: tuple[int, int], rows: Sequence[Row], resampling: Resampling
) -> DistanceBin:
    columns = [[row.metric(name) for row in rows] for name in ("pairwise_nll", "unary_nll")]
    pairwise, unary = means(columns, [row.sentence_id for row in rows], resampling)
    return DistanceBin(group, *ends, len(rows), pairwise, unary)
