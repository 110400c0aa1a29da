"""What result rows amount to: four numbers per construction, and how two constructions differ.

Averages are over examples, of NLLs and divergences; perplexities are exponentials of mean NLLs.
Nothing here ranks: perplexities per token compare only within one vocabulary, and nats per byte
are what remains across several.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unmask.errors import UnmaskError
from unmask.evaluation.rows import METRICS, Group, ResultRow, grouped, measured, total_error
from unmask.printable import quoted
from unmask.resampling import (
    DEFAULT,
    Estimate,
    Resampling,
    means,
    paired_differences,
    ratios,
)

BASELINE = "mlm"
_TOKENS = 2


@dataclass(frozen=True)
class Summary:
    """One construction in one setting; the estimates are None where every example failed.

    `examples` counts the result rows that the means are over, `failed` the others. Perplexities and
    divergences are per token; nats per byte are all nats over all UTF-8 bytes of the gold tokens,
    None if those have no bytes.
    """

    group: Group
    examples: int
    failed: int
    unary_ppl: Estimate | None
    pairwise_ppl: Estimate | None
    all_kl: Estimate | None
    gold_kl: Estimate | None
    unary_nats_per_byte: Estimate | None
    pairwise_nats_per_byte: Estimate | None
    seconds: float


@dataclass(frozen=True)
class Difference:
    """How far a construction is from the baseline on the examples that both have.

    The four means are of the construction's number minus the baseline's, in nats per token; the
    exponential of an NLL's is the ratio of the perplexities. None where they share no example.
    """

    group: Group
    baseline: str
    examples: int
    pairwise_nll: Estimate | None
    unary_nll: Estimate | None
    all_kl: Estimate | None
    gold_kl: Estimate | None


def summarise(rows: Iterable[ResultRow], resampling: Resampling = DEFAULT) -> list[Summary]:
    """A summary of every group of result rows, in the order in which groups first appear."""
    return [_summary(group, of_group, resampling) for group, of_group in grouped(rows).items()]


def differences(
    rows: Iterable[ResultRow], baseline: str = BASELINE, resampling: Resampling = DEFAULT
) -> list[Difference]:
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
        _difference(group, of_group, groups[other], resampling)
        for group, of_group in groups.items()
        if group.construction != baseline
        and (other := group._replace(construction=baseline)) in groups
    ]


def vocabularies_differ(summaries: Iterable[Summary], vocabularies: Mapping[str, str]) -> bool:
    """Whether these are of models whose tokens are not the same.

    `vocabularies` names the vocabulary of a model, by a hash for example. A model that it does
    not name is taken to have one of its own: a comparison that is not known to be fair is not made.
    """
    models = {summary.group.model for summary in summaries}
    # a pair, so that no model without a vocabulary is taken for the name of one
    return len({(model in vocabularies, vocabularies.get(model, model)) for model in models}) > 1


def _summary(group: Group, rows: Sequence[ResultRow], resampling: Resampling) -> Summary:
    valid = measured(rows)
    by_metric = mean_metrics(valid, _measured_metrics(valid), resampling) if valid else {}
    pairwise, unary = by_metric.get("pairwise_nll"), by_metric.get("unary_nll")
    pairwise_bytes, unary_bytes = _nats_per_byte(valid, resampling)
    return Summary(
        group=group,
        examples=len(valid),
        failed=len(rows) - len(valid),
        unary_ppl=unary and unary.exp(),
        pairwise_ppl=pairwise and pairwise.exp(),
        all_kl=by_metric.get("all_kl"),
        gold_kl=by_metric.get("gold_kl"),
        unary_nats_per_byte=unary_bytes,
        pairwise_nats_per_byte=pairwise_bytes,
        seconds=sum(row.seconds for row in rows),
    )


def mean_metrics(
    rows: Sequence[ResultRow], names: Sequence[str], resampling: Resampling
) -> dict[str, Estimate]:
    """The means of some metrics over rows that have them."""
    columns = [[row.metric(name) for row in rows] for name in names]
    estimates = means(columns, _sentences(rows), resampling)
    return {
        name: one.widened(total_error(rows, name) / len(rows))
        for name, one in zip(names, estimates, strict=True)
    }


def _nats_per_byte(
    rows: Sequence[ResultRow], resampling: Resampling
) -> tuple[Estimate, Estimate] | tuple[None, None]:
    """Pairwise and unary; sums over sums, since a mean of ratios would favour short tokens."""
    counts = [row.gold_bytes for row in rows]
    if not sum(counts):
        return None, None
    names = ("pairwise_nll", "unary_nll")
    nats = [[_TOKENS * row.metric(name) for row in rows] for name in names]
    pairwise, unary = (
        one.widened(_TOKENS * total_error(rows, name) / sum(counts))
        for name, one in zip(names, ratios(nats, counts, _sentences(rows), resampling), strict=True)
    )
    return pairwise, unary


def _difference(
    group: Group, rows: Sequence[ResultRow], baseline: Sequence[ResultRow], resampling: Resampling
) -> Difference:
    others = {row.example_id: row for row in measured(baseline)}
    pairs = [(row, others[row.example_id]) for row in measured(rows) if row.example_id in others]
    by_metric: dict[str, Estimate | None] = dict.fromkeys(METRICS)
    if pairs:
        names = _measured_metrics([row for row, _ in pairs])
        own = [[row.metric(name) for row, _ in pairs] for name in names]
        theirs = [[other.metric(name) for _, other in pairs] for name in names]
        sentences = _sentences([row for row, _ in pairs])
        estimates = paired_differences(own, theirs, sentences, resampling)
        # as if both constructions of an example erred independently: what their errors share is not
        # known, and both variances together are at least that of the difference unless they oppose
        both = [row for pair in pairs for row in pair]
        by_metric |= {
            name: one.widened(total_error(both, name) / len(pairs))
            for name, one in zip(names, estimates, strict=True)
        }
    return Difference(group, baseline[0].construction, len(pairs), **by_metric)


def _measured_metrics(rows: Sequence[ResultRow]) -> list[str]:
    """The metrics that these rows have: those of a sketch lack one."""
    return [name for name in METRICS if all(getattr(row, name) is not None for row in rows)]


def _sentences(rows: Sequence[ResultRow]) -> list[str]:
    return [row.sentence_id for row in rows]
