"""Renew the tables of docs/results/table1.md, and the CSV files of whole tables beside it.

python runs/side_by_side.py docs/results/table1-*/ docs/results/other-languages/*/ \
    --output docs/results/table1.md

The folders are those that runs/table1_here.sh and runs/other_languages.sh published, one per model.
`table1-numbers.csv` has the paper's own rows beside theirs, with empty cells where a sketch has no
number. People write the sentences of the page.
"""

import argparse
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import marked_page
import numpy as np
from beyond_the_paper import interval
from one_line import in_one_line
from scipy.stats import spearmanr
from table1_here_report import (
    CLAIMS,
    NAMES,
    RUNS,
    Claim,
    all_less,
    in_the_paper,
    less,
    settings,
    verdict,
)

from unmask import markup
from unmask.constructions import DEFAULT_METHOD
from unmask.errors import UnmaskError
from unmask.evaluation.reports.paper import TABLE
from unmask.evaluation.reports.summary import summarise
from unmask.evaluation.rows import Group, ResultRow
from unmask.evaluation.run import read_run
from unmask.resampling import FEWEST, Resampling

SKETCHED_DEV = "snli-dev-sketched"
# of differences that no float32 table resolves
SMALLEST = 1e-3
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86_400.0}
# standard errors need no resamples
FEW = Resampling(resamples=1)
HEADS = ("P-PPL", "U-PPL", "A-KL", "G-KL")
PAPERS_MEASURES = ("pairwise_ppl", "unary_ppl", "all_kl", "gold_kl")


class Setting(NamedTuple):
    """One model, corpus and mask, measured in one way."""

    folder: Path
    run: str
    group: Group
    rows: dict[str, list[ResultRow]]
    seconds: float

    @property
    def shown(self) -> str:
        how = "sketched" if "sketch" in self.group.support else "exact"
        count = max(map(len, self.rows.values()))
        return f"{self.group.model}, {self.group.corpus}, {how}, {count} pairs"


def read(folders: Sequence[Path]) -> list[Setting]:
    """Every setting of every model."""
    found = []
    for folder in folders:
        there = sorted(place.parent.name for place in folder.glob("*/_plan.json"))
        known = [name for name in (*RUNS, SKETCHED_DEV) if name in there]
        names = dict.fromkeys([*known, *there])
        runs = {name: read_run(folder / name) for name in names}
        if not runs:
            raise UnmaskError(f"no runs in {folder.name}")
        for name, run in runs.items():
            found += [
                Setting(folder, name, group, by, run.seconds)
                for group, by in settings(run.rows).items()
            ]
    return found


def finding(claim: Claim, setting: Setting) -> str | None:
    """What a setting says of a finding; None where it has no such numbers."""
    both = [setting.rows.get(name) for name in (claim.lower, claim.higher)]
    if not all(both):
        return None
    found = less(both[0] or [], both[1] or [], claim.metric)
    return verdict(found, len(both[0] or []), at_times="at times" in claim.text)


def findings(every: Sequence[Setting], mask: str) -> Iterator[str]:
    exact = [one for one in every if one.group.mask == mask and "ag" in one.rows]
    heads = [one.shown.replace(", exact", "").replace(" pairs", "") for one in exact]
    yield line(["finding", "metric", "in the paper", *heads])
    yield line([":---"] * (3 + len(exact)))
    for claim in CLAIMS:
        cells = [finding(claim, one) or "not measured" for one in exact]
        yield line([claim.text, NAMES[claim.metric], in_the_paper(claim, mask), *cells])


def numbers(every: Sequence[Setting]) -> list[list[str]]:
    """Rows of the CSV file: the paper's, then those of every run, with standard errors."""
    columns = [name for head in HEADS for name in (head, f"{head} stderr")]
    rows = [["blanks", "model", "corpus", "support", "pairs", "construction", *columns]]
    for mask in ("contiguous", "random"):
        rows += papers_rows(mask)
        for one in (one for one in every if one.group.mask == mask):
            support = "sketched" if "sketch" in one.group.support else "exact"
            first = [mask, one.group.model, one.group.corpus, support]
            for name, some in one.rows.items():
                rows.append([*first, str(len(some)), name, *cells(some)])
    return rows


