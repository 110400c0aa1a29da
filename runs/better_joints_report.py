"""CSV files of docs/results/beyond-the-paper.md from the rows of runs/better_joints.py.

python runs/better_joints_report.py --rows test-*.jsonl --strengths dev-*.jsonl --output FILE
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

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
    """Rank correlations of J with the other numbers."""
    bits = np.array([row["incompatibility"] for row in rows])
    yield "| construction | J and P-NLL | J and G-KL | J and P-NLL minus `ag-paper`'s, absolute |"
    yield "|---|---|---|---|"
    for method in rows[0]["metrics"]:
        nll, kl = column(rows, method, "pairwise_nll"), column(rows, method, "gold_kl")
        gap = np.abs(nll - column(rows, BASELINE, "pairwise_nll"))
        last = "" if method == BASELINE else correlation(bits, gap)
        yield f"| {method} | {correlation(bits, nll)} | {correlation(bits, kl)} | {last} |"


def verdicts_section(rows: list[Row]) -> Iterator[str]:
    """What the plain words of J stand for: how far sound constructions differ on an example."""
    yield "| words for J | examples | spread of a pair's log-probability | G-KL of `log-pool` |"
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


def solves(rows: list[Row]) -> list[bool]:
    """Whether each of all solves converged."""
    return [one["converged"] for row in rows for one in row["solvers"].values()]


def strengths_section(rows: list[Row]) -> Iterator[str]:
    masks = sorted({row["mask"] for row in rows})
    yield "| P-NLL minus `ag-paper`'s | " + " | ".join([*masks, "all"]) + " |"
    yield "|---" * (len(masks) + 2) + "|"
    groups = [[row for row in rows if row["mask"] == mask] for mask in masks] + [rows]
    for method in rows[0]["metrics"]:
        if method != BASELINE:
            cells = [difference(group, method, "pairwise_nll") for group in groups]
            yield f"| {method} | " + " | ".join(cells) + " |"


def tables(rows: list[Row], strengths: list[Row]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    by_mask = {
        mask: [row for row in rows if row["mask"] == mask]
        for mask in sorted({row["mask"] for row in rows})
    }
    values, gaps, trust = [], [], []
    for mask, group in by_mask.items():
        heading = f"## {mask}, {len(group)} examples"
        values += [heading, *values_table(group)]
        trust += [heading, *trust_section(group)]
        for methods, other in ((list(group[0]["metrics"]), BASELINE), (CONTENDERS, "log-pool")):
            table = list(differences_table(group, methods, other))
            gaps += [
                f"{heading}, minus {other}",
                table[0].replace(f"minus {other}", "construction"),
            ]
            gaps += table[1:]
    return {
        "all-constructions": values,
        "all-constructions-differences": gaps,
        "all-constructions-j": trust,
        "all-constructions-words-of-j": list(verdicts_section(rows)),
        "pseudo-counts": list(strengths_section(strengths)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole tables from measured rows.")
    parser.add_argument("--rows", type=Path, nargs="+", required=True)
    parser.add_argument("--strengths", type=Path, nargs="*", default=[])
    parser.add_argument("--output", type=Path, default=Path("docs/results/beyond-the-paper.md"))
    chosen = parser.parse_args()
    rows = read(chosen.rows)
    marked_page.write_blocks(chosen.output, {}, tables(rows, read(chosen.strengths)))


if __name__ == "__main__":
    main()
