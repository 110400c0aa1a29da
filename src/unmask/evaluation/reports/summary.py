"""Statistics of result rows: means per construction, and paired differences from a baseline.

Averages are over examples, of NLLs and divergences; perplexities are exponentials of mean NLLs.
Nothing here ranks: perplexities per token compare only within one vocabulary, nats per byte across
several. Differences are also cut by the distance between the blanks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from unmask.errors import UnmaskError
from unmask.evaluation.rows import METRICS, Group, ResultRow, grouped, measured, total_error
from unmask.printable import quoted
from unmask.resampling import DEFAULT, Estimate, Resampling, means, paired_differences, ratios

BASELINE = "mlm"
NLLS = ("pairwise_nll", "unary_nll")
PERPLEXITIES = {"unary_ppl": "unary_nll", "pairwise_ppl": "pairwise_nll"}
PER_BYTE = {"unary_nats_per_byte": "unary_nll", "pairwise_nats_per_byte": "pairwise_nll"}
MEASURES = (*PERPLEXITIES, "all_kl", "gold_kl", *PER_BYTE)
# fewer examples than this are pooled with those of the next distance
LEAST_COUNT = 30
# the constructions whose differences are cut by distance: the lines of all nobody can read
_DRAWN = ("mlm", "ag", "hcb", "mrf", "log-pool")
_TOKENS = 2

Estimates = dict[str, Estimate | None]


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
    summaries = []
    for group, members in groups.items():
        others = measured(groups.get(group._replace(construction=baseline), ()))
        if group.construction == baseline or not others:
            continue
        by_example = {row.example_id: row for row in others}
        paired = [row for row in measured(members) if row.example_id in by_example]
        estimates: Estimates = dict.fromkeys(METRICS)
        estimates |= _means(paired, [by_example[row.example_id] for row in paired], resampling)
        summaries.append(Summary(group, len(paired), estimates, baseline=baseline))
    return summaries


def by_distance(
    rows: Iterable[ResultRow],
    resampling: Resampling = DEFAULT,
    *,
    baseline: str = BASELINE,
    least_count: int = LEAST_COUNT,
) -> list[Summary]:
    """Differences from a baseline per token distance; rare distances are pooled.

    All constructions of a setting get the same bins, so that their lines can be laid over each
    other. A setting with fewer than `least_count` examples is one bin. Differences are of the
    paper's constructions and the default, as far as they were measured, otherwise of all; settings
    without the baseline have none.
    """
    settings: dict[Group, dict[str, list[ResultRow]]] = {}
    for group, members in grouped(rows).items():
        if valid := measured(members):
            settings.setdefault(group.setting, {})[group.construction] = valid
    bins: list[Summary] = []
    for constructions in settings.values():
        if baseline not in constructions:
            continue
        others = [name for name in constructions if name != baseline]
        names = [name for name in _DRAWN if name in others] or others
        compared = [constructions[name] for name in (*names, baseline)]
        counted = [Counter(row.token_distance for row in members) for members in compared]
        # the smallest count of any construction: where some failed, bins hold for them too
        counts = {far: min(count[far] for count in counted) for far in set().union(*counted)}
        for first, last in pooled(counts, least_count):
            measures = (row for members in compared for row in members)
            inside = [row for row in measures if first <= row.token_distance <= last]
            bins += [
                replace(summary, first=first, last=last)
                for summary in differences(inside, baseline, resampling)
                if summary.examples
            ]
    return bins


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
    means_of = _means(valid, [], resampling)
    estimates: Estimates = dict.fromkeys((*METRICS, *MEASURES))
    estimates |= means_of
    if valid:
        estimates |= {name: means_of[nll].exp() for name, nll in PERPLEXITIES.items()}
    if size := sum(row.gold_bytes for row in valid):
        # sums over sums, since a mean of ratios would favour short tokens
        nats = [[_TOKENS * row.metric(nll) for row in valid] for nll in PER_BYTE.values()]
        counts, sentences = zip(*((row.gold_bytes, row.sentence_id) for row in valid), strict=True)
        plain = ratios(nats, counts, sentences, resampling)
        estimates |= _widened(PER_BYTE, plain, valid, size / _TOKENS)
    return Summary(group, len(valid), estimates, failed=len(rows) - len(valid))


def _means(
    rows: Sequence[ResultRow], others: Sequence[ResultRow], resampling: Resampling
) -> dict[str, Estimate]:
    """Means of the metrics that all rows have, or of what `others` differ by, example by example.

    The standard errors of both constructions are added as if they erred independently: what they
    share is not known, and both variances together are at least that of the difference unless they
    oppose.
    """
    if not rows:
        return {}
    # rows of a sketch lack one
    names = [name for name in METRICS if all(getattr(row, name) is not None for row in rows)]
    columns, less = ([[row.metric(n) for row in part] for n in names] for part in (rows, others))
    sentences = [row.sentence_id for row in rows]
    if others:
        plain = paired_differences(columns, less, sentences, resampling)
    else:
        plain = means(columns, sentences, resampling)
    return _widened({name: name for name in names}, plain, [*rows, *others], len(rows))


def _widened(
    metrics: Mapping[str, str],
    estimates: Sequence[Estimate],
    rows: Sequence[ResultRow],
    count: float,
) -> dict[str, Estimate]:
    """Estimates by measure, with the errors of rows that are estimates themselves."""
    return {
        name: estimate.widened(total_error(rows, metric) / count)
        for (name, metric), estimate in zip(metrics.items(), estimates, strict=True)
    }
