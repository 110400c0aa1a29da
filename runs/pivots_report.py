"""Write docs/results/pivots.md from the rows that runs/pivots.py measured.

    python runs/pivots_report.py --rows pivots.jsonl --joints better-joints.jsonl --output FILE

`--joints` are the rows of runs/better_joints.py: other constructions on the same examples.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from better_joints_report import METRICS, Row, read

import unmask
from unmask.evaluation.reports.bootstrap import Estimate, Numbers, means, paired_differences
from unmask.markup import markdown
from unmask.printable import printable, quoted

# the pivot that the paper takes, on the blank that its formula pivots on
AXIS, PIVOT = "0", "likeliest"
ORACLE, RANDOM = "gold", "random"
AXES = {"0": "first", "1": "second"}
# the gaps that the choice of a pivot is held against
OTHERS = ("mlm", "mrf-logit", "mrf", "ag-paper", "log-pool")

HEADER = """\
# The pivot of HCB

The Hammersley-Clifford-Besag joint depends on a pivot token where a model's two conditionals are
incompatible. The paper takes the likeliest token of the doubly masked distribution and reports, in
a footnote, little sensitivity in preliminary experiments, without figures. Here are figures.

`hcb` on masked pairs of SNLI test sentences, exact over the whole vocabulary, under these pivots:
the likeliest token; the token that was masked (an oracle, for comparison); the 2nd, 10th, 100th and
1000th likeliest; and ordinary tokens drawn uniformly by a hash of the example's id, averaged where
they have one row. Each on both blanks: with the pivot on the first, the joint keeps the model's
q(a | b) and all error falls on the other conditional; on the second, the other way round. The
paper's is the likeliest on the first blank. Measured by `runs/pivots.sh`; the rows, with example
ids, are in [pivots.jsonl](pivots.jsonl), those of the other constructions, on the same examples, in
[better-joints.jsonl](better-joints.jsonl).

NLLs are per token and everything is in nats; lower is better. Brackets are 95% bootstrap intervals
(percentiles of 10,000 resamples of sentences). **Bold**: the interval excludes zero; with so many
cells, one in twenty would by chance. With the gold token as pivot G-KL is 0, and U-NLL the model's
own, by construction.
"""


def kinds(row: Row) -> list[str]:
    """The pivots of a row in its order, the random ones as one."""
    return list(dict.fromkeys(name.split(" ")[0] if _drawn(name) else name for name in pivots(row)))


def pivots(row: Row) -> list[str]:
    return list(row["metrics"][AXIS])


def _drawn(name: str) -> bool:
    return name.startswith(f"{RANDOM} ")


def _named(row: Row, kind: str) -> list[str]:
    return [name for name in pivots(row) if name == kind or (kind == RANDOM and _drawn(name))]


def column(rows: list[Row], axis: str, kind: str, metric: str) -> Numbers:
    """A metric by example; of random pivots the mean."""
    return np.array(
        [
            np.mean([row["metrics"][axis][name][metric] for name in _named(row, kind)])
            for row in rows
        ]
    )


def columns(rows: list[Row], axis: str, kind: str) -> Numbers:
    return np.stack([column(rows, axis, kind, metric) for metric in METRICS])


def cells(found: list[Estimate], *, sign: str = "") -> str:
    return " | ".join(cell(one, sign) for one in found)


def cell(one: Estimate, sign: str) -> str:
    """A mean with its interval; bold, where it has a sign, if the interval excludes zero."""
    value, low, high = (f"{number:{sign}.3f}" for number in (one.value, one.low, one.high))
    said = f"{value} [{low}, {high}]"
    return f"**{said}**" if sign and one.leaves_out_zero() else said


def sentences(rows: list[Row]) -> list[str]:
    return [row["sentence"] for row in rows]


def head(first: str) -> Iterator[str]:
    yield f"| {first} | " + " | ".join(METRICS.values()) + " |"
    yield "|---" * (len(METRICS) + 1) + "|"


def means_table(rows: list[Row]) -> Iterator[str]:
    yield from head("blank, pivot")
    for axis, blank in AXES.items():
        for kind in kinds(rows[0]):
            found = means(columns(rows, axis, kind), sentences(rows))
            yield f"| {blank}, {markdown(kind)} | {cells(found)} |"


def differences_table(rows: list[Row], joints: list[Row]) -> Iterator[str]:
    """Every pivot, then other constructions, minus the paper's pivot."""
    base = columns(rows, AXIS, PIVOT)
    yield from head(f"minus {AXES[AXIS]}, {PIVOT}")
    for axis, blank in AXES.items():
        for kind in kinds(rows[0]):
            if (axis, kind) != (AXIS, PIVOT):
                found = paired_differences(columns(rows, axis, kind), base, sentences(rows))
                yield f"| {blank}, {markdown(kind)} | {cells(found, sign='+')} |"
    for method in OTHERS if joints else ():
        own = [[float(row["metrics"][method][m]) for row in joints] for m in METRICS]
        found = paired_differences(own, base, sentences(rows))
        yield f"| *{markdown(method)}* | {cells(found, sign='+')} |"


def spreads() -> dict[str, Callable[[Row, str], float]]:
    """How far one example's metric moves with the pivot, by which pivots are compared."""

    def values(row: Row, axis: str, metric: str, *, drawn: bool = False) -> list[float]:
        # not the oracle: nobody could choose it
        named = [n for n in pivots(row) if n != ORACLE and (_drawn(n) or not drawn)]
        return [float(row["metrics"][axis][name][metric]) for name in named]

    def both(row: Row, metric: str) -> list[float]:
        return [value for axis in AXES for value in values(row, axis, metric)]

    def swapped(row: Row, metric: str) -> float:
        one, other = (float(row["metrics"][axis][PIVOT][metric]) for axis in AXES)
        return abs(one - other)

    return {
        "standard deviation over random pivots, first blank": lambda row, metric: float(
            np.std(values(row, "0", metric, drawn=True), ddof=1)
        ),
        "largest minus smallest, first blank": lambda row, m: float(np.ptp(values(row, "0", m))),
        "largest minus smallest, second blank": lambda row, m: float(np.ptp(values(row, "1", m))),
        "largest minus smallest, both": lambda row, metric: float(np.ptp(both(row, metric))),
        "likeliest on one blank or the other, absolute": swapped,
    }


