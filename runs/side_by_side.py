"""Write docs/results/side-by-side.md: the paper's findings and numbers, model by model.

python runs/side_by_side.py docs/results/table1-*/ docs/results/other-languages/*/ \
    --output docs/results/side-by-side.md

The folders are those that runs/table1_here.sh and runs/other_languages.sh published, one per model.
The paper's own rows stand beside theirs. Sketched runs have no number where it takes whole tables.
"""

import argparse
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from beyond_the_paper import interval
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
from unmask.evaluation.reports.bootstrap import Estimate, Resampling
from unmask.evaluation.reports.paper import TABLE
from unmask.evaluation.reports.summary import summarise
from unmask.evaluation.reports.tables import FEWEST
from unmask.evaluation.rows import Group, ResultRow
from unmask.evaluation.run import read_run

HEADER = """\
# The models side by side

The paper's Table 1 (Torroba Hennigen & Kim 2023), and the same protocol with the models of this
project ([what they are](models.md)); one page per model has everything else. Measured by
`runs/table1_here.sh` (and `runs/other_languages.sh`), put together by `runs/side_by_side.py` from
the published rows.
"""
FINDINGS = """\
## What the paper found

Left less right on the same pairs, in nats per token; below zero the finding holds. *Agrees* and
*the opposite*: the 95% bootstrap confidence interval leaves out zero. Only exact runs are here: a
sketch has no numbers of HCB, MRF and AG, which need whole tables. In the paper: in how many of its
four settings of model and corpus, and the range.
"""
NUMBERS = """\
## The numbers

Perplexities of pairs (P-PPL) and of single tokens given the other (U-PPL), and divergences from the
model's own conditionals (A-KL over all contexts, G-KL at the true tokens, in nats), with standard
errors; those of perplexities come from the mean NLL. The paper gives no spread and no split.
Corpora and vocabularies differ, so compare constructions within a model, not models.
"""
MOVED = """\
## What HCB loses, and how far contexts move answers

The A-KL of `mlm` is how far a token in one blank moves the answer for the other away from that with
both masked, in nats, on average over the vocabulary: over contexts most of which are absurd. HCB
divides by what the model says in them. Next to it is the P-NLL of `hcb` less that of the paper's
AG, in nats per token. Settings of at least {fewest} pairs, in the order of that A-KL; with standard
errors.
"""
LANGUAGES = """\
## Other languages

Paired differences to `log-pool`, the default, in nats per token, with 95% bootstrap confidence
intervals; marked where an interval leaves out zero. [Which joint](beyond-the-paper.md) has the same
of English. The corpora are public and named in `runs/other_corpora.py`; blanks are contiguous.
"""
BESIDE = """\
## Exact and sketched, side by side

The same pairs of SNLI dev, estimated from at most 500 forward passes and run whole: P-NLL sketched
less exact, in nats per token, with the standard error of the mean; how many of the differences are
within 1.96 of the standard errors that the sketch itself states (a half-width below 0.001 counts as
0.001: there float32 decides).
"""
COST = """\
## What it took

Forward passes and time per pair, as `unmask evaluate --dry-run` predicted before and as the rows
have it, on one core of a machine that other work shared. Predictions time the machine as it is:
that of english-distil's exact pairs was made again afterwards, beside one other process, as the
pairs ran; the one made before, beside two others, said 2,400 seconds. Sketches stop sooner if they
are precise enough: their predictions are upper bounds.
"""
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
            found += [Setting(folder, name, group, by) for group, by in settings(run.rows).items()]
    return found


def cards(every: Sequence[Setting], models: str) -> Iterator[str]:
    """What the models are: the lines of the page of models that name them."""
    lines = models.splitlines()
    first = next(number for number, text in enumerate(lines) if text.startswith("| model |"))
    yield "## The models\n"
    yield "The paper: bert-base-cased (12 layers of 768) and bert-large-cased (24 of 1,024), both"
    yield "with a vocabulary of 28,996.\n"
    yield from lines[first : first + 2]
    for name in dict.fromkeys(one.group.model for one in every):
        yield next(text for text in lines if text.startswith(f"| {name} |"))
    yield ""


def finding(claim: Claim, setting: Setting) -> str | None:
    """What a setting says of a finding; None where it has no such numbers."""
    both = [setting.rows.get(name) for name in (claim.lower, claim.higher)]
    if not all(both):
        return None
    found = less(both[0] or [], both[1] or [], claim.metric)
    return verdict(found, len(both[0] or []), at_times="at times" in claim.text)


def findings(every: Sequence[Setting]) -> Iterator[str]:
    yield FINDINGS
    for mask in ("contiguous", "random"):
        exact = [one for one in every if one.group.mask == mask and "ag-paper" in one.rows]
        yield f"### {mask.capitalize()} blanks\n"
        yield line(["finding", "metric", "in the paper", *(one.shown for one in exact)])
        yield line([":---"] * (3 + len(exact)))
        for claim in CLAIMS:
            cells = [finding(claim, one) or "not measured" for one in exact]
            yield line([claim.text, NAMES[claim.metric], in_the_paper(claim, mask), *cells])
        yield ""


def numbers(every: Sequence[Setting]) -> Iterator[str]:
    yield NUMBERS
    for mask in ("contiguous", "random"):
        yield f"### {mask.capitalize()} blanks\n"
        yield line(["model and corpus", "construction", *HEADS])
        yield line([":---", ":---", *["---:"] * len(HEADS)])
        yield from papers_lines(mask)
        for one in every:
            if one.group.mask == mask:
                for name, rows in one.rows.items():
                    yield line([one.shown, f"`{name}`", *cells(rows)])
        yield ""


