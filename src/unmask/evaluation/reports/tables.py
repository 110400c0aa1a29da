"""Tables of results as values: columns and cells, before any output format.

Cells stay numbers here. How a number or a hostile name is written is for the output formats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from unmask.evaluation.reports.paper import CITATION, published
from unmask.evaluation.reports.paper import MEASURES as PAPER_MEASURES
from unmask.evaluation.reports.summary import MEASURES, NLLS, Summary
from unmask.evaluation.rows import METRICS, SKETCHED_VOCABULARY, WHOLE_VOCABULARY, Group
from unmask.resampling import FEWEST, Estimate

Cell = str | int | float | Estimate | None

# one sentence per term, for the document in which it first stands
TERMS = {
    "contiguous": "Contiguous: the two blanks are neighbours.",
    "random": "Random: the two blanks are any two tokens of the sentence.",
    WHOLE_VOCABULARY: "Support vocabulary: the joint is exact over the whole vocabulary.",
    SKETCHED_VOCABULARY: (
        "Support vocabulary (sketch): the numbers are sketched, that is, estimated from some of"
        " the vocabulary's contexts, with standard errors."
    ),
    "P-NLL": (
        "P-NLL: minus the natural logarithm of the joint probability of the two true tokens,"
        " divided by two, so in nats per token."
    ),
    "U-NLL": (
        "U-NLL: the same for one true token given the other, averaged over the two; for mlm the"
        " model's own conditionals are taken, as in the paper."
    ),
    "P-PPL": "P-PPL and U-PPL: perplexities, the exponentials of the mean P-NLL and U-NLL.",
    "A-KL": (
        "A-KL: the Kullback-Leibler divergence from the model's own conditionals to those of the"
        " joint, averaged over all contexts, in nats."
    ),
    "G-KL": "G-KL: the same divergence, in the contexts of the two true tokens alone.",
    "P nats/byte": (
        "Nats/byte: all nats of the true tokens over all UTF-8 bytes that they stand for."
    ),
}
# the term for every other support
CANDIDATES = "A list of tokens as support: the joint is exact over these candidates."

INTERVALS = "In brackets: 95% bootstrap confidence intervals, resampled by sentence."
VOCABULARIES = (
    "These models have different vocabularies, or none is known to be shared: do not compare them"
    " by perplexity per token, but by nats per byte, and note that different tokens were masked."
)
FAILURES = (
    "Some examples failed, and means are over the others: compare constructions by their paired"
    " differences."
)
FEW = (
    f"Some rows are over fewer than {FEWEST} examples: bootstrap intervals of so few are too"
    " narrow, and their differences are not marked."
)
DIFFERENCES = (
    "Differences: means of the construction's number minus the baseline's, paired per example;"
    " below zero, the construction is better. Marked: the interval excludes zero."
)
DISTANCE = "Distance: the number of tokens between the blanks, 0 for neighbours."
SKETCHES = (
    "Intervals of sketched numbers include the standard errors of the examples. Sketches have no"
    " A-KL, because most contexts were not run."
)
PAPER = f"The paper's numbers: {CITATION}, 1,000 examples, which are not these."
NAMES = {
    "unary_ppl": "U-PPL",
    "pairwise_ppl": "P-PPL",
    "all_kl": "A-KL",
    "gold_kl": "G-KL",
    "unary_nats_per_byte": "U nats/byte",
    "pairwise_nats_per_byte": "P nats/byte",
    "pairwise_nll": "P-NLL",
    "unary_nll": "U-NLL",
}


class TableKind(NamedTuple):
    """A table of reports: its title, its measures, and the sentences below every such table.

    `facts` are the attributes of a `Summary` that stand before the measures, by column.
    """

    title: str
    measures: Sequence[str]
    notes: tuple[str, ...]
    facts: Mapping[str, str]


_EXAMPLES, _MINUS = {"examples": "examples"}, {"minus": "baseline"}
TABLES = {
    "results": TableKind(
        "Results",
        MEASURES,
        ("Means are over examples, and lower is better.",),
        _EXAMPLES | {"failed": "failed"},
    ),
    "differences": TableKind("Paired differences", METRICS, (DIFFERENCES,), _MINUS | _EXAMPLES),
    "distance-differences": TableKind(
        "Paired differences by token distance",
        NLLS,
        (DISTANCE, DIFFERENCES),
        _MINUS | {"distance from": "first", "to": "last"} | _EXAMPLES,
    ),
}
# which may move into the title where they are the same in all rows
_SETTING = {*Group._fields, "minus"} - {"construction"}


@dataclass(frozen=True)
class ReportTable:
    """Columns, rows of as many cells, a title and notes; `terms` explain its names.

    Numbers of `signed` differences show their signs, and are marked where an interval of enough
    examples excludes zero.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    signed: bool = False

    def compact(self) -> "ReportTable":
        """The same table for a reader: settings that are the same in all rows in the title."""
        values = {name: {row[i] for row in self.rows} for i, name in enumerate(self.columns)}
        same = [name for name in self.columns if name in _SETTING and len(values[name]) == 1]
        rest = [i for i, name in enumerate(self.columns) if name not in same]
        listed = ", ".join(f"{name} {min(values[name], key=str)}" for name in same)
        return replace(
            self,
            title=f"{self.title}: {listed}" if listed else self.title,
            columns=tuple(self.columns[i] for i in rest),
            rows=tuple(tuple(row[i] for i in rest) for row in self.rows),
        )


