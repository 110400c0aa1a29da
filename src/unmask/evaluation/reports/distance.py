"""NLLs by how far apart the blanks are, as the paper's distance analysis has it.

By the number of tokens between them, or by any other distance (see `syntax`): the NLLs of every
construction, and how far some of them are from a baseline, example by example. Only the numbers;
drawing them is for `figures`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from unmask.errors import UnmaskError
from unmask.evaluation.reports.summary import differences, mean_metrics
from unmask.evaluation.rows import Group, ResultRow, grouped, measured
from unmask.printable import quoted
from unmask.resampling import DEFAULT, Estimate, Resampling

LEAST_COUNT = 30
NLLS = ("pairwise_nll", "unary_nll")
# whose differences are drawn, where they were measured: more lines than these nobody can read
_DRAWN = ("mlm", "ag-paper", "hcb", "mrf", "log-pool")
_MOST_DRAWN = 4
_Settings = Mapping[Group, Mapping[Group, Sequence[ResultRow]]]


@dataclass(frozen=True)
class DistanceBin:
    """The examples whose distance is from `first` to `last`, of one construction.

    NLLs are means in nats per token; with a `baseline`, of the construction's NLL minus the
    baseline's on the same example.
    """

    group: Group
    first: int
    last: int
    examples: int
    pairwise_nll: Estimate
    unary_nll: Estimate
    baseline: str | None = None


def by_distance(
    rows: Iterable[ResultRow],
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
    distance = _distance_of(distances)
    return [
        one
        for constructions in _settings(rows, distances).values()
        for one in _setting_bins(constructions, distance, least_count, resampling)
    ]


def differences_by_distance(
    rows: Iterable[ResultRow],
    baseline: str,
    least_count: int = LEAST_COUNT,
    resampling: Resampling = DEFAULT,
    distances: Mapping[str, int] | None = None,
) -> list[DistanceBin]:
    """Mean differences to the baseline per distance, paired by example, in bins as above.

    Of four constructions: the paper's and the default as far as they were measured, otherwise the
    first four. Settings without the baseline have none. They come by distance, then construction.
    """
    distance = _distance_of(distances)
    return [
        one
        for constructions in _settings(rows, distances).values()
        for one in _difference_bins(constructions, baseline, distance, least_count, resampling)
    ]


def compared(constructions: Iterable[str], baseline: str) -> list[str]:
    """The constructions whose differences to the baseline are drawn."""
    others = [name for name in constructions if name != baseline]
    return ([name for name in _DRAWN if name in others] or others)[:_MOST_DRAWN]


def by_example(rows: Iterable[ResultRow]) -> dict[str, ResultRow]:
    """The first result row of every example; blanks at different characters under one id raise."""
    first: dict[str, ResultRow] = {}
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
    """Bins by group without the construction, which the keys leave empty."""
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


def _distance_of(distances: Mapping[str, int] | None) -> Callable[[ResultRow], int]:
    return lambda row: row.token_distance if distances is None else distances[row.example_id]


def _settings(rows: Iterable[ResultRow], distances: Mapping[str, int] | None) -> _Settings:
    """Measured rows that have a distance, by setting and construction."""
    if distances is not None:
        rows = [row for row in rows if row.example_id in distances]
        # two models may mask different words under one id, which then has no one distance
        by_example(rows)
    settings: dict[Group, dict[Group, Sequence[ResultRow]]] = {}
    for group, of_group in grouped(rows).items():
        if usable := measured(of_group):
            settings.setdefault(group.setting, {})[group] = usable
    return settings


def _ends(
    constructions: Iterable[Sequence[ResultRow]],
    distance: Callable[[ResultRow], int],
    least_count: int,
) -> list[tuple[int, int]]:
    counted = [Counter(map(distance, rows)) for rows in constructions]
    # the smallest count of any construction: where some failed, bins hold for them too
    every = set().union(*counted)
    counts = {far: min(count[far] for count in counted) for far in every}
    return pooled(counts, least_count)


def _setting_bins(
    constructions: Mapping[Group, Sequence[ResultRow]],
    distance: Callable[[ResultRow], int],
    least_count: int,
    resampling: Resampling,
) -> Iterable[DistanceBin]:
    bins = _ends(constructions.values(), distance, least_count)
    for group, rows in constructions.items():
        for first, last in bins:
            if inside := [row for row in rows if first <= distance(row) <= last]:
                pairwise, unary = mean_metrics(inside, NLLS, resampling).values()
                yield DistanceBin(group, first, last, len(inside), pairwise, unary)


def _difference_bins(
    constructions: Mapping[Group, Sequence[ResultRow]],
    baseline: str,
    distance: Callable[[ResultRow], int],
    least_count: int,
    resampling: Resampling,
) -> Iterable[DistanceBin]:
    by_name = {group.construction: rows for group, rows in constructions.items()}
    if baseline not in by_name:
        return
    names = compared(by_name, baseline)
    chosen = [by_name[name] for name in (*names, baseline)]
    for first, last in _ends(chosen, distance, least_count):
        inside = [row for rows in chosen for row in rows if first <= distance(row) <= last]
        for one in differences(inside, baseline, resampling):
            if one.pairwise_nll is not None and one.unary_nll is not None:
                nlls = (one.pairwise_nll, one.unary_nll)
                yield DistanceBin(one.group, first, last, one.examples, *nlls, baseline)
