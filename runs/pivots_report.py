"""Renew the CSV file of HCB's pivots, of docs/results/replication.md, from measured rows.

    python runs/pivots_report.py --rows pivots.jsonl --joints better-joints.jsonl --output FILE

`--joints` are rows of the same form: other constructions on the same examples.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import marked_page
import numpy as np
from one_line import in_one_line
from rows import Row, read

import unmask
from unmask.markup import markdown
from unmask.printable import quoted
from unmask.resampling import Estimate, Numbers, means, paired_differences

# the pivot that the paper takes, on the blank that its formula pivots on
AXIS, PIVOT = "0", "likeliest"
ORACLE, RANDOM = "gold", "random"
AXES = {"0": "first", "1": "second"}
# the gaps that the choice of a pivot is held against
OTHERS = ("mlm", "mrf-logit", "mrf", "ag", "log-pool")
METRICS = {"pairwise_nll": "P-NLL", "unary_nll": "U-NLL", "all_kl": "A-KL", "gold_kl": "G-KL"}


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


def changes(rows: list[Row]) -> dict[str, Estimate]:
    """P-NLL by every rule that anyone could follow, minus that by the paper's."""
    base = columns(rows, AXIS, PIVOT)
    metric = list(METRICS).index("pairwise_nll")
    return {
        f"{blank} blank, {kind}": paired_differences(
            columns(rows, axis, kind), base, sentences(rows)
        )[metric]
        for axis, blank in AXES.items()
        for kind in kinds(rows[0])
        if kind != ORACLE and (axis, kind) != (AXIS, PIVOT)
    }


def summary_table(rows: list[Row]) -> Iterator[str]:
    """How the choice of a pivot moves P-NLL, in one line for each kind of blanks."""
    heads = ["blanks", "examples", "moved within an example", "lowest rule", "highest rule"]
    yield f"| {' | '.join([*heads, 'better', 'worse'])} |"
    yield "|---|---|---|---|---|---|---|"
    whole = spreads()["largest minus smallest, both"]
    for mask in sorted({row["mask"] for row in rows}):
        group = [row for row in rows if row["mask"] == mask]
        moved = changes(group)
        low, high = (end(moved, key=lambda name: moved[name].value) for end in (min, max))
        mean = np.mean([whole(row, "pairwise_nll") for row in group])
        ends = [f"{moved[name].value:+.3f} ({markdown(name)})" for name in (low, high)]
        better = "; ".join(name for name, gap in moved.items() if gap.high < 0) or "none"
        worse = "; ".join(name for name, gap in moved.items() if gap.low > 0) or "none"
        cells = [markdown(mask), str(len(group)), f"{mean:.3f}", *ends]
        yield f"| {' | '.join([*cells, markdown(better), markdown(worse)])} |"


def matched(rows: list[Row], joints: list[Row]) -> list[Row]:
    """The other constructions' row of each example, or none at all if some have none."""
    known = {(row["id"], row["mask"]): row for row in joints}
    found = [known.get((row["sentence"], row["mask"])) for row in rows]
    return [row for row in found if row] if all(found) else []


def tables(rows: list[Row], joints: list[Row]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    models = sorted({row["model"] for row in rows})
    if len(models) != 1:
        raise unmask.UnmaskError(f"rows are of one model, not of {quoted(models)}")
    made = {"pivots": list(summary_table(rows))}
    for mask in sorted({row["mask"] for row in rows}):
        group = [row for row in rows if row["mask"] == mask]
        others = matched(group, joints)
        made[f"pivots-{mask}"] = [
            *means_table(group),
            "",
            *differences_table(group, others),
            "",
            *spread_table(group),
        ]
    return made


def run(chosen: argparse.Namespace) -> None:
    rows = read(chosen.rows)
    if not rows:
        raise unmask.UnmaskError(f"{quoted(str(chosen.rows))} holds no rows; run runs/pivots.sh")
    joints = read(chosen.joints) if chosen.joints else []
    marked_page.write_blocks(chosen.output, {}, tables(rows, joints))


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="The page on HCB's pivot from measured rows.")
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--joints", type=Path, help="rows of other constructions, same model")
    parser.add_argument("--output", type=Path, default=Path("docs/results/replication.md"))
    run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
