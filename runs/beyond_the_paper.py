"""The tables of docs/results/which-joint.md: the default chosen on dev, judged on test pairs.

python runs/beyond_the_paper.py docs/results/table1-*/ [--output FILE]

The folders are those that runs/table1_here.sh published, one per model: a dev run with every
construction, exact, and test runs with every one or, sketched, with those that can be estimated.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import marked_page
import numpy as np
from numpy.typing import NDArray
from one_line import in_one_line
from table1_here_report import all_less, less, settings

from unmask.errors import UnmaskError
from unmask.evaluation.rows import ResultRow
from unmask.evaluation.run import EvaluationRun, read_run
from unmask.joints.agreement import Agreement
from unmask.markup import markdown
from unmask.resampling import DEFAULT, FEWEST, Estimate, means

# forward passes over a vocabulary of V: of those near the best, and of the others
PASSES = {
    "log-pool": "2V + 1",
    "ag": "2V",
    "orders": "3 per pair",
}
OTHERS = {"hcb": "V + 2", "mrf": "2V", "mrf-logit": "2V", "mlm": "1"}
# near each other on most pairs: where they differ, J is to show it
NEAR = ("log-pool", "ag", "orders")
METRICS = {"pairwise_nll": "P-NLL", "unary_nll": "U-NLL", "gold_kl": "G-KL", "all_kl": "A-KL"}

ByMask = dict[str, dict[str, list[ResultRow]]]
Numbers = NDArray[np.float64]
# of the folder of a model: what is chosen on, and what is judged on
RUNS = ("snli-dev", "snli", "xsum")


def by_mask(run: EvaluationRun, needed: Iterable[str]) -> ByMask:
    """Measured rows by mask and construction; a run is of one model and corpus."""
    found = {group.mask: by for group, by in settings(run.rows).items()}
    lacking = {name for by in found.values() for name in set(needed) - by.keys()}
    if not found or lacking:
        raise UnmaskError(f"the run lacks rows of {', '.join(sorted(lacking)) or 'everything'}")
    return dict(sorted(found.items()))


def interval(found: Estimate, count: int = FEWEST) -> str:
    if count < FEWEST:
        return f"{found.value:+.3f}"
    said = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{said}**" if found.low > 0 or found.high < 0 else said


class Model(NamedTuple):
    """What was measured with one model."""

    name: str
    dev: ByMask | None
    tests: list[EvaluationRun]


def read(folders: Sequence[Path]) -> list[Model]:
    """The models of some published folders."""
    found = []
    for folder in folders:
        runs = {name: read_run(folder / name) for name in RUNS if (folder / name).exists()}
        if not runs:
            raise UnmaskError(f"no runs in {folder.name}")
        (name,) = {row.model for run in runs.values() for row in run.rows}
        dev = by_mask(runs["snli-dev"], {*PASSES, *OTHERS}) if "snli-dev" in runs else None
        found.append(Model(name, dev, [run for key, run in runs.items() if key != "snli-dev"]))
    return found


def mean_nll(devs: Sequence[ByMask], construction: str) -> float:
    """P-NLL, pairs of a kind weighing alike, and kinds of blanks."""
    kinds = dict.fromkeys(mask for dev in devs for mask in dev)
    every = [
        [row.metric("pairwise_nll") for dev in devs for row in dev.get(mask, {})[construction]]
        for mask in kinds
    ]
    return float(np.mean([np.mean(values) for values in every]))


def choice_lines(models: Sequence[Model], best: str) -> Iterator[str]:
    """Every construction on dev pairs, minus the default."""
    devs = [one.dev for one in models if one.dev]
    heads = [
        f"{one.name}, {mask}, {len(by[best])} pairs"
        for one in models
        for mask, by in (one.dev or {}).items()
    ]
    yield f"| construction | P-NLL | {' | '.join(heads)} |"
    yield "|---" * (2 + len(heads)) + "|"
    for name in sorted(PASSES, key=lambda name: mean_nll(devs, name)):
        gaps = [
            "0"
            if name == best
            else interval(less(by[name], by[best], "pairwise_nll"), len(by[name]))
            for dev in devs
            for by in dev.values()
        ]
        yield f"| {name} | {mean_nll(devs, name):.3f} | {' | '.join(gaps)} |"


def difference_lines(rows: ByMask, baseline: str) -> Iterator[str]:
    for mask, by in rows.items():
        # a sketch has no A-KL
        metrics = {name: said for name, said in METRICS.items() if _has(by[baseline], name)}
        yield f"### {mask.capitalize()} blanks, {len(by[baseline])} pairs\n"
        yield f"| minus `{baseline}` | {' | '.join(metrics.values())} |"
        yield "|---" * (1 + len(metrics)) + "|"
        for name in (*PASSES, *OTHERS):
            if name != baseline and name in by:
                count = len(by[name])
                gaps = all_less(by[name], by[baseline], metrics)
                cells = [interval(gap, count) for gap in gaps]
                yield f"| {name} | {' | '.join(cells)} |"
        yield ""


def _has(rows: Sequence[ResultRow], metric: str) -> bool:
    return all(getattr(row, metric) is not None for row in rows)


def judgement(rows: ByMask, default: str) -> Iterator[str]:
    """Which constructions are ahead of the default on pairs that the choice never saw."""
    for mask, by in rows.items():
        for name in sorted(PASSES.keys() & by.keys() - {default}):
            gap = less(by[name], by[default], "pairwise_nll")
            if gap.high < 0 and len(by[name]) >= FEWEST:
                yield f"{name}, {mask}"


def verdict_lines(devs: Sequence[ByMask]) -> Iterator[str]:
    """What the plain words of J stand for: how far constructions differ on a pair."""
    yield "| words for J | pairs | mean spread | median | 90% below | largest |"
    yield "|---|---|---|---|---|---|"
    spreads: dict[str, list[float]] = {}
    sentences: dict[str, list[str]] = {}
    for same in sorted(examples(devs), key=lambda same: same[0].incompatibility or 0.0):
        words = Agreement(same[0].incompatibility or 0.0).words()
        spreads.setdefault(words, []).append(spread(same))
        sentences.setdefault(words, []).append(same[0].sentence_id)
    for words, found in spreads.items():
        (mean,) = means([found], sentences[words], DEFAULT)
        yield (
            f"| {words.split(':')[0]} | {len(found)}"
            f" | {mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
            f" | {np.median(found):.3f} | {np.percentile(found, 90):.3f} | {max(found):.2f} |"
        )


def examples(devs: Sequence[ByMask], names: Sequence[str] = NEAR) -> Iterator[list[ResultRow]]:
    """The rows of each example by some constructions, where J is known."""
    for dev in devs:
        for by in dev.values():
            known = [{row.example_id: row for row in by[name]} for name in names]
            for example, row in known[0].items():
                if row.incompatibility is not None:
                    yield [one[example] for one in known]


def spread(same: Sequence[ResultRow]) -> float:
    """The largest minus the smallest log-probability of a pair; rows are per token."""
    nlls = [row.metric("pairwise_nll") for row in same]
    return 2 * (max(nlls) - min(nlls))


def predicting_lines(models: Sequence[Model]) -> Iterator[str]:
    """Rank correlations of J on the pairs of each model."""
    yield "| model, blanks | pairs | J with the spread | J with P-NLL | J above 0.05 |"
    yield "|---|---|---|---|---|"
    names = ("log-pool", "orders")
    for one in models:
        runs = [by_mask(run, names) for run in one.tests]
        for mask in dict.fromkeys(mask for run in runs for mask in run):
            same = list(examples([{mask: run[mask]} for run in runs if mask in run], names))
            bits = np.array([rows[0].incompatibility or 0.0 for rows in same])
            spreads = np.array([spread(rows) for rows in same])
            nll = np.array([rows[0].metric("pairwise_nll") for rows in same])
            cells = [
                correlated(bits, spreads),
                correlated(bits, nll),
                f"{np.mean(bits > 0.05):.0%}",
            ]
            yield f"| {one.name}, {mask} | {len(same)} | {' | '.join(cells)} |"


def correlated(one: Numbers, other: Numbers) -> str:
    """A rank correlation with its bootstrap interval."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(one), size=(2_000, len(one)))
    found = [_spearman(one[draw], other[draw]) for draw in draws]
    low, high = np.percentile(found, [2.5, 97.5])
    return f"{_spearman(one, other):.2f} [{low:.2f}, {high:.2f}]"