def report_table(
    name: str, summaries: Sequence[Summary], *, vocabularies: Mapping[str, str] | None = None
) -> ReportTable:
    """One of `TABLES`: a row per summary, its group and its numbers.

    Results have the paper's numbers beside them where they are of the same. `vocabularies` names
    the vocabulary of a model, by a hash for example: a model that it does not name is taken to have
    one of its own.
    """
    kind, is_results = TABLES[name], name == "results"
    groups = [summary.group for summary in summaries]
    columns: dict[str, list[Cell]] = {
        **{field: [getattr(group, field) for group in groups] for field in Group._fields},
        **{
            title: [getattr(row, field) for row in summaries] for title, field in kind.facts.items()
        },
        **{NAMES[measure]: [row[measure] for row in summaries] for measure in kind.measures},
    }
    paper: dict[str, list[Cell]] = {
        f"{NAMES[measure]}, paper": [published(group, measure) for group in groups]
        for measure in (PAPER_MEASURES if is_results else ())
    }
    paper = {title: numbers for title, numbers in paper.items() if any(numbers)}
    columns |= paper
    used = {NAMES[measure] for measure in (*kind.measures, *(NLLS if is_results else ()))}
    used |= {text for group in groups for text in (group.mask, group.support)}
    terms = [term for text, term in TERMS.items() if text in used]
    if any(group.support not in TERMS for group in groups):
        terms.append(CANDIDATES)
    distinct = {(vocabularies or {}).get(group.model, group.model) for group in groups}
    is_sketched = any(group.support == SKETCHED_VOCABULARY for group in groups)
    holds = {
        INTERVALS: True,
        VOCABULARIES: is_results and len(distinct) > 1,
        FAILURES: any(summary.failed for summary in summaries),
        SKETCHES: is_results and is_sketched,
        FEW: any(0 < summary.examples < FEWEST for summary in summaries),
        PAPER: bool(paper),
    }
    return ReportTable(
        title=kind.title,
        columns=tuple(columns),
        rows=tuple(zip(*columns.values(), strict=True)),
        notes=(*kind.notes, *(note for note, is_true in holds.items() if is_true)),
        terms=tuple(terms),
        signed=not is_results,
    )


def shown_setting(group: Group) -> str:
    """Model, corpus, blanks and support of a setting, as a title."""
    text = f"{group.model}, {group.corpus}, {group.mask} blanks"
    if group.support == WHOLE_VOCABULARY:
        return text
    return f"{text}, support {group.support}"