def moved(every: Sequence[Setting]) -> Iterator[str]:
    """What HCB loses to AG, setting by setting, the paper's too."""
    found: list[tuple[float, float, list[str]]] = []
    for entry, value in TABLE.items():
        if (entry.scheme, entry.measure) == ("hcb", "pairwise_ppl"):
            far = TABLE[entry._replace(scheme="mlm", measure="all_kl")]
            lost = math.log(value / TABLE[entry._replace(scheme="ag")])
            name = f"the paper: {entry.model}, {entry.corpus}"
            found.append((far, lost, [name, entry.mask, f"{far:.3f}", f"{lost:+.3f}"]))
    for one in every:
        if len(one.rows.get("hcb", ())) >= FEWEST:
            moves = [row.metric("all_kl") for row in one.rows["mlm"]]
            far, error = float(np.mean(moves)), np.std(moves, ddof=1) / np.sqrt(len(moves))
            loss = less(one.rows["hcb"], one.rows["ag"], "pairwise_nll")
            shown = [f"{far:.3f} ± {error:.3f}", f"{loss.value:+.3f} ± {loss.stderr:.3f}"]
            found.append((far, loss.value, [one.shown, one.group.mask, *shown]))
    yield line(["setting", "blanks", "A-KL of `mlm`", "`hcb` minus `ag`, P-NLL"])
    yield line([":---", ":---", "---:", "---:"])
    for _, _, shown in sorted(found):
        yield line(shown)
    rank = spearmanr([far for far, _, _ in found], [lost for _, lost, _ in found]).statistic
    yield line(["rank correlation of the columns", "", "", f"{rank:.2f}"])


def languages(every: Sequence[Setting]) -> Iterator[str]:
    """Other constructions minus the default, where the text is not English."""
    yield line(["model and corpus", "construction", "P-NLL", "U-NLL"])
    yield line([":---", ":---", ":---", ":---"])
    for one in every:
        if one.folder.parent.name == "other-languages":
            for name, rows in one.rows.items():
                if name != DEFAULT_METHOD:
                    both = ("pairwise_nll", "unary_nll")
                    each = all_less(rows, one.rows[DEFAULT_METHOD], both)
                    shown = [interval(found, len(rows)) for found in each]
                    yield line([one.shown, f"`{name}`", *shown])


def papers_rows(mask: str) -> Iterator[list[str]]:
    heads = {(e.model, e.corpus, e.scheme): None for e in TABLE if e.mask == mask}
    for model, corpus, scheme in heads:
        values = {
            entry.measure: value
            for entry, value in TABLE.items()
            if (entry.mask, entry.model, entry.corpus, entry.scheme)
            == (mask, model, corpus, scheme)
        }
        shown = [text for name in PAPERS_MEASURES for text in (f"{values[name]}", "")]
        yield [mask, f"the paper: {model}", corpus, "exact", "1000", scheme, *shown]


def cells(rows: Sequence[ResultRow]) -> list[str]:
    """The numbers of one construction, each with its standard error."""
    (found,) = summarise(rows, FEW)
    shown = []
    for name in PAPERS_MEASURES:
        estimate = found[name]
        both = ("", "") if estimate is None else (estimate.value, estimate.stderr)
        shown += [one if isinstance(one, str) else f"{one:.5g}" for one in both]
    return shown


def beside(every: Sequence[Setting]) -> Iterator[str]:
    """Sketches held against the same pairs run whole."""
    yield line(["model", "blanks", "construction", "pairs", "sketched minus exact", "within"])
    yield line([":---", ":---", ":---", "---:", "---:", "---:"])
    for one in every:
        if one.run != SKETCHED_DEV:
            continue
        (exact,) = (
            other
            for other in every
            if (other.folder, other.run, other.group.mask)
            == (one.folder, "snli-dev", one.group.mask)
        )
        # the others are exact in both
        for name in ("log-pool",):
            gaps, held = compared(one.rows[name], exact.rows[name])
            error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
            yield line(
                [
                    one.group.model,
                    one.group.mask,
                    f"`{name}`",
                    str(len(gaps)),
                    f"{np.mean(gaps):+.4f} ± {error:.4f}",
                    f"{np.mean(held):.0%}",
                ]
            )


def compared(
    sketched: Sequence[ResultRow], exact: Sequence[ResultRow]
) -> tuple[list[float], list[bool]]:
    """Differences on the pairs of both, and whether each is within its error bar."""
    known = {row.example_id: row.metric("pairwise_nll") for row in exact}
    gaps, held = [], []
    for row in sketched:
        if row.example_id in known:
            gap = row.metric("pairwise_nll") - known[row.example_id]
            gaps.append(gap)
            held.append(abs(gap) <= max(SMALLEST, 1.96 * (row.pairwise_error or 0.0)))
    return gaps, held


