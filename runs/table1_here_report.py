"""Write docs/results/table1-MODEL.md from the runs that runs/table1_here.sh published.

python runs/table1_here_report.py docs/results/table1-MODEL --output FILE

The folder has the runs `snli` and `xsum`, perhaps `snli-dev`, `figures`, and `reading.txt`: what a
person reads in the numbers. Sketched runs lack what needs whole tables: the findings of the paper
are of the runs that have them. Distances come from what `unmask report --figures` drew and wrote:
the texts that syntactic ones need are not published.
"""

import argparse
import csv
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from unmask import markup
from unmask.errors import UnmaskError
from unmask.evaluation.reports import rendering
from unmask.evaluation.reports.bootstrap import DEFAULT, Estimate
from unmask.evaluation.reports.distance import DistanceBin, by_setting
from unmask.evaluation.reports.figures import AXES, described, file_name
from unmask.evaluation.reports.paper import TABLE
from unmask.evaluation.reports.reporting import report, table
from unmask.evaluation.reports.summary import differences
from unmask.evaluation.reports.tables import (
    DISTANCES,
    FEWEST,
    SYNTACTIC_DISTANCES,
    TOKEN_DISTANCE,
    ReportTable,
    distance_difference_table,
    shown_setting,
)
from unmask.evaluation.rows import Group, ResultRow, grouped, measured
from unmask.evaluation.run import EvaluationRun, read_run

HEADER = """\
# The paper's Table 1, with {model}

The protocol of Torroba Hennigen & Kim (2023), Table 1: two tokens of a sentence masked, every joint
over the whole vocabulary, the four metrics. The model is {model} ([what it is](models.md))
instead of BERT, so the numbers are not the paper's and are not meant to be: what can be compared is
which construction is better than which. Measured by `runs/table1_here.sh`; plans and rows, with
example ids and no text, are in [{folder}]({folder}), and `unmask report` reads them.
"""
SKETCHED = """\
Runs marked "vocabulary (sketch)" are estimated from some of the contexts, with standard errors that
their intervals include: `log-pool`, `pseudo-gibbs`, `orders`, `sweep` and `mlm`, without A-KL. The
paper's joints need both tables whole, and so are in the other runs alone.
"""
RUNS = ("snli-dev", "snli", "xsum")
PAPERS = "ag-paper"


class Claim(NamedTuple):
    """The paper's finding that one construction has the lower number."""

    text: str
    metric: str
    lower: str
    higher: str


CLAIMS = (
    Claim("MRF is better than MRF with logits", "pairwise_nll", "mrf", "mrf-logit"),
    Claim("MRF is better than MRF with logits", "unary_nll", "mrf", "mrf-logit"),
    Claim("MLM is better than MRF", "unary_nll", "mlm", "mrf"),
    Claim("MLM is better than MRF", "pairwise_nll", "mlm", "mrf"),
    Claim("MLM is better than HCB", "pairwise_nll", "mlm", "hcb"),
    Claim("AG is better than MRF", "pairwise_nll", "ag-paper", "mrf"),
    Claim("AG is better than MRF", "unary_nll", "ag-paper", "mrf"),
    Claim("AG is better than HCB", "pairwise_nll", "ag-paper", "hcb"),
    Claim("AG is better than HCB", "unary_nll", "ag-paper", "hcb"),
    Claim("AG is better than MLM", "pairwise_nll", "ag-paper", "mlm"),
    Claim("AG is at times better than MLM", "unary_nll", "ag-paper", "mlm"),
    Claim("AG is more faithful than MRF", "all_kl", "ag-paper", "mrf"),
    Claim("AG is more faithful than HCB", "all_kl", "ag-paper", "hcb"),
    Claim("AG is more faithful than MRF", "gold_kl", "ag-paper", "mrf"),
    Claim("AG is more faithful than HCB", "gold_kl", "ag-paper", "hcb"),
)
NAMES = {"pairwise_nll": "P-NLL", "unary_nll": "U-NLL", "all_kl": "A-KL", "gold_kl": "G-KL"}
PAPER_MEASURES = {"pairwise_nll": "pairwise_ppl", "unary_nll": "unary_ppl"}


def settings(rows: Sequence[ResultRow]) -> dict[Group, dict[str, list[ResultRow]]]:
    """Measured rows by setting and construction."""
    found: dict[Group, dict[str, list[ResultRow]]] = {}
    for group, some in grouped(rows).items():
        found.setdefault(group._replace(construction=""), {})[group.construction] = measured(some)
    return found


def less(some: Sequence[ResultRow], others: Sequence[ResultRow], metric: str) -> Estimate:
    """The mean of one construction's number minus another's, on the examples of both."""
    return all_less(some, others, [metric])[0]


def all_less(
    some: Sequence[ResultRow], others: Sequence[ResultRow], metrics: Iterable[str]
) -> list[Estimate]:
    """The same of several numbers, for the price of one."""
    (found,) = differences([*some, *others], others[0].construction, DEFAULT)
    estimates: dict[str, Estimate | None] = {name: getattr(found, name) for name in metrics}
    for name, estimate in estimates.items():
        if estimate is None:
            raise UnmaskError(f"there are no two numbers of {name} to compare")
    return [estimate for estimate in estimates.values() if estimate]


def in_the_paper(claim: Claim, mask: str) -> str:
    """How often the paper's own table has it, and by how much."""
    measure = PAPER_MEASURES.get(claim.metric, claim.metric)
    gaps = []
    for entry, value in TABLE.items():
        if (entry.mask, entry.scheme, entry.measure) == (mask, claim.lower, measure):
            other = TABLE[entry._replace(scheme=claim.higher)]
            logs = claim.metric in PAPER_MEASURES
            gaps.append(math.log(value / other) if logs else value - other)
    holds = sum(gap < 0 for gap in gaps)
    return f"{holds} of {len(gaps)} ({min(gaps):+.3f} to {max(gaps):+.3f})"