def spread_table(rows: list[Row]) -> Iterator[str]:
    yield from head("within an example")
    for name, spread in spreads().items():
        moved = [[spread(row, metric) for row in rows] for metric in METRICS]
        yield f"| {name} | {cells(means(moved, sentences(rows)))} |"


def reading(rows: list[Row], joints: list[Row]) -> Iterator[str]:
    """How the choice of a pivot compares with the choice of a construction, in P-NLL."""
    metric = "pairwise_nll"
    base = column(rows, AXIS, PIVOT, metric)
    moved = {
        f"{blank} blank, {kind}": float((column(rows, axis, kind, metric) - base).mean())
        for axis, blank in AXES.items()
        for kind in kinds(rows[0])
        if kind != ORACLE and (axis, kind) != (AXIS, PIVOT)
    }
    low, high = min(moved, key=lambda key: moved[key]), max(moved, key=lambda key: moved[key])
    yield "In P-NLL, another rule for the pivot that anyone could follow changes the mean by"
    yield f"{moved[low]:+.3f} ({markdown(low)}) to {moved[high]:+.3f} ({markdown(high)})."
    if joints:
        gaps = [
            f"`{method}` {np.mean([row['metrics'][method][metric] for row in joints] - base):+.3f}"
            for method in OTHERS
        ]
        yield f"On the same examples other constructions differ from it by: {', '.join(gaps)}."
    largest = spreads()["largest minus smallest, first blank"]
    over = np.mean([largest(row, metric) > 0.1 for row in rows])
    yield f"In {100 * over:.0f}% of the examples the pivots on the first blank alone lie more than"
    yield "0.1 apart."


def conclusion(rows: list[Row]) -> Iterator[str]:
    """The paper's footnote, held against both kinds of blanks."""
    metric, better, worse = list(METRICS).index("pairwise_nll"), [], []
    whole = spreads()["largest minus smallest, both"]
    moved = []
    for mask in sorted({row["mask"] for row in rows}):
        group = [row for row in rows if row["mask"] == mask]
        base = columns(group, AXIS, PIVOT)
        for axis, blank in AXES.items():
            for kind in kinds(group[0]):
                if kind == ORACLE or (axis, kind) == (AXIS, PIVOT):
                    continue
                found = paired_differences(columns(group, axis, kind), base, sentences(group))
                name = f"{blank} blank, {kind}, {mask}"
                if found[metric].high < 0:
                    better.append(name)
                elif found[metric].low > 0:
                    worse.append(name)
        mean = np.mean([whole(row, "pairwise_nll") for row in group])
        moved.append(f"{mean:.2f} nats between {mask} blanks")
    yield "**What comes out.** The paper's footnote holds for the mean over examples, not for an"
    yield "example: the pivots that anyone could choose move one example's P-NLL by"
    yield f"{' and '.join(moved)}, on average (largest minus smallest)."
    if better:
        yield f"On average these rules are better than the paper's: {markdown('; '.join(better))}."
    else:
        yield "On average no other rule is better than the paper's beyond the noise."
    if worse:
        yield f"Worse: {markdown('; '.join(worse))}."
    yield ""


def matched(rows: list[Row], joints: list[Row]) -> list[Row]:
    """The other constructions' row of each example, or none at all if some have none."""
    known = {(row["id"], row["mask"]): row for row in joints}
    found = [known.get((row["sentence"], row["mask"])) for row in rows]
    return [row for row in found if row] if all(found) else []


def page(rows: list[Row], joints: list[Row]) -> Iterator[str]:
    models = sorted({row["model"] for row in rows})
    if len(models) != 1:
        raise unmask.UnmaskError(f"rows are of one model, not of {quoted(models)}")
    yield HEADER
    drawn = sum(map(_drawn, pivots(rows[0])))
    yield f"Model: {markdown(models[0])}. {len(rows)} examples, {drawn} random pivots each."
    yield "One model, one corpus and few examples: another model may differ.\n"
    yield from conclusion(rows)
    for mask in sorted({row["mask"] for row in rows}):
        group = [row for row in rows if row["mask"] == mask]
        others = matched(group, joints)
        yield f"\n## {markdown(mask.capitalize())} blanks, {len(group)} examples\n"
        yield from reading(group, others)
        yield ""
        yield from means_table(group)
        yield ""
        yield from differences_table(group, others)
        yield ""
        yield from spread_table(group)
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "transformers"))
    yield f"\nMade with unmask {unmask.__version__}, {versions}, float32, on a CPU."


def run(chosen: argparse.Namespace) -> None:
    rows = read([chosen.rows])
    if not rows:
        raise unmask.UnmaskError(f"{quoted(str(chosen.rows))} holds no rows; run runs/pivots.sh")
    lines = page(rows, read([chosen.joints] if chosen.joints else []))
    chosen.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="The page on HCB's pivot from measured rows.")
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--joints", type=Path, help="rows of runs/better_joints.py, same model")
    parser.add_argument("--output", type=Path, default=Path("docs/results/pivots.md"))
    try:
        run(parser.parse_args())
    except (unmask.UnmaskError, OSError) as error:
        print(f"pivots: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
