"""The tables of docs/results/dependence.md, from the rows of runs/dependence.py and together.py.

    python runs/dependence_report.py --rows FOLDER --output docs/results/dependence.md

The folder has trees.jsonl, exact.jsonl, antibody.json, together.jsonl, and reading.json: sentences
by section, written by hand.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
from rows import Row, read

from unmask.markup import markdown
from unmask.resampling import Estimate, Numbers, means, paired_differences, ratios

MEASURES = ("mutual-information", "pmi")
LENGTHS = ((3, 6), (7, 10), (11, 99))


def shown(one: Estimate, digits: int = 3, sign: str = "") -> str:
    value, low, high = (f"{n:{sign}.{digits}f}" for n in (one.value, one.low, one.high))
    return f"{value} [{low}, {high}]"


# --- trees -------------------------------------------------------------------------------------


def trees(rows: list[Row]) -> Iterator[str]:
    rows = [row for row in rows if not row.get("unaligned")]
    ids = [row["id"] for row in rows]
    edges = np.array([row["edges"] for row in rows], dtype=np.float64)
    found = {"neighbours": column(rows, "neighbours")}
    for measure in MEASURES:
        for kind in ("free", "projective"):
            found[f"{measure}, {kind}"] = column(rows, measure, kind)
    base = found["neighbours"]
    yield "| tree | UUAS | minus neighbours | " + " | ".join(map(_length, LENGTHS)) + " |"
    yield "|---|---|---|" + "---|" * len(LENGTHS)
    for name, values in found.items():
        (whole,) = ratios(values[None], edges, ids)
        (gap,) = ratios((values - base)[None], edges, ids)
        by_length = []
        for low, high in LENGTHS:
            some = [low <= row["words"] <= high for row in rows]
            by_length.append(f"{values[some].sum() / edges[some].sum():.3f}")
        apart = "" if name == "neighbours" else shown(gap, sign="+")
        yield f"| {markdown(name)} | {shown(whole)} | {apart} | {' | '.join(by_length)} |"


def _length(limits: tuple[int, int]) -> str:
    low, high = limits
    return f"{low} to {high} words" if high < 99 else f"{low} words or more"


def column(rows: list[Row], *keys: str) -> Numbers:
    found = []
    for row in rows:
        value: Any = row
        for key in keys:
            value = value[key]
        found.append(float(value))
    return np.array(found)


# --- exact joints ------------------------------------------------------------------------------


def exact(rows: list[Row]) -> Iterator[str]:
    estimate, every = (column(rows, key) for key in ("estimate", "every_token"))
    yield "| mutual information of | rank correlation | mean, bits | estimate minus it |"
    yield "|---|---|---|---|"
    others = {"the measure, every token": every}
    others |= {f"the `{name}` joint": column(rows, "joints", name) for name in rows[0]["joints"]}
    ids = [row["id"] for row in rows]
    for name, values in others.items():
        (gap,) = paired_differences(estimate[None], values[None], ids)
        low, high = _interval(estimate, values)
        yield (
            f"| {name} | {spearman(estimate, values):.3f} [{low:.3f}, {high:.3f}] |"
            f" {values.mean():.3f} | {shown(gap, sign='+')} |"
        )


def spearman(one: Numbers, other: Numbers) -> float:
    ranks = [values.argsort(kind="stable").argsort(kind="stable") for values in (one, other)]
    one_by_other: Numbers = np.corrcoef(np.array(ranks, dtype=np.float64))
    return float(one_by_other[0, 1])


def _interval(one: Numbers, other: Numbers) -> tuple[float, float]:
    draw = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        some = draw.integers(len(one), size=len(one))
        found.append(spearman(one[some], other[some]))
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


# --- an antibody -------------------------------------------------------------------------------


def antibody(about: Row) -> Iterator[str]:
    raw, corrected = about["raw"], about["corrected"]
    one, other = about["disulphide"]
    yield "| | as it is | average product correction |"
    yield "|---|---|---|"
    yield (
        f"| rank of the disulphide bridge, C{one} - C{other}, among {about['pairs']:,} pairs |"
        f" {raw['rank']:,} | {corrected['rank']:,} |"
    )
    yield (
        f"| among the {raw['pairs_apart']:,} pairs at least six places apart |"
        f" {raw['rank_apart']:,} | {corrected['rank_apart']:,} |"
    )
    yield (
        "| neighbours among the 100 strongest |"
        f" {raw['neighbours_in_top_100']} | {corrected['neighbours_in_top_100']} |"
    )
    for distance in raw["mean_by_distance"]:
        values = [part["mean_by_distance"][distance] for part in (raw, corrected)]
        yield f"| mean at distance {distance} | {values[0]:.2f} | {values[1]:+.2f} |"


# --- filling together --------------------------------------------------------------------------


def together(rows: list[Row]) -> Iterator[str]:
    ids = [row["id"] for row in rows]
    names = list(rows[0]["ways"])
    blanks = column(rows, "blanks")
    values = np.array([[row["ways"][name][0] for row in rows] for name in names]) / blanks
    steps = np.array([[row["ways"][name][1] for row in rows] for name in names])
    passes = np.array([[row["ways"][name][2] for row in rows] for name in names])
    found, gaps = means(values, ids), paired_differences(values, values[:1], ids)
    yield "| way | log p per blank | minus one at a time | steps | forward passes |"
    yield "|---|---|---|---|---|"
    for number, name in enumerate(names):
        gap = "" if number == 0 else shown(gaps[number], sign="+")
        yield (
            f"| {markdown(name)} | {shown(found[number])} | {gap} |"
            f" {steps[number].mean():.2f} | {passes[number].mean():.1f} |"
        )


SECTIONS: dict[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "trees": ("trees.jsonl", trees),
    "exact": ("exact.jsonl", exact),
    "antibody": ("antibody.json", antibody),
    "together": ("together.jsonl", together),
}


def tables(folder: Path) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    made = {}
    for title, (name, section) in SECTIONS.items():
        path = folder / name
        rows: Any = read(path) if path.suffix == ".jsonl" else json.loads(path.read_text("utf-8"))
        made[title] = list(section(rows))
    return made


def blocks(made: dict[str, list[str]]) -> dict[str, list[str]]:
    """The tables that the page shows."""
    # without the columns by length
    trees = [
        " | ".join(line.split(" | ")[:3]) + " |" for line in made["trees"] if "---" not in line
    ]
    trees.insert(1, "|---|---|---|")
    return {"trees": trees, "exact": made["exact"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    chosen = parser.parse_args()
    made = tables(chosen.rows)
    marked_page.write_blocks(chosen.output, blocks(made), made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