def verdict(found: Estimate, count: int, *, at_times: bool) -> str:
    """In a word, with the number; a bootstrap of a few pairs is no interval."""
    if count < FEWEST:
        return f"{count} pairs are too few: {found.value:+.3f}"
    # one setting cannot contradict what is so at times
    opposite = "not here" if at_times else "**the opposite**"
    said = "agrees" if found.high < 0 else opposite if found.low > 0 else "undecided"
    return f"{said} {found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def claim_lines(rows: Sequence[ResultRow]) -> Iterator[str]:
    found = settings(rows)
    for mask in ("random", "contiguous"):
        some = {group: by for group, by in found.items() if group.mask == mask and PAPERS in by}
        yield f"### {mask.capitalize()} blanks\n"
        yield _line(["finding", "metric", "in the paper", *(group.corpus for group in some)])
        yield _line([":---"] * (3 + len(some)))
        for claim in CLAIMS:
            cells = [
                verdict(
                    less(by[claim.lower], by[claim.higher], claim.metric),
                    len(by[claim.lower]),
                    at_times="at times" in claim.text,
                )
                for by in some.values()
            ]
            yield _line([claim.text, NAMES[claim.metric], in_the_paper(claim, mask), *cells])
        yield ""


KINDS = {
    "distance": (TOKEN_DISTANCE, DISTANCES),
    "syntax": ("syntactic distance", SYNTACTIC_DISTANCES),
}


def drawn_bins(file: Path) -> list[DistanceBin]:
    """The differences that figures draw, from the CSV next to them."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [_bin(line) for line in csv.DictReader(lines)]


def _bin(line: Mapping[str, str]) -> DistanceBin:
    group = Group(*(line[name] for name in Group._fields))
    first, last, count = (int(line[name]) for name in ("distance from", "to", "examples"))
    pairwise, unary = (
        # of a single sentence nothing is known of the spread
        Estimate(*(float(line[name + part] or "nan") for part in ("", " stderr", " low", " high")))
        for name in ("P-NLL", "U-NLL")
    )
    return DistanceBin(group, first, last, count, pairwise, unary, line["minus"])


def figure_lines(figures: Path, said: set[str]) -> Iterator[str]:
    """Every figure, what it shows in words, and its numbers as a table."""
    folder = figures.parent.name
    for kind, (named, counted) in KINDS.items():
        for group, bins in by_setting(drawn_bins(figures / f"{kind}-differences.csv")).items():
            name, title = f"{kind}-{file_name(group)}.svg", shown_setting(group)
            if (figures / name).exists():
                alt = described(bins, title=title, axis_label=AXES[kind])
                yield f"### By {named}: {markup.markdown(title)}\n"
                yield f"![{markup.markdown(alt)}]({folder}/figures/{name})\n"
                yield _told(distance_difference_table(bins, kind=named, counted=counted), said)


def page(folder: Path) -> Iterator[str]:
    """The page, part by part; what was explained once is not explained again."""
    runs: list[EvaluationRun] = [
        read_run(folder / name) for name in RUNS if (folder / name).exists()
    ]
    (model,) = {row.model for run in runs for row in run.rows}
    by_mlm = report(runs, resampling=DEFAULT, baseline="mlm")
    by_ag = report(runs, resampling=DEFAULT, baseline=PAPERS)
    said: set[str] = set()
    yield HEADER.format(model=markup.markdown(model), folder=folder.name)
    if any(row.sketched for run in runs for row in run.rows):
        yield SKETCHED
    yield "## Results\n"
    yield _told(table(by_mlm, "results"), said)
    yield "## What the paper found, and what is found here\n"
    yield (
        "Each cell is left minus right, in nats; a negative value supports the finding. `ag-paper`"
        " is the paper's AG: 50 steps from uniform. *Undecided*: the 95% confidence interval holds"
        " zero. In the paper: in how many of its four settings of model and corpus, and the"
        " range.\n"
    )
    yield from claim_lines(by_mlm.rows)
    reading = folder / "reading.txt"
    if reading.exists():
        yield "### Reading it\n"
        yield reading.read_text(encoding="utf-8")
    yield "## Differences to single guesses by distance\n"
    yield (
        "Of the paper's AG, HCB and MRF and of `log-pool`, as far as they were measured, each minus"
        f" `mlm` on the same examples, in bins of at least 30. [figures]({folder.name}/figures) has"
        " the numbers as CSV, and the NLLs of all constructions.\n"
    )
    yield from figure_lines(folder / "figures", said)
    yield "## Paired differences to the paper's AG\n"
    yield _told(table(by_ag, "differences"), said)


def _told(made: ReportTable, said: set[str]) -> str:
    """A table without the terms and notes that an earlier one had."""
    terms = tuple(one for one in made.terms if one not in said)
    notes = tuple(one for one in made.notes if one not in said)
    said.update(terms, notes)
    return rendering.markdown(replace(made, terms=terms, notes=notes))


def _line(cells: Sequence[str]) -> str:
    marks = (":---", "---:")
    told = [cell if cell in marks or "**" in cell else markup.markdown(cell) for cell in cells]
    return f"| {' | '.join(told)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of runs/table1_here.sh.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    try:
        made = "\n".join(page(chosen.folder))
        chosen.output.write_text(made, encoding="utf-8")
    except (UnmaskError, OSError) as error:
        print(f"table1_here_report: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
