"""Tables of results as values: columns and cells, before any output format.

Cells stay numbers here. How a number or a hostile name is written is for the output formats.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from unmask.evaluation.reports.distance import NLLS, DistanceBin
from unmask.evaluation.reports.paper import CITATION, MEASURES, published
from unmask.evaluation.reports.summary import Difference, Summary, vocabularies_differ
from unmask.evaluation.rows import METRICS, SKETCHED_VOCABULARY, WHOLE_VOCABULARY, Group
from unmask.resampling import Estimate

Grouped = TypeVar("Grouped", Summary, Difference, DistanceBin)
Cell = str | int | float | Estimate | None

# of so many examples on, a bootstrap interval is nearly as wide as it should be
FEWEST = 20
# up to so many tokens of a support are listed; of more, the first few
_MOST_LISTED, _FIRST = 8, 3
# lists are joined by commas, and a comma is a token too
_TOKEN = re.compile(r"(,|[^,]+)(?:,|$)")

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
AVERAGES = "Means are over examples, and lower is better."
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
DISTANCES = "Distance: the number of tokens between the blanks, 0 for neighbours."
SYNTACTIC_DISTANCES = (
    "Distance: the number of edges between the blanks' words in the dependency tree, 0 within one"
    " word."
)
SKETCHES = (
    "Intervals of sketched numbers include the standard errors of the examples. Sketches have no"
    " A-KL, because most contexts were not run."
)
TOKEN_DISTANCE = "token distance"
_NAMES = {
    "unary_ppl": "U-PPL",
    "pairwise_ppl": "P-PPL",
    "all_kl": "A-KL",
    "gold_kl": "G-KL",
    "unary_nats_per_byte": "U nats/byte",
    "pairwise_nats_per_byte": "P nats/byte",
    "pairwise_nll": "P-NLL",
    "unary_nll": "U-NLL",
}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A heading, and how its cells are written.

    A `setting` may move into the title where it is the same in all rows; a `signed` number shows
    its sign, and is marked where its interval excludes zero, but not in rows of few examples,
    which `counts` says.
    """

    name: str
    digits: int = 3
    signed: bool = False
    counts: bool = False
    setting: bool = False
    estimate: bool = False


_LESS = Column(name="minus", setting=True)
_BIN = [Column(name="distance from"), Column(name="to")]
# what the cells of a column are called where they come from
_ATTRIBUTES = {
    **{name: attribute for attribute, name in _NAMES.items()},
    "minus": "baseline",
    "distance from": "first",
    "to": "last",
    "examples": "examples",
}


