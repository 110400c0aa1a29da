"""Write docs/results/better-joints.md from the rows that runs/better_joints.py measured.

python runs/better_joints_report.py --rows test-*.jsonl --strengths dev-*.jsonl --output FILE
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

import unmask
from unmask.joints.agreement import Agreement

Row = dict[str, Any]
Numbers = NDArray[np.float64]
BASELINE = "ag-paper"
METRICS = {
    "pairwise_nll": "P-NLL",
    "unary_nll": "U-NLL",
    "all_kl": "A-KL",
    "gold_kl": "G-KL",
}
RESAMPLES = 10_000
CONTENDERS = [
    "ag, no pseudo-counts",
    "weighted-ag",
    "pseudo-gibbs",
    "orders",
    "orders, geometric",
    "sweep",
]
# constructions that all recover compatible conditionals: where they differ, the model is to blame
FAITHFUL = ["ag, no pseudo-counts", "weighted-ag", "pseudo-gibbs", "log-pool"]

HEADER = """\
# Better joints

Every construction on masked pairs of SNLI test sentences with caption-bert (4 layers, 4,096
tokens, trained on captions; see the [first joints](first-joints.md)), exact over the whole
vocabulary. Distinct sentences, two blanks each, drawn by a hash of their ids
(`runs/snli_pairs.py`). Measured by `runs/better_joints.sh`; the rows, with example ids, are in
[better-joints.jsonl](better-joints.jsonl).

P-PPL and U-PPL are exponentials of the mean NLL per token over examples, A-KL and G-KL means in
nats; lower is better everywhere. Differences are to `ag-paper`, the paper's 50 steps from uniform,
example by example, with 95% bootstrap intervals (percentiles of 10,000 resamples of sentences).
**Bold**: the interval excludes zero. One model and one corpus: another model may differ.
"""


def read(paths: list[Path]) -> list[Row]:
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def column(rows: list[Row], method: str, metric: str) -> Numbers:
    return np.array([row["metrics"][method][metric] for row in rows])


def interval(values: Numbers, statistic: Callable[[Numbers], Numbers]) -> tuple[float, float]:
    """95% of what the statistic of resampled rows is; the same resamples for every column."""
    generator = np.random.default_rng(0)
    picks = generator.integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(statistic(values[picks]), [2.5, 97.5])
    return float(low), float(high)


def difference(rows: list[Row], method: str, metric: str, other: str = BASELINE) -> str:
    gap = column(rows, method, metric) - column(rows, other, metric)
    low, high = interval(gap, lambda sample: sample.mean(axis=-1))
    said = f"{gap.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"**{said}**" if low > 0 or high < 0 else said


def values_table(rows: list[Row]) -> Iterator[str]:
    yield "| construction | P-PPL | U-PPL | A-KL | G-KL |"
    yield "|---|---|---|---|---|"
    for method in rows[0]["metrics"]:
        p, u, a, g = (column(rows, method, metric).mean() for metric in METRICS)
        yield f"| {method} | {math.exp(p):.2f} | {math.exp(u):.2f} | {a:.4f} | {g:.4f} |"


def differences_table(rows: list[Row], methods: list[str], other: str) -> Iterator[str]:
    yield f"| minus {other} | " + " | ".join(METRICS.values()) + " |"
    yield "|---" * (len(METRICS) + 1) + "|"
    for method in methods:
        if method != other:
            cells = [difference(rows, method, metric, other) for metric in METRICS]
            yield f"| {method} | " + " | ".join(cells) + " |"


def trust_section(rows: list[Row]) -> Iterator[str]:
    bits = np.array([row["incompatibility"] for row in rows])
    shared = np.array([row["mutual_information"] for row in rows])
    quartiles = np.percentile(bits, [10, 25, 50, 75, 90])
    yield f"J: mean {bits.mean():.4f} bits; 10, 25, 50, 75 and 90% of examples are below "
    yield ", ".join(f"{value:.4f}" for value in quartiles) + "."
    yield f"Mutual information of `pseudo-gibbs`: mean {shared.mean():.3f} bits.\n"
    yield "| construction | J and P-NLL | J and G-KL | J and P-NLL minus `ag-paper`'s, absolute |"
    yield "|---|---|---|---|"
    for method in rows[0]["metrics"]:
        nll, kl = column(rows, method, "pairwise_nll"), column(rows, method, "gold_kl")
        gap = np.abs(nll - column(rows, BASELINE, "pairwise_nll"))
        last = "" if method == BASELINE else correlation(bits, gap)
        yield f"| {method} | {correlation(bits, nll)} | {correlation(bits, kl)} | {last} |"


def verdicts_section(rows: list[Row]) -> Iterator[str]:
    """What the plain words of J stand for: how far sound constructions differ on an example."""
    yield "| J says | examples | spread of a pair's log-probability | G-KL of `log-pool` |"
    yield "|---|---|---|---|"
    by_verdict: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: float(row["incompatibility"])):
        by_verdict.setdefault(Agreement(row["incompatibility"]).words(), []).append(row)
    for said, group in by_verdict.items():
        nlls = np.array([column(group, method, "pairwise_nll") for method in FAITHFUL])
        # per token in the rows; a pair has two
        spread = 2 * (nlls.max(axis=0) - nlls.min(axis=0))
        low, high = interval(spread, lambda sample: sample.mean(axis=-1))
        kl = column(group, "log-pool", "gold_kl").mean()
        yield (
            f"| {said} | {len(group)} | {spread.mean():.3f} [{low:.3f}, {high:.3f}] | {kl:.4f} |"
        )


def correlation(x: Numbers, y: Numbers) -> str:
    """Spearman's rank correlation with a bootstrap interval."""
    picks = np.random.default_rng(0).integers(len(x), size=(1000, len(x)))
    low, high = np.percentile(rank_correlations(x[picks], y[picks]), [2.5, 97.5])
    return f"{float(rank_correlations(x, y)):+.2f} [{low:+.2f}, {high:+.2f}]"