def cost(every: Sequence[Setting]) -> Iterator[str]:
    """What was predicted, and what it took."""
    heads = ["run", "pairs", "forward passes, predicted", "forward passes", "seconds, predicted"]
    yield line([*heads, "seconds", "hours in all"])
    yield line([":---", *["---:"] * 6])
    for folder, run in dict.fromkeys((one.folder, one.run) for one in every):
        some = [one for one in every if (one.folder, one.run) == (folder, run)]
        rows = {row.example_id: row for one in some for row in one.rows["mlm"]}
        seconds = some[0].seconds
        passes = [row.forward_passes for row in rows.values() if row.forward_passes is not None]
        said = folder / f"{run}.predicted.txt"
        before = predicted(said.read_text(encoding="utf-8")) if said.exists() else ("–", "–")
        exactly = "sketched" if passes else "exact"
        cells = [
            f"{some[0].group.model}, {some[0].group.corpus}, {exactly}",
            f"{len(rows)}",
            before[0],
            f"{np.mean(passes):,.0f}" if passes else before[0].removeprefix("at most "),
            before[1],
            f"{seconds / len(rows):,.0f}",
            f"{seconds / 3600:.1f}",
        ]
        yield line(cells)


def predicted(said: str) -> tuple[str, str]:
    """Forward passes and seconds of an example in what a dry run printed.

    It prints totals; published runs were predicted by an example.
    """
    found = re.search(
        r"(each )?(at most )?([\d,]+) forward passes(?: for ([\d,]+) example)?"
        r"(?:.* about ([\d.]+) (s|min|h|days))?",
        said,
    )
    if found is None or not (found[1] or found[4]):
        raise UnmaskError("a prediction has no number of forward passes")
    examples = 1 if found[1] else int(found[4].replace(",", ""))
    passes = int(found[3].replace(",", "")) / examples
    # a prediction names no time below a second
    seconds = float(found[5]) * SECONDS[found[6]] / examples if found[5] else 0.0
    return f"{found[2] or ''}{passes:,.0f}", f"{seconds:,.0f}" if seconds else "below 1"


def perplexities(every: Sequence[Setting]) -> Iterator[str]:
    """P-PPL by every construction in the exact runs, a column for the largest of each kind."""
    exact = [one for one in every if "ag" in one.rows and len(one.rows["mlm"]) >= FEWEST]
    exact = [one for one in exact if one.folder.parent.name != "other-languages"]
    largest: dict[tuple[str, ...], Setting] = {}
    for one in sorted(exact, key=lambda one: len(one.rows["mlm"])):
        largest[one.group.model, one.group.corpus.split()[0], one.group.mask] = one
    exact = [one for one in exact if one in largest.values()]
    heads = [
        f"{one.group.model}, {one.group.corpus}, {one.group.mask}, n = {len(one.rows['mlm'])}"
        for one in exact
    ]
    yield line(["construction", *heads])
    yield line([":---", *["---:"] * len(exact)])
    for name in exact[0].rows:
        nlls = [np.mean([row.metric("pairwise_nll") for row in one.rows[name]]) for one in exact]
        yield line([f"`{name}`", *(f"{math.exp(nll):.1f}" for nll in nlls)])


def blocks(every: Sequence[Setting]) -> dict[str, list[str]]:
    """The one table that the page shows."""
    return {"perplexities": list(perplexities([o for o in every if o.run != SKETCHED_DEV]))}


def tables(every: Sequence[Setting]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    measured = [one for one in every if one.run != SKETCHED_DEV]
    return {
        "numbers": [line(row) for row in with_rule(numbers(measured))],
        "findings-contiguous": list(findings(measured, "contiguous")),
        "findings-random": list(findings(measured, "random")),
        "what-hcb-loses": list(moved(measured)),
        "other-languages": list(languages(measured)),
        "exact-and-sketched": list(beside(every)),
        "cost": list(cost(every)),
    }


def with_rule(rows: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    heads, *others = rows
    yield from (heads, [":---"] * len(heads), *others)


def line(given: Sequence[str]) -> str:
    marks = (":---", "---:")
    told = [
        one if one in marks or "**" in one or "`" in one else markup.markdown(one) for one in given
    ]
    return f"| {' | '.join(told)} |"


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="The models side by side.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    every = read(chosen.folders)
    marked_page.write_blocks(chosen.output, blocks(every), tables(every))


if __name__ == "__main__":
    raise SystemExit(main())