@dataclass(frozen=True)
class ReportTable:
    """Columns, rows of as many cells, a title and notes; `terms` explain its names."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()

    def compact(self) -> "ReportTable":
        """The same table for a reader: settings that are the same in all rows in the title."""
        same = [
            place
            for place, column in enumerate(self.columns)
            if column.setting and len({row[place] for row in self.rows}) == 1
        ]
        kept = [place for place in range(len(self.columns)) if place not in same]
        listed = [f"{self.columns[place].name} {self.rows[0][place]}" for place in same]
        return replace(
            self,
            title=": ".join([self.title, ", ".join(listed)] if listed else [self.title]),
            columns=tuple(self.columns[place] for place in kept),
            rows=tuple(tuple(row[place] for place in kept) for row in self.rows),
        )


def summary_table(summaries: Sequence[Summary], vocabularies: Mapping[str, str]) -> ReportTable:
    """All numbers of every construction, with the paper's beside where they are of the same.

    Rows come in the order of the summaries. `vocabularies` says which models share one, as in
    `vocabularies_differ`.
    """
    measures = [*MEASURES, "unary_nats_per_byte", "pairwise_nats_per_byte"]
    beside = [m for m in MEASURES if any(published(s.group, m) is not None for s in summaries)]
    rows = [
        (
            *group,
            summary.examples,
            summary.failed,
            *(getattr(summary, measure) for measure in measures),
            *(published(summary.group, measure) for measure in beside),
        )
        for group, summary in _with_groups(summaries)
    ]
    columns = (
        *_group_columns(),
        Column(name="examples"),
        Column(name="failed"),
        *map(_estimates, measures),
        *(Column(name=f"{_NAMES[m]}, paper", digits=_digits(m)) for m in beside),
    )
    notes = _summary_notes(summaries, vocabularies, paper=bool(beside))
    terms = _terms(summaries, [*NLLS, *measures])
    return ReportTable("Results", columns, tuple(rows), notes, terms)


def difference_table(differences: Sequence[Difference]) -> ReportTable:
    """Paired differences to a baseline."""
    shown = [_LESS, Column(name="examples", counts=True), *map(_signed, METRICS)]
    notes = (DIFFERENCES, INTERVALS, *_few(differences))
    return _table("Paired differences", differences, shown, notes)


def distance_table(
    bins: Sequence[DistanceBin], *, kind: str = TOKEN_DISTANCE, counted: str = DISTANCES
) -> ReportTable:
    """NLLs by a kind of distance; `counted` is the sentence on what that counts."""
    shown = [*_BIN, Column(name="examples"), *map(_estimates, NLLS)]
    notes = (f"Mean NLLs per distance. {counted}", INTERVALS)
    return _table(f"NLL by {kind}", bins, shown, notes)


def distance_difference_table(
    bins: Sequence[DistanceBin], *, kind: str = TOKEN_DISTANCE, counted: str = DISTANCES
) -> ReportTable:
    """Paired differences to a baseline by a kind of distance, as figures draw them."""
    shown = [_LESS, *_BIN, Column(name="examples", counts=True), *map(_signed, NLLS)]
    notes = (counted, DIFFERENCES, INTERVALS, *_few(bins))
    return _table(f"Paired differences by {kind}", bins, shown, notes)


def _table(
    title: str, stats: Sequence[Any], shown: Sequence[Column], notes: tuple[str, ...]
) -> ReportTable:
    """A row for each, whose cells are its values under the names of the columns."""
    attributes = [_ATTRIBUTES[column.name] for column in shown]
    rows: list[tuple[Cell, ...]] = [
        (*group, *(getattr(one, name) for name in attributes)) for group, one in _with_groups(stats)
    ]
    terms = _terms(stats, [name for name in attributes if name in _NAMES])
    return ReportTable(title, (*_group_columns(), *shown), tuple(rows), notes, terms)


def _few(counted: Sequence[Difference] | Sequence[DistanceBin]) -> tuple[str, ...]:
    return (FEW,) if any(0 < one.examples < FEWEST for one in counted) else ()


def shown_support(support: str) -> str:
    """A long list of tokens shortened; plans and JSON have all of it."""
    tokens = _TOKEN.findall(support)
    if len(tokens) <= _MOST_LISTED:
        return support
    return f"{len(tokens)} tokens: {', '.join(tokens[:_FIRST])}, ..."


def shown_supports(supports: Iterable[str]) -> dict[str, str]:
    """The same for the supports of one table; whole where two would look alike."""
    shown = {support: shown_support(support) for support in supports}
    alike = len(set(shown.values())) < len(shown)
    return {support: support for support in shown} if alike else shown


def shown_setting(group: Group) -> str:
    """Model, corpus, blanks and support of a setting, as a title."""
    text = f"{group.model}, {group.corpus}, {group.mask} blanks"
    if group.support == WHOLE_VOCABULARY:
        return text
    return f"{text}, support {shown_support(group.support)}"


def _terms(stats: Sequence[Grouped], measures: Sequence[str]) -> tuple[str, ...]:
    """What explains the masks, supports and measures of a table, in the order of `TERMS`."""
    groups: list[Group] = [one.group for one in stats]
    used: set[str] = {name for group in groups for name in (group.mask, group.support)}
    used |= {_NAMES[measure] for measure in measures}
    terms = [term for name, term in TERMS.items() if name in used]
    if any(group.support not in TERMS for group in groups):
        terms.append(CANDIDATES)
    return tuple(terms)


def _with_groups(stats: Sequence[Grouped]) -> Iterable[tuple[Group, Grouped]]:
    """Each beside its group as a reader sees it."""
    shown = shown_supports(one.group.support for one in stats)
    return ((one.group._replace(support=shown[one.group.support]), one) for one in stats)


def _group_columns() -> list[Column]:
    return [Column(name=name, setting=name != "construction") for name in Group._fields]


def _estimates(measure: str) -> Column:
    return Column(name=_NAMES[measure], digits=_digits(measure), estimate=True)


def _signed(measure: str) -> Column:
    return Column(name=_NAMES[measure], signed=True, estimate=True)


def _digits(measure: str) -> int:
    # as many as the paper has
    return 2 if measure.endswith("ppl") else 3


def _summary_notes(
    summaries: Sequence[Summary], vocabularies: Mapping[str, str], *, paper: bool
) -> tuple[str, ...]:
    notes = {
        AVERAGES: True,
        INTERVALS: True,
        VOCABULARIES: vocabularies_differ(summaries, vocabularies),
        FAILURES: any(summary.failed for summary in summaries),
        SKETCHES: any(s.group.support == SKETCHED_VOCABULARY for s in summaries),
        FEW: any(0 < summary.examples < FEWEST for summary in summaries),
        f"The paper's numbers: {CITATION}, 1,000 examples, which are not these.": paper,
    }
    return tuple(note for note, holds in notes.items() if holds)