def _spearman(one: Numbers, other: Numbers) -> float:
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Numbers) -> Numbers:
    """From 0; equal values, as a bootstrap has them, share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Numbers = (last - (counts + 1) / 2)[inverse]
    return shared


def figure_lines(rows: ByMask, default: str) -> Iterator[str]:
    """P-NLL and G-KL of every construction, with its forward passes."""
    heads = [f"P-NLL, {mask}" for mask in rows] + [f"G-KL, {mask}" for mask in rows]
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


def about(run: EvaluationRun, rows: ByMask) -> str:
    (model,) = {row.model for row in run.rows}
    counts = " and ".join(f"{len(by['mlm'])} {mask}" for mask, by in rows.items())
    sketched = any(row.sketched for row in run.rows)
    exactly = "sketched" if sketched else "exact over the whole vocabulary"
    corpus = run.corpus.name
    return f"{markdown(corpus)}: {counts} pairs, {markdown(model)}, {exactly}"


def blocks(models: Sequence[Model], default: str = "log-pool") -> dict[str, list[str]]:
    """The tables that the page shows."""
    devs = [one.dev for one in models if one.dev]
    if not devs:
        raise UnmaskError("no folder has a run snli-dev to choose on")
    tests = [run for one in models for run in one.tests]
    exact = next(run for run in tests if not any(row.sketched for row in run.rows))
    return {
        "figures": list(figure_lines(by_mask(exact, {*PASSES, *OTHERS}), default)),
        "words of J": list(verdict_lines(devs)),
    }


def tables(models: Sequence[Model], default: str) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    return {
        "choice": list(choice_lines(models, default)),
        "judgement": list(judged_lines(models, default)),
        "what-J-predicts": list(predicting_lines(models)),
    }


def judged_lines(models: Sequence[Model], default: str) -> Iterator[str]:
    """Every test run: differences to the default by kind of blanks."""
    for test in (run for one in models for run in one.tests):
        judged = by_mask(test, {default, "mlm"})
        yield f"## {about(test, judged)}\n"
        yield from difference_lines(judged, default)


def ahead(models: Sequence[Model], default: str) -> list[str]:
    """The constructions that are ahead of the default on test pairs by more than noise."""
    runs = [by_mask(run, {default, "mlm"}) for one in models for run in one.tests]
    return [name for rows in runs for name in judgement(rows, default)]


def compared(models: Sequence[Model], default: str) -> int:
    """How many comparisons that is."""
    runs = [by_mask(run, {default, "mlm"}) for one in models for run in one.tests]
    return sum(len(PASSES.keys() & by.keys() - {default}) for rows in runs for by in rows.values())


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="The default, chosen on dev and judged on test.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--default", default="log-pool")
    parser.add_argument("--output", type=Path, default=Path("docs/results/which-joint.md"))
    options = parser.parse_args()
    models = read(options.folders)
    given = (blocks(models), tables(models, options.default))
    marked_page.write_blocks(options.output, *given)


if __name__ == "__main__":
    raise SystemExit(main())
