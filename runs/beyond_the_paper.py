"""Write docs/results/beyond-the-paper.md: the default chosen on dev pairs, judged on test pairs.

python runs/beyond_the_paper.py [--dev RUN] --test RUN [--output FILE] [--guide FILE]

Both are folders of `unmask evaluate`, with every construction (runs/table1_here.sh makes them).
The table of the guide, docs/concepts/which-joint.md, is made of the test rows too, and alone
without --dev.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from table1_here_report import less, settings

from unmask.errors import UnmaskError
from unmask.evaluation.reports.bootstrap import DEFAULT, Estimate, means
from unmask.evaluation.rows import Row
from unmask.evaluation.store.run_folder import Run, read_run
from unmask.joints.agreement import Agreement
from unmask.markup import markdown

HEADER = """\
# Beyond the paper: which joint, chosen on one set of pairs and judged on another

Every construction on masked pairs of SNLI sentences, exact over the whole vocabulary. The default
was chosen on pairs of *dev* sentences by one rule, written down before: of the constructions that
give back the joint of compatible conditionals, the lowest P-NLL, averaged over contiguous and
random blanks. It is judged on pairs of *test* sentences that the choice never saw. Measured by
`runs/table1_here.sh`; the rows, with example ids and no text, are next to this page.

P-NLL and U-NLL are negative log-probabilities of the true pair and of each true token given the
other, G-KL and A-KL divergences between the model's conditionals and the joint's, at the true
tokens and on average over the vocabulary; all in nats per token, lower is better. Differences are
paired, example by example, with 95% bootstrap confidence intervals over sentences. **Bold**: the
interval leaves out zero.
"""
# forward passes over a vocabulary of V: of those near the best, and of the others
PASSES = {
    "log-pool": "2V + 1",
    "pseudo-gibbs": "2V + 1",
    "weighted-ag": "2V + 1",
    "ag": "2V + 1",
    "ag-paper": "2V",
    "sweep": "53 per pair",
    "orders": "3 per pair",
}
OTHERS = {"hcb": "V + 2", "mrf": "2V", "mrf-logit": "2V", "mlm": "1"}
# they give back the joint of compatible conditionals: one of them is the default
SOUND = ("ag", "weighted-ag", "pseudo-gibbs", "log-pool")
METRICS = {"pairwise_nll": "P-NLL", "unary_nll": "U-NLL", "gold_kl": "G-KL", "all_kl": "A-KL"}
MARKS = ("<!-- figures: runs/beyond_the_paper.py -->", "<!-- end of figures -->")

ByMask = dict[str, dict[str, list[Row]]]


def by_mask(run: Run) -> ByMask:
    """Measured rows by mask and construction; a run is of one model and corpus."""
    found = {group.mask: by for group, by in settings(run.rows).items()}
    lacking = {name for by in found.values() for name in {*PASSES, *OTHERS} - by.keys()}
    if not found or lacking:
        raise UnmaskError(f"the run lacks rows of {', '.join(sorted(lacking)) or 'everything'}")
    return dict(sorted(found.items()))


def interval(found: Estimate) -> str:
    said = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{said}**" if found.low > 0 or found.high < 0 else said


def mean_nll(rows: ByMask, construction: str) -> float:
    """P-NLL, kinds of blanks weighing alike."""
    return float(
        np.mean(
            [np.mean([r.metric("pairwise_nll") for r in by[construction]]) for by in rows.values()]
        )
    )


def chosen(dev: ByMask) -> str:
    """The rule: the best on dev of those that may be the default."""
    return min(SOUND, key=lambda name: mean_nll(dev, name))


def choice_lines(dev: ByMask) -> Iterator[str]:
    best = chosen(dev)
    heads = [f"less `{best}`, {mask}" for mask in dev]
    yield f"| construction | may be chosen | P-NLL | {' | '.join(heads)} |"
    yield "|---" * (3 + len(dev)) + "|"
    for name in sorted(PASSES, key=lambda name: mean_nll(dev, name)):
        gaps = [
            "0" if name == best else interval(less(by[name], by[best], "pairwise_nll"))
            for by in dev.values()
        ]
        may = "yes" if name in SOUND else "no"
        yield f"| {name} | {may} | {mean_nll(dev, name):.3f} | {' | '.join(gaps)} |"
    yield ""


def difference_lines(rows: ByMask, baseline: str) -> Iterator[str]:
    for mask, by in rows.items():
        yield f"### {mask.capitalize()} blanks, {len(by[baseline])} pairs\n"
        yield f"| less `{baseline}` | {' | '.join(METRICS.values())} |"
        yield "|---" * (1 + len(METRICS)) + "|"
        for name in (*PASSES, *OTHERS):
            if name != baseline:
                cells = [interval(less(by[name], by[baseline], metric)) for metric in METRICS]
                yield f"| {name} | {' | '.join(cells)} |"
        yield ""


def judgement(rows: ByMask, default: str) -> Iterator[str]:
    """In words: is any construction ahead of the default on pairs that the choice never saw?"""
    ahead, paper = [], []
    for mask, by in rows.items():
        for name in PASSES:
            if name == default:
                continue
            found = less(by[name], by[default], "pairwise_nll")
            if found.high < 0:
                ahead.append(f"`{name}` by {-found.value:.3f} nats ({mask})")
            if name == "ag-paper":
                paper.append(f"{interval(found)} between {mask} blanks")
    if ahead:
        yield f"Ahead of `{default}` in P-NLL by more than noise: {', '.join(ahead)}."
    else:
        yield f"No construction is ahead of `{default}` in P-NLL by more than noise."
    if default != "ag-paper":
        yield f"The paper's joint (`ag-paper`) less `{default}`: {' and '.join(paper)}."
    yield ""


def verdict_lines(rows: ByMask) -> Iterator[str]:
    """What the plain words of J stand for: how far sound constructions differ on a pair."""
    yield "| J says | pairs | spread of log p, mean | median | 90% below | largest |"
    yield "|---|---|---|---|---|---|"
    spreads: dict[str, list[float]] = {}
    sentences: dict[str, list[str]] = {}
    examples: list[list[Row]] = []
    for by in rows.values():
        known = [{row.example_id: row for row in by[name]} for name in SOUND]
        examples += [[one[example] for one in known] for example in known[0]]
    for same in sorted(examples, key=lambda same: same[0].incompatibility or 0.0):
        bits = same[0].incompatibility
        assert bits is not None
        nlls = [row.metric("pairwise_nll") for row in same]
        words = Agreement(bits).words()
        # per token in the rows; a pair has two
        spreads.setdefault(words, []).append(2 * (max(nlls) - min(nlls)))
        sentences.setdefault(words, []).append(same[0].sentence_id)
    for words, found in spreads.items():
        (mean,) = means([found], sentences[words], DEFAULT)
        yield (
            f"| {words} | {len(found)} | {mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
            f" | {np.median(found):.3f} | {np.percentile(found, 90):.3f} | {max(found):.2f} |"
        )
    yield ""


def guide_lines(rows: ByMask, default: str) -> Iterator[str]:
    """The figures that a choice rests on, in one table."""
    heads = [f"P-NLL less `mlm`, {mask}" for mask in rows] + [f"G-KL, {mask}" for mask in rows]
    yield f"| construction | forward passes | {' | '.join(heads)} |"
    yield "|---" * (2 + len(heads)) + "|"
    for name, passes in (PASSES | OTHERS).items():
        gaps = [
            "0" if name == "mlm" else interval(less(by[name], by["mlm"], "pairwise_nll"))
            for by in rows.values()
        ]
        kl = [f"{np.mean([r.metric('gold_kl') for r in by[name]]):.3f}" for by in rows.values()]
        said = f"{name} (the default)" if name == default else name
        yield f"| {said} | {passes} | {' | '.join(gaps + kl)} |"


def about(run: Run, rows: ByMask) -> str:
    (model,) = {row.model for by in rows.values() for some in by.values() for row in some}
    counts = " and ".join(f"{len(by['mlm'])} {mask}" for mask, by in rows.items())
    return f"{counts} pairs, {markdown(model)}"


def page(dev: Run, test: Run, default: str) -> Iterator[str]:
    choice, judged = by_mask(dev), by_mask(test)
    yield HEADER
    yield f"## The choice, on dev: {about(dev, choice)}\n"
    yield "P-NLL is the mean of both kinds of blanks.\n"
    yield from choice_lines(choice)
    best = chosen(choice)
    if best == default:
        yield f"The rule chooses `{best}`, which is the default.\n"
    else:
        gap = mean_nll(choice, default) - mean_nll(choice, best)
        yield f"The rule chooses `{best}`; the default is `{default}`, {gap:.3f} nats behind it."
        yield "[Decision 7](../decisions/0007-log-pool-by-default.md) gives the reason.\n"
    yield f"## The judgement, on test: {about(test, judged)}\n"
    yield from judgement(judged, default)
    yield from difference_lines(judged, default)
    yield "## What J's plain words stand for\n"
    yield "The largest less the smallest log-probability, in nats, that"
    yield f"{', '.join(f'`{name}`' for name in SOUND)} give the true pair, on test. All of"
    yield "them recover the joint of compatible conditionals, so where they differ none is right.\n"
    yield from verdict_lines(judged)


def with_figures(guide: str, lines: Sequence[str]) -> str:
    """The guide with the table between its two marks made anew."""
    before, rest = guide.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    return before + "\n".join([MARKS[0], *lines, MARKS[1]]) + after


def main() -> int:
    parser = argparse.ArgumentParser(description="The default, chosen on dev and judged on test.")
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--default", default="log-pool")
    parser.add_argument("--output", type=Path, default=Path("docs/results/beyond-the-paper.md"))
    parser.add_argument("--guide", type=Path, default=Path("docs/concepts/which-joint.md"))
    options = parser.parse_args()
    try:
        test = read_run(options.test)
        lines = list(guide_lines(by_mask(test), options.default))
        guide = with_figures(options.guide.read_text("utf-8"), lines)
        if options.dev:
            made = "\n".join(page(read_run(options.dev), test, options.default))
            options.output.write_text(made, encoding="utf-8")
        options.guide.write_text(guide, encoding="utf-8")
    except (UnmaskError, OSError) as error:
        print(f"beyond_the_paper: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
