"""NLLs by how far apart the blanks are, as the paper's distance analysis has it.

By the number of tokens between them, or by any other distance (see `syntax`). Only the numbers;
drawing them is for `figures`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from unmask.errors import UnmaskError
from unmask.evaluation.reports.bootstrap import DEFAULT, Estimate, Resampling, means
from unmask.evaluation.rows import Group, Row, grouped, measured, total_error
from unmask.printable import quoted

LEAST_COUNT = 30


@dataclass(frozen=True)
class DistanceBin:
    """The examples whose distance is from `first` to `last`, of one construction.

    NLLs are means in nats per token.
    """

    group: Group
    first: int
    last: int
    examples: int
    pairwise_nll: Estimate
    unary_nll: Estimate


def by_distance(
    rows: Iterable[Row],
    least_count: int = LEAST_COUNT,
    resampling: Resampling = DEFAULT,
    distances: Mapping[str, int] | None = None,
) -> list[DistanceBin]:
    """Mean NLLs per distance; rare distances are pooled, so that no bin is nearly empty.

    The distance is that in tokens, or what `distances` has for the example's id; examples that it
    does not have are left out. All constructions of a setting get the same bins, so that their
    lines can be laid over each other. A setting with fewer than `least_count` examples is one bin,
    of the examples it has.
    """

    def distance(row: Row) -> int:
        return row.token_distance if distances is None else distances[row.example_id]

    if distances is not None:
        rows = [row for row in rows if row.example_id in distances]
        # two models may mask different words under one id, which then has no one distance
        by_example(rows)
    settings: dict[Group, dict[Group, list[Row]]] = {}
    for group, found in grouped(rows).items():
        if usable := measured(found):
            settings.setdefault(group.setting, {})[group] = usable
    return [
        one
        for constructions in settings.values()
        for one in _setting_bins(constructions, distance, least_count, resampling)
    ]


def by_example(rows: Iterable[Row]) -> dict[str, Row]:
    """The first result row of every example; blanks at different characters under one id raise."""
    first: dict[str, Row] = {}
    for row in rows:
        one = first.setdefault(row.example_id, row)
        if (one.sentence_id, one.spans) != (row.sentence_id, row.spans):
            raise UnmaskError(
                f"the example {quoted(row.example_id)} has other blanks with {quoted(row.model)}"
                f" than with {quoted(one.model)}: take the result rows of one corpus and model at a"
                " time"
            )
    return first


def by_setting(bins: Iterable[DistanceBin]) -> dict[Group, list[DistanceBin]]:
    """Bins by what they share but for the construction, which the keys leave empty."""
    settings: dict[Group, list[DistanceBin]] = {}
    for one in bins:
        settings.setdefault(one.group.setting, []).append(one)
    return settings


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
    constructions: Mapping[Group, Sequence[Row]],
    distance: Callable[[Row], int],
    least_count: int,
    resampling: Resampling,
) -> Iterable[DistanceBin]:
    counted = [Counter(map(distance, rows)) for rows in constructions.values()]
    # the smallest count of any construction: where some failed, bins hold for them too
    every = set().union(*counted)
    counts = {far: min(count[far] for count in counted) for far in every}
    bins = pooled(counts, least_count)
    for group, rows in constructions.items():
        for first, last in bins:
            if inside := [row for row in rows if first <= distance(row) <= last]:
                names = ("pairwise_nll", "unary_nll")
                columns = [[row.metric(name) for row in inside] for name in names]
                nlls = means(columns, [row.sentence_id for row in inside], resampling)
                known = [
                    one.widened(total_error(inside, name) / len(inside))
                    for name, one in zip(names, nlls, strict=True)
                ]
                yield DistanceBin(group, first, last, len(inside), *known)