def rank_correlations(x: Numbers, y: Numbers) -> Numbers:
    """Spearman's, of every row: scipy's takes a call for each, and there are tens of thousands."""
    a, b = (rankdata(values, axis=-1) - (values.shape[-1] + 1) / 2 for values in (x, y))
    found: Numbers = (a * b).sum(-1) / np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return found


def solvers_sentence(rows: list[Row]) -> str:
    solves = [one for row in rows for one in row["solvers"].values()]
    failed = sum(not one["converged"] for one in solves)
    return f"Of {len(solves):,} solves, {failed} did not converge."


def strengths_section(rows: list[Row]) -> Iterator[str]:
    masks = sorted({row["mask"] for row in rows})
    yield "| P-NLL minus `ag-paper`'s | " + " | ".join([*masks, "all"]) + " |"
    yield "|---" * (len(masks) + 2) + "|"
    groups = [[row for row in rows if row["mask"] == mask] for mask in masks] + [rows]
    for method in rows[0]["metrics"]:
        if method != BASELINE:
            cells = [difference(group, method, "pairwise_nll") for group in groups]
            yield f"| {method} | " + " | ".join(cells) + " |"


def page(rows: list[Row], strengths: list[Row]) -> Iterator[str]:
    yield HEADER
    for mask in sorted({row["mask"] for row in rows}):
        group = [row for row in rows if row["mask"] == mask]
        yield f"\n## {mask.capitalize()} blanks, {len(group)} examples\n"
        yield from values_table(group)
        yield ""
        yield from differences_table(group, list(group[0]["metrics"]), BASELINE)
        yield "\nThe best of them against each other:\n"
        yield from differences_table(group, CONTENDERS, "log-pool")
        yield "\n### J, and how it goes with the numbers above\n"
        yield "Spearman's rank correlations over examples, with 95% bootstrap intervals.\n"
        yield from trust_section(group)
    yield f"\n{solvers_sentence(rows)}"
    yield "\n## What J's plain words stand for\n"
    yield "The spread is the mean over examples of the largest minus the smallest log-probability,"
    yield f"in nats, that {', '.join(f'`{m}`' for m in FAITHFUL)} give the gold pair: all of them"
    yield "recover a joint from compatible conditionals, so where they differ no joint is right.\n"
    yield from verdicts_section(rows)
    if strengths:
        count = {m: sum(r["mask"] == m for r in strengths) for m in ("contiguous", "random")}
        yield "\n## How strong the pseudo-counts of `ag` should be\n"
        yield f"On SNLI dev: {count['contiguous']} contiguous and {count['random']} random pairs."
        yield "The default is what these support; the tables above are the judgement.\n"
        yield from strengths_section(strengths)
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "transformers"))
    yield f"\nMade with unmask {unmask.__version__}, {versions}, float32, on a CPU."


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of results from measured rows.")
    parser.add_argument("--rows", type=Path, nargs="+", required=True)
    parser.add_argument("--strengths", type=Path, nargs="*", default=[])
    parser.add_argument("--output", type=Path, default=Path("docs/results/better-joints.md"))
    chosen = parser.parse_args()
    rows = read(chosen.rows)
    lines = page(rows, read(chosen.strengths))
    chosen.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