def moved(every: Sequence[Setting]) -> Iterator[str]:
    """What HCB loses to AG, setting by setting, the paper's too."""
    found: list[tuple[float, float, list[str]]] = []
    for entry, value in TABLE.items():
        if (entry.scheme, entry.measure) == ("hcb", "pairwise_ppl"):
            far = TABLE[entry._replace(scheme="mlm", measure="all_kl")]
            lost = math.log(value / TABLE[entry._replace(scheme="ag-paper")])
            name = f"the paper: {entry.model}, {entry.corpus}"
            found.append((far, lost, [name, entry.mask, f"{far:.3f}", f"{lost:+.3f}"]))
    for one in every:
        if len(one.rows.get("hcb", ())) >= FEWEST:
            moves = [row.metric("all_kl") for row in one.rows["mlm"]]
            far, error = float(np.mean(moves)), np.std(moves, ddof=1) / np.sqrt(len(moves))
            loss = less(one.rows["hcb"], one.rows["ag-paper"], "pairwise_nll")
            shown = [f"{far:.3f} ± {error:.3f}", f"{loss.value:+.3f} ± {loss.stderr:.3f}"]
            found.append((far, loss.value, [one.shown, one.group.mask, *shown]))
    yield MOVED.format(fewest=FEWEST)
    yield line(["setting", "blanks", "A-KL of `mlm`", "`hcb` less `ag-paper`, P-NLL"])
    yield line([":---", ":---", "---:", "---:"])
    for _, _, shown in sorted(found):
        yield line(shown)
    rank = spearmanr([far for far, _, _ in found], [lost for _, lost, _ in found]).statistic
    yield (
        f"\nThe rank correlation of the two columns is {rank:.2f}. Settings share models and"
        " corpora, so it has no interval.\n"
    )


def languages(every: Sequence[Setting]) -> Iterator[str]:
    """Other constructions less the default, where the text is not English."""
    yield LANGUAGES
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
    yield ""


def papers_lines(mask: str) -> Iterator[str]:
    heads = {(e.model, e.corpus, e.scheme): None for e in TABLE if e.mask == mask}
    for model, corpus, scheme in heads:
        values = {
            entry.measure: value
            for entry, value in TABLE.items()
            if (entry.mask, entry.model, entry.corpus, entry.scheme)
            == (mask, model, corpus, scheme)
        }
        shown = [f"{values[name]:,}" for name in PAPERS_MEASURES]
        yield line([f"the paper: {model}, {corpus}", f"`{scheme}`", *shown])


def cells(rows: Sequence[ResultRow]) -> list[str]:
    """The numbers of one construction."""
    (found,) = summarise(rows, FEW)
    shown = []
    for name in PAPERS_MEASURES:
        estimate: Estimate | None = getattr(found, name)
        digits = 2 if name.endswith("ppl") else 3
        shown.append(
            "–"
            if estimate is None
            else f"{estimate.value:,.{digits}f} ± {estimate.stderr:.{digits}f}"
        )
    return shown


def beside(every: Sequence[Setting]) -> Iterator[str]:
    """Sketches held against the same pairs run whole."""
    yield BESIDE
    yield line(["model", "blanks", "construction", "pairs", "sketched less exact", "within"])
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
        for name in ("log-pool", "pseudo-gibbs"):
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
    yield ""


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
    yield COST
    heads = ["run", "pairs", "forward passes, predicted", "measured", "seconds, predicted"]
    yield line([*heads, "measured", "hours in all"])
    yield line([":---", *["---:"] * 6])
    for folder, run in dict.fromkeys((one.folder, one.run) for one in every):
        some = [one for one in every if (one.folder, one.run) == (folder, run)]
        rows = {row.example_id: row for one in some for row in one.rows["mlm"]}
        seconds = [row.seconds for row in rows.values()]
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
            f"{np.mean(seconds):,.0f}",
            f"{sum(seconds) / 3600:.1f}",
        ]
        yield line(cells)
    yield ""


def predicted(said: str) -> tuple[str, str]:
    """Forward passes and seconds of an example in what a dry run printed."""
    found = re.search(
        r"each (at most )?([\d,]+) forward passes(?:.* about ([\d.]+) (s|min|h|days),)?", said
    )
    if found is None:
        raise UnmaskError("a prediction has no number of forward passes")
    # a prediction names no time below a second
    seconds = f"{float(found[3]) * SECONDS[found[4]]:,.0f}" if found[3] else "below 1"
    return (found[1] or "") + found[2], seconds


def page(every: Sequence[Setting], models: str) -> str:
    measured = [one for one in every if one.run != SKETCHED_DEV]
    parts = [HEADER, *cards(every, models), *findings(measured), *numbers(measured)]
    parts += [*moved(measured), *languages(measured), *beside(every), *cost(every)]
    return "\n".join(parts).rstrip("\n") + "\n"


def line(given: Sequence[str]) -> str:
    marks = (":---", "---:")
    told = [
        one if one in marks or "**" in one or "`" in one else markup.markdown(one) for one in given
    ]
    return f"| {' | '.join(told)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="The models side by side.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--models", type=Path, default=Path("docs/results/models.md"))
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    try:
        models = chosen.models.read_text(encoding="utf-8")
        chosen.output.write_text(page(read(chosen.folders), models), encoding="utf-8")
    except (UnmaskError, OSError) as error:
        print(f"side_by_side: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
