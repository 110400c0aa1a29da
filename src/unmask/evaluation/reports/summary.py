"""Statistics of result rows: means per construction, and paired differences from a baseline.

Averages are over examples, of NLLs and divergences; perplexities are exponentials of mean NLLs.
Nothing here ranks: perplexities per token compare only within one vocabulary, nats per byte across
several. Both statistics are also cut by the distance between the blanks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from unmask.errors import UnmaskError
from unmask.evaluation.rows import METRICS, Group, ResultRow, grouped, measured, total_error
from unmask.printable import quoted
from unmask.resampling import DEFAULT, Estimate, Resampling, means, paired_differences, ratios

BASELINE = "mlm"
NLLS = ("pairwise_nll", "unary_nll")
MEASURES = (
    *("unary_ppl", "pairwise_ppl", "all_kl", "gold_kl"),
    *("unary_nats_per_byte", "pairwise_nats_per_byte"),
)
# fewer examples than this are pooled with those of the next distance
LEAST_COUNT = 30
# the constructions whose differences are cut by distance: more lines than four nobody can read
_DRAWN = ("mlm", "ag", "hcb", "mrf", "log-pool")
_MOST_DRAWN = 4
_TOKENS = 2


@dataclass(frozen=True)
class Summary:
    """Estimates of one construction in one setting, by measure; None where nothing was measured.

    Without a `baseline`, means over `examples` result rows, beside which `failed` ones have none.
    With one, means of the construction's number minus the baseline's on the `examples` that both
    have, in nats per token. With `first` and `last`, over examples whose blanks are so far apart.
    """

    group: Group
    examples: int
    estimates: Mapping[str, Estimate | None]
    failed: int = 0
    baseline: str | None = None
    first: int = 0
    last: int = 0

    def __getitem__(self, measure: str) -> Estimate | None:
        """The estimate of a measure."""
        return self.estimates[measure]


class Distance(NamedTuple):
    """A distance between the blanks of a result row, None where it has none, and its names.

    `name` is that of tables and files, `note` the sentence that says what is counted.
    """

    name: str
    title: str
    axis_label: str
    note: str
    of: Callable[[ResultRow], int | None]


TOKEN_DISTANCE = Distance(
    "distance",
    "token distance",
    "tokens between the blanks",
    "Distance: the number of tokens between the blanks, 0 for neighbours.",
    attrgetter("token_distance"),
)


def summarise(rows: Iterable[ResultRow], resampling: Resampling = DEFAULT) -> list[Summary]:
    """The means of every group of result rows, in the order in which groups first appear."""
    return [_summary(group, members, resampling) for group, members in grouped(rows).items()]


def differences(
    rows: Iterable[ResultRow], baseline: str = BASELINE, resampling: Resampling = DEFAULT
) -> list[Summary]:
    """Every construction minus the baseline of the same setting, paired by example.

    Settings where the baseline was not run have no differences; where no setting has it, it is
    an error.
    """
    groups = grouped(rows)
    if groups and all(group.construction != baseline for group in groups):
        labels = sorted({group.construction for group in groups})
        raise UnmaskError(
            f"no result row is of the baseline {quoted(baseline)}; choose one of"
            f" {', '.join(map(quoted, labels))}"
        )
    return [
        _difference(group, members, groups[other], resampling)
        for group, members in groups.items()
        if group.construction != baseline
        and (other := group._replace(construction=baseline)) in groups
    ]


def by_distance(
    rows: Iterable[ResultRow],
    distance: Distance = TOKEN_DISTANCE,
    resampling: Resampling = DEFAULT,
    *,
    least_count: int = LEAST_COUNT,
) -> list[Summary]:
    """Mean NLLs per distance; rare distances are pooled, so that no bin is nearly empty.

    All constructions of a setting get the same bins, so that their lines can be laid over each
    other. A setting with fewer than `least_count` examples is one bin.
    """
    return [
        Summary(group, len(inside), _means(inside, NLLS, resampling), first=first, last=last)
        for constructions in _settings(rows, distance).values()
        for group, members in constructions.items()
        for first, last in _bins(constructions.values(), distance, least_count)
        if (inside := _between(members, distance, first, last))
    ]


def differences_by_distance(
    rows: Iterable[ResultRow],
    baseline: str,
    distance: Distance = TOKEN_DISTANCE,
    resampling: Resampling = DEFAULT,
    *,
    least_count: int = LEAST_COUNT,
) -> list[Summary]:
    """Mean differences from the baseline per distance, in bins as above.

    Of four constructions: the paper's and the default as far as they were measured, otherwise the
    first four. Settings without the baseline have none. They come by distance, then construction.
    """
    summaries = []
    for constructions in _settings(rows, distance).values():
        by_name = {group.construction: members for group, members in constructions.items()}
        if baseline not in by_name:
            continue
        names = [name for name in by_name if name != baseline]
        drawn = [name for name in _DRAWN if name in names] or names
        members = [by_name[name] for name in (*drawn[:_MOST_DRAWN], baseline)]
        for first, last in _bins(members, distance, least_count):
            inside = [row for part in members for row in _between(part, distance, first, last)]
            summaries += [
                replace(one, first=first, last=last)
                for one in differences(inside, baseline, resampling)
                if one["pairwise_nll"] is not None
            ]
    return summaries


def by_setting(summaries: Iterable[Summary]) -> dict[Group, list[Summary]]:
    """Summaries by group without the construction, which the keys leave empty."""
    settings: dict[Group, list[Summary]] = {}
    for summary in summaries:
        settings.setdefault(summary.group.setting, []).append(summary)
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
        if sum(counts[near] for near in pending) >= least_count:
            bins.append((pending[0], distance))
            pending = []
    if pending:
        first = bins.pop()[0] if bins else pending[0]
        bins.append((first, pending[-1]))
    return bins


def _summary(group: Group, rows: Sequence[ResultRow], resampling: Resampling) -> Summary:
    valid = measured(rows)
    estimates: dict[str, Estimate | None] = dict.fromkeys(MEASURES)
    if valid:
        by_metric = _means(valid, _metrics(valid), resampling)
        estimates |= {
            f"{name}_ppl": by_metric[f"{name}_nll"].exp() for name in ("unary", "pairwise")
        }
        estimates |= {name: by_metric.get(name) for name in ("all_kl", "gold_kl")}
        estimates |= _nats_per_byte(valid, resampling)
    return Summary(
        group,
        len(valid),
        estimates,
        failed=len(rows) - len(valid),
    )


def _difference(
    group: Group, rows: Sequence[ResultRow], baseline: Sequence[ResultRow], resampling: Resampling
) -> Summary:
    others = {row.example_id: row for row in measured(baseline)}
    pairs = [(row, others[row.example_id]) for row in measured(rows) if row.example_id in others]
    estimates: dict[str, Estimate | None] = dict.fromkeys(METRICS)
    if pairs:
        names = _metrics([row for row, _ in pairs])
        numbers, baselines = (
            [[pair[place].metric(name) for pair in pairs] for name in names] for place in (0, 1)
        )
        sentences = [row.sentence_id for row, _ in pairs]
        # as if both constructions of an example erred independently: what their errors share is not
        # known, and both variances together are at least that of the difference unless they oppose
        both = [row for pair in pairs for row in pair]
        estimates |= _widened(
            names, paired_differences(numbers, baselines, sentences, resampling), both, len(pairs)
        )
    return Summary(group, len(pairs), estimates, baseline=baseline[0].construction)


def _means(
    rows: Sequence[ResultRow], names: Sequence[str], resampling: Resampling
) -> dict[str, Estimate]:
    columns = [[row.metric(name) for row in rows] for name in names]
    estimates = means(columns, [row.sentence_id for row in rows], resampling)
    return _widened(names, estimates, rows, len(rows))


def _nats_per_byte(rows: Sequence[ResultRow], resampling: Resampling) -> dict[str, Estimate]:
    """Sums over sums, since a mean of ratios would favour short tokens; none without bytes."""
    counts = [row.gold_bytes for row in rows]
    if not sum(counts):
        return {}
    nats = [[_TOKENS * row.metric(name) for row in rows] for name in NLLS]
    estimates = ratios(nats, counts, [row.sentence_id for row in rows], resampling)
    by_metric = _widened(NLLS, estimates, rows, sum(counts) / _TOKENS)
    return {f"{name.removesuffix('nll')}nats_per_byte": by_metric[name] for name in NLLS}


def _widened(
    names: Sequence[str], estimates: Sequence[Estimate], rows: Sequence[ResultRow], count: float
) -> dict[str, Estimate]:
    """Estimates by metric, with the errors of rows that are estimates themselves."""
    return {
        name: estimate.widened(total_error(rows, name) / count)
        for name, estimate in zip(names, estimates, strict=True)
    }


def _metrics(rows: Sequence[ResultRow]) -> list[str]:
    """The metrics that these rows have: those of a sketch lack one."""
    return [name for name in METRICS if all(getattr(row, name) is not None for row in rows)]


def _settings(
    rows: Iterable[ResultRow], distance: Distance
) -> dict[Group, dict[Group, list[ResultRow]]]:
    """Measured rows that have a distance, by setting and construction."""
    settings: dict[Group, dict[Group, list[ResultRow]]] = {}
    for group, members in grouped(row for row in rows if distance.of(row) is not None).items():
        if valid := measured(members):
            settings.setdefault(group.setting, {})[group] = valid
    return settings


def _between(
    rows: Iterable[ResultRow], distance: Distance, first: int, last: int
) -> list[ResultRow]:
    return [row for row in rows if first <= (distance.of(row) or 0) <= last]


def _bins(
    constructions: Iterable[Sequence[ResultRow]], distance: Distance, least_count: int
) -> list[tuple[int, int]]:
    counted = [Counter(distance.of(row) or 0 for row in rows) for rows in constructions]
    # the smallest count of any construction: where some failed, bins hold for them too
    counts = {far: min(count[far] for count in counted) for far in set().union(*counted)}
    return pooled(counts, least_count)
