"""Write docs/results/beyond-the-paper.md: the default chosen on dev pairs, judged on test pairs.

python runs/beyond_the_paper.py --dev RUN --test RUN... [--output FILE]
python runs/beyond_the_paper.py --guide docs/concepts/which-joint.md --test RUN

They are folders of `unmask evaluate` (runs/table1_here.sh makes them): the dev run with every
construction, the test runs with every one or, sketched, with those that can be estimated. The
second command makes the table of the guide instead of the page.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
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

Every construction on masked pairs of SNLI's *dev* sentences, exact over the whole vocabulary. One
rule, written down before, chooses the default: of the constructions that give back the joint of
compatible conditionals, the lowest P-NLL, averaged over contiguous and random blanks. The choice is
judged on pairs of *test* sentences that it never saw. Measured by `runs/table1_here.sh`; the
rows, with example ids and no text, are in [{folder}]({folder}).

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


def by_mask(run: Run, needed: Iterable[str]) -> ByMask:
    """Measured rows by mask and construction; a run is of one model and corpus."""
    found = {group.mask: by for group, by in settings(run.rows).items()}
    lacking = {name for by in found.values() for name in set(needed) - by.keys()}
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
        # a sketch has no A-KL
        metrics = {name: said for name, said in METRICS.items() if _has(by[baseline], name)}
        yield f"### {mask.capitalize()} blanks, {len(by[baseline])} pairs\n"
        yield f"| less `{baseline}` | {' | '.join(metrics.values())} |"
        yield "|---" * (1 + len(metrics)) + "|"
        for name in (*PASSES, *OTHERS):
            if name != baseline and name in by:
                cells = [interval(less(by[name], by[baseline], metric)) for metric in metrics]
                yield f"| {name} | {' | '.join(cells)} |"
        yield ""


def _has(rows: Sequence[Row], metric: str) -> bool:
    return all(getattr(row, metric) is not None for row in rows)


def judgement(rows: ByMask, default: str) -> Iterator[str]:
    """In words: is any construction ahead of the default on pairs that the choice never saw?"""
    ahead = []
    for mask, by in rows.items():
        for name in PASSES.keys() & by.keys() - {default}:
            found = less(by[name], by[default], "pairwise_nll")
            if found.high < 0:
                ahead.append(f"`{name}` by {-found.value:.3f} nats per token ({mask})")
    if ahead:
        yield f"Ahead of `{default}` in P-NLL by more than noise: {', '.join(sorted(ahead))}."
    else:
        yield f"No construction here is ahead of `{default}` in P-NLL by more than noise."
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
    (model,) = {row.model for row in run.rows}
    counts = " and ".join(f"{len(by['mlm'])} {mask}" for mask, by in rows.items())
    sketched = any(row.sketched for row in run.rows)
    exactly = "sketched" if sketched else "exact over the whole vocabulary"
    corpus = run.plan.corpus.name
    return f"{markdown(corpus)}: {counts} pairs, {markdown(model)}, {exactly}"


def page(dev: Run, tests: Sequence[Run], default: str, folder: str) -> Iterator[str]:
    choice = by_mask(dev, {*PASSES, *OTHERS})
    yield HEADER.format(folder=folder)
    yield f"## The choice, on {about(dev, choice)}\n"
    yield "P-NLL is the mean of both kinds of blanks.\n"
    yield from choice_lines(choice)
    best = chosen(choice)
    if best == default:
        yield f"The rule chooses `{best}`, which is the default.\n"
    else:
        gap = mean_nll(choice, default) - mean_nll(choice, best)
        yield f"The rule chooses `{best}`; the default is `{default}`, {gap:.3f} nats behind it."
        yield "[Decision 7](../decisions/0007-log-pool-by-default.md) gives the reason.\n"
    for test in tests:
        judged = by_mask(test, {default, "mlm"})
        yield f"## The judgement, on {about(test, judged)}\n"
        yield from judgement(judged, default)
        yield from difference_lines(judged, default)
    yield "## What J's plain words stand for\n"
    yield "The largest less the smallest log-probability, in nats, that"
    yield f"{', '.join(f'`{name}`' for name in SOUND)} give the true pair, on dev. All of"
    yield "them recover the joint of compatible conditionals, so where they differ none is right.\n"
    yield from verdict_lines(choice)


def with_figures(guide: str, lines: Sequence[str]) -> str:
    """The guide with the table between its two marks made anew."""
    before, rest = guide.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    return before + "\n".join([MARKS[0], *lines, MARKS[1]]) + after


def main() -> int:
    parser = argparse.ArgumentParser(description="The default, chosen on dev and judged on test.")
    parser.add_argument("--test", type=Path, nargs="+", required=True)
    parser.add_argument("--default", default="log-pool")
    made = parser.add_mutually_exclusive_group(required=True)
    made.add_argument("--dev", type=Path)
    made.add_argument("--guide", type=Path)
    parser.add_argument("--output", type=Path, default=Path("docs/results/beyond-the-paper.md"))
    options = parser.parse_args()
    try:
        tests = [read_run(folder) for folder in options.test]
        if options.guide:
            rows = by_mask(tests[0], {*PASSES, *OTHERS})
            lines = list(guide_lines(rows, options.default))
            guide = with_figures(options.guide.read_text("utf-8"), lines)
            options.guide.write_text(guide, encoding="utf-8")
        else:
            folder = options.dev.resolve().parent.name
            said = "\n".join(page(read_run(options.dev), tests, options.default, folder))
            options.output.write_text(said, encoding="utf-8")
    except (UnmaskError, OSError) as error:
        print(f"beyond_the_paper: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
