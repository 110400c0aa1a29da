"""Renew the figures of docs/results/table1.md, and a CSV file of the results of every model.

python runs/table1_here_report.py docs/results/table1-*/ --output docs/results/table1.md

A folder has the runs `snli` and `xsum`, perhaps `snli-dev`, and `figures`, which `unmask report
--figures` and runs/syntactic_distances.py drew and whose numbers are CSV files beside them. The
page shows some figures of one model; the folders have all. Verdicts on the paper's findings are for
runs/what_holds.py and runs/side_by_side.py.
"""

import argparse
import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import marked_page
from one_line import in_one_line

from unmask import markup
from unmask.errors import UnmaskError
from unmask.evaluation.reports import rendering
from unmask.evaluation.reports.figures import between, file_name
from unmask.evaluation.reports.paper import TABLE
from unmask.evaluation.reports.reporting import report
from unmask.evaluation.reports.summary import Summary, by_setting, differences
from unmask.evaluation.reports.tables import shown_setting
from unmask.evaluation.rows import Group, ResultRow, grouped, measured
from unmask.evaluation.run import EvaluationRun, read_run
from unmask.resampling import DEFAULT, FEWEST, Estimate

# the figure of the page: its folder, its kind, and its corpora
SHOWN = ("table1-caption-bert", "distance", ("SNLI test",))
RUNS = ("snli-dev", "snli", "xsum")


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
    Claim("AG is better than MRF", "pairwise_nll", "ag", "mrf"),
    Claim("AG is better than MRF", "unary_nll", "ag", "mrf"),
    Claim("AG is better than HCB", "pairwise_nll", "ag", "hcb"),
    Claim("AG is better than HCB", "unary_nll", "ag", "hcb"),
    Claim("AG is better than MLM", "pairwise_nll", "ag", "mlm"),
    Claim("AG is at times better than MLM", "unary_nll", "ag", "mlm"),
    Claim("AG is more faithful than MRF", "all_kl", "ag", "mrf"),
    Claim("AG is more faithful than HCB", "all_kl", "ag", "hcb"),
    Claim("AG is more faithful than MRF", "gold_kl", "ag", "mrf"),
    Claim("AG is more faithful than HCB", "gold_kl", "ag", "hcb"),
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
    estimates: dict[str, Estimate | None] = {name: found[name] for name in metrics}
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


# of the axis of each kind of figure
KINDS = {
    "distance": "tokens between the blanks",
    "syntax": "edges between the blanks' words in the dependency tree",
}


def drawn_bins(file: Path) -> list[Summary]:
    """The differences that figures draw, from the CSV next to them."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [_bin(line) for line in csv.DictReader(lines)]


def _bin(line: Mapping[str, str]) -> Summary:
    group = Group(*(line[name] for name in Group._fields))
    first, last, count = (int(line[name]) for name in ("distance from", "to", "examples"))
    parts = ("", " stderr", " low", " high")
    estimates: dict[str, Estimate | None] = {
        # of a single sentence nothing is known of the spread
        metric: Estimate(*(float(line[NAMES[metric] + part] or "nan") for part in parts))
        for metric in ("pairwise_nll", "unary_nll")
    }
    return Summary(group, count, estimates, baseline=line["minus"], first=first, last=last)


def described(bins: Sequence[Summary], *, title: str, axis_label: str) -> str:
    """A figure in words: the course of every line of its first panel."""
    lines: dict[str, list[Summary]] = {}
    for summary in sorted(bins, key=lambda one: one.first):
        lines.setdefault(summary.group.construction, []).append(summary)
    courses = "; ".join(course(name, line) for name, line in lines.items())
    return (
        f"P-NLL and U-NLL minus those of {bins[0].baseline} by {axis_label}: {title}. In P-NLL:"
        f" {courses}. The CSV file has all numbers."
    )


def course(name: str, line: Sequence[Summary]) -> str:
    """From the first bin of a line to its last."""
    points = [(between(one.first, one.last), nll) for one in line if (nll := one["pairwise_nll"])]
    (near, first), (far, last) = points[0], points[-1]
    return f"{name} from {first.value:+.3f} at {near} to {last.value:+.3f} at {far}"


def figure_lines(figures: Path, kind: str, corpora: Sequence[str]) -> Iterator[str]:
    """Figures of some corpora with their contents in words; CSV files have their numbers."""
    folder = figures.parent.name
    for group, bins in by_setting(drawn_bins(figures / f"{kind}-differences.csv")).items():
        name, title = f"{kind}-{file_name(group)}.svg", shown_setting(group)
        if (figures / name).exists() and group.corpus in corpora:
            alt = described(bins, title=title, axis_label=KINDS[kind])
            yield f"![{markup.markdown(alt)}]({folder}/figures/{name})\n"


def blocks(folders: Sequence[Path]) -> dict[str, list[str]]:
    """The figures of the page."""
    name, kind, corpora = SHOWN
    (shown,) = (folder for folder in folders if folder.name == name)
    return {"distances": list(figure_lines(shown / "figures", kind, corpora))}


def tables(folders: Sequence[Path]) -> dict[str, list[str]]:
    """The results of every model."""
    found = {}
    for folder in folders:
        runs: list[EvaluationRun] = [
            read_run(folder / name) for name in RUNS if (folder / name).exists()
        ]
        by_mlm = report(runs, resampling=DEFAULT, baseline="mlm")
        results = rendering.markdown(by_mlm.tables(["results"])[0])
        found[folder.name.removeprefix("table1-")] = results.splitlines()
    return found


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="The page of runs/table1_here.sh.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    marked_page.write_blocks(chosen.output, blocks(chosen.folders), tables(chosen.folders))


if __name__ == "__main__":
    raise SystemExit(main())
