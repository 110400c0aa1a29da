"""Tables of results as values: columns and cells, before any output format.

Cells stay numbers here. How a number or a hostile name is written is for the output formats.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from unmask.evaluation.reports.paper import CITATION, published
from unmask.evaluation.reports.paper import MEASURES as PAPER_MEASURES
from unmask.evaluation.reports.summary import (
    MEASURES,
    NLLS,
    TOKEN_DISTANCE,
    Distance,
    Summary,
    vocabularies_differ,
)
from unmask.evaluation.rows import METRICS, SKETCHED_VOCABULARY, WHOLE_VOCABULARY, Group
from unmask.resampling import Estimate

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
SKETCHES = (
    "Intervals of sketched numbers include the standard errors of the examples. Sketches have no"
    " A-KL, because most contexts were not run."
)
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


# a column beside what fills it
_Filled = tuple[Column, Callable[[Summary], Cell]]


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
        rest = [place for place in range(len(self.columns)) if place not in same]
        listed = [f"{self.columns[place].name} {self.rows[0][place]}" for place in same]
        return replace(
            self,
            title=": ".join([self.title, ", ".join(listed)] if listed else [self.title]),
            columns=tuple(self.columns[place] for place in rest),
            rows=tuple(tuple(row[place] for place in rest) for row in self.rows),
        )


def summary_table(summaries: Sequence[Summary], vocabularies: Mapping[str, str]) -> ReportTable:
    """All numbers of every construction, with the paper's beside where they are of the same.

    Rows come in the order of the summaries. `vocabularies` says which models share one, as in
    `vocabularies_differ`.
    """
    beside: list[_Filled] = [
        (
            Column(name=f"{_NAMES[measure]}, paper", digits=_digits(measure)),
            partial(_published, measure=measure),
        )
        for measure in PAPER_MEASURES
        if any(published(summary.group, measure) is not None for summary in summaries)
    ]
    columns: list[_Filled] = [
        (Column(name="examples"), lambda summary: summary.examples),
        (Column(name="failed"), lambda summary: summary.failed),
        *map(_measured, MEASURES),
        *beside,
    ]
    notes = {
        "Means are over examples, and lower is better.": True,
        INTERVALS: True,
        VOCABULARIES: vocabularies_differ(summaries, vocabularies),
        FAILURES: any(summary.failed for summary in summaries),
        SKETCHES: any(one.group.support == SKETCHED_VOCABULARY for one in summaries),
        **dict.fromkeys(_few(summaries), True),
        f"The paper's numbers: {CITATION}, 1,000 examples, which are not these.": bool(beside),
    }
    shown = [note for note, holds in notes.items() if holds]
    return _table("Results", summaries, columns, shown, [*NLLS, *MEASURES])


def difference_table(differences: Sequence[Summary]) -> ReportTable:
    """Paired differences from a baseline."""
    columns = [_BASELINE, _COUNTED, *(_measured(metric, signed=True) for metric in METRICS)]
    notes = [DIFFERENCES, INTERVALS, *_few(differences)]
    return _table("Paired differences", differences, columns, notes, METRICS)


def distance_table(bins: Sequence[Summary], distance: Distance = TOKEN_DISTANCE) -> ReportTable:
    """NLLs by distance."""
    examples: _Filled = (Column(name="examples"), lambda summary: summary.examples)
    columns = [*_BIN, examples, *map(_measured, NLLS)]
    notes = [f"Mean NLLs per distance. {distance.note}", INTERVALS]
    return _table(f"NLL by {distance.title}", bins, columns, notes, NLLS)


def distance_difference_table(
    bins: Sequence[Summary], distance: Distance = TOKEN_DISTANCE
) -> ReportTable:
    """Paired differences from a baseline by distance, as figures draw them."""
    columns = [_BASELINE, *_BIN, _COUNTED, *(_measured(name, signed=True) for name in NLLS)]
    notes = [distance.note, DIFFERENCES, INTERVALS, *_few(bins)]
    return _table(f"Paired differences by {distance.title}", bins, columns, notes, NLLS)


_BASELINE: _Filled = (Column(name="minus", setting=True), lambda summary: summary.baseline)
_COUNTED: _Filled = (Column(name="examples", counts=True), lambda summary: summary.examples)
_BIN: list[_Filled] = [
    (Column(name="distance from"), lambda summary: summary.first),
    (Column(name="to"), lambda summary: summary.last),
]


def _measured(measure: str, *, signed: bool = False) -> _Filled:
    column = Column(name=_NAMES[measure], digits=_digits(measure), signed=signed, estimate=True)
    return column, lambda summary: summary[measure]


def _digits(measure: str) -> int:
    # as many as the paper has
    return 2 if measure.endswith("ppl") else 3


def _published(summary: Summary, measure: str) -> float | None:
    return published(summary.group, measure)


def _table(
    title: str,
    summaries: Sequence[Summary],
    columns: Sequence[_Filled],
    notes: Sequence[str],
    measures: Sequence[str],
) -> ReportTable:
    """A row per summary: its group as a reader sees it, then the columns."""
    supports = shown_supports(summary.group.support for summary in summaries)
    rows = [
        (
            *summary.group._replace(support=supports[summary.group.support]),
            *(cell(summary) for _, cell in columns),
        )
        for summary in summaries
    ]
    groups = [Column(name=name, setting=name != "construction") for name in Group._fields]
    # the masks, supports and measures of the table, in the order of `TERMS`
    used = {name for one in summaries for name in (one.group.mask, one.group.support)}
    used |= {_NAMES[measure] for measure in measures}
    terms = [term for name, term in TERMS.items() if name in used]
    if any(summary.group.support not in TERMS for summary in summaries):
        terms.append(CANDIDATES)
    heads = (*groups, *(column for column, _ in columns))
    return ReportTable(title, heads, tuple(rows), tuple(notes), tuple(terms))


def _few(summaries: Sequence[Summary]) -> list[str]:
    return [FEW] if any(0 < summary.examples < FEWEST for summary in summaries) else []


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
