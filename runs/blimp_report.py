"""CSV files of docs/results/texts.md, from the rows that runs/blimp.sh measured.

    python runs/blimp_report.py --rows FOLDER --output FILE.csv

The folder has files of rows as `unmask score --blimp ... --output` writes them, all of one model.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import marked_page
from one_line import in_one_line

import unmask
from unmask.markup import markdown
from unmask.printable import quoted
from unmask.resampling import means
from unmask.sequences.minimal_pairs import Accuracy, Verdict, accuracies, accuracy

Row = dict[str, Any]
# the rows of a method by the ids of their pairs
ByMethod = dict[str, dict[str, Row]]

PATH = "hcb-path"
# how many standard errors from 0 a log-ratio has to be for its sign to count as settled
SETTLED = 2.0
GROUPS = ("field", "linguistics_term")


def read(folder: Path) -> list[Row]:
    """The rows of all files, in the order of their names; a method by its order too."""
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            rows += [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        except ValueError:
            raise unmask.UnmaskError(f"{quoted(str(path))} is not JSON lines") from None
    if not rows:
        raise unmask.UnmaskError(f"{quoted(str(folder))} holds no rows; run runs/blimp.sh")
    for row in rows:
        if row.get("order"):
            row["method"] += f" {row['order']}"
    models = sorted({row["model"] for row in rows})
    if len(models) != 1:
        raise unmask.UnmaskError(f"rows are of one model, not of {quoted(models)}")
    return rows


def by_method(rows: Sequence[Row]) -> ByMethod:
    found: ByMethod = defaultdict(dict)
    for row in rows:
        found[row["method"]][row["id"]] = row
    return found


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    return [Verdict(row["UID"], row["correct"], row["forward_passes"], groups(row)) for row in rows]


def groups(row: Row) -> dict[str, str]:
    # BLiMP writes one of its fields in two ways
    field = row["field"].replace("syntax/semantics", "syntax_semantics")
    return {"field": field, "linguistics_term": row["linguistics_term"]}


def common(found: ByMethod, methods: Sequence[str]) -> list[str]:
    """The pairs that all these methods compare."""
    first, *others = (
        {name for name, row in found[method].items() if row["correct"] is not None}
        for method in methods
    )
    return sorted(first.intersection(*others))


def cell(one: Accuracy) -> str:
    if math.isnan(one.value):
        return "-"
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def head(*names: str) -> Iterator[str]:
    yield "| " + " | ".join(names) + " |"
    yield "|---" * len(names) + "|"


def overall_table(found: ByMethod) -> Iterator[str]:
    shared = common(found, list(found))
    yield from head(
        *("method", "accuracy, all pairs", "compared", "paradigms", "ties"),
        "forward passes per pair compared",
        f"accuracy, the {len(shared):,} pairs that all compare",
    )
    for method, rows in found.items():
        every = accuracy(verdicts(list(rows.values())))
        of_common = [rows[name] for name in shared]
        same = cell(accuracy(verdicts(of_common))) if of_common else "-"
        yield (
            f"| `{markdown(method)}` | {cell(every)} | {every.compared:,} of {every.pairs:,} "
            f"({100 * every.coverage:.1f}%) | {every.paradigms} | {every.ties:,} | "
            f"{every.forward_passes / max(1, every.compared):.1f} | {same} |"
        )


def group_table(found: ByMethod, by: str, first: str) -> Iterator[str]:
    """All pairs that a method compares, by group; how many of a group's pairs the path compares."""
    parts = {m: accuracies(verdicts(list(rows.values())), by) for m, rows in found.items()}
    yield from head(first, *(f"`{markdown(m)}`" for m in found), f"`{PATH}` compares")
    for name in sorted(next(iter(parts.values()))):
        cells = [cell(parts[method][name]) for method in found]
        coverage = f"{100 * parts[PATH][name].coverage:.0f}%" if PATH in parts else "-"
        yield f"| {markdown(name)} | {' | '.join(cells)} | {coverage} |"


def difference_table(found: ByMethod) -> Iterator[str]:
    """Every method minus every one before it, on the pairs that both compare."""
    yield from head("method", "minus", "accuracy", "pairs", "paradigms")
    for base, method in combinations(found, 2):
        shared = common(found, [base, method])
        gaps: dict[str, list[float]] = defaultdict(list)
        for name in shared:
            row = found[method][name]
            gaps[row["UID"]].append(row["correct"] - found[base][name]["correct"])
        if gaps:
            yield f"| `{markdown(method)}` | `{markdown(base)}` | {gap_cell(gaps)} |"


def gap_cell(gaps: dict[str, list[float]]) -> str:
    by_paradigm = [sum(values) / len(values) for values in gaps.values()]
    (one,) = means([by_paradigm], list(gaps))
    ends = "" if math.isnan(one.low) else f" [{one.low:+.3f}, {one.high:+.3f}]"
    said = f"{one.value:+.3f}{ends}"
    pairs = sum(map(len, gaps.values()))
    return f"{f'**{said}**' if one.leaves_out_zero() else said} | {pairs:,} | {len(gaps)}"


def spread_table(rows: Sequence[Row]) -> Iterator[str]:
    """Pairs of the path by how sure its orders are of the sign."""
    kinds: dict[str, list[Row]] = {
        f"beyond {SETTLED:g} standard errors": [],
        f"within {SETTLED:g} standard errors": [],
        "one order alone, so no spread": [],
    }
    beyond, within, alone = kinds.values()
    for row in rows:
        if row["correct"] is None:
            continue
        if row["standard_error"] is None:
            alone.append(row)
        else:
            settled = abs(row["log_ratio"]) > SETTLED * row["standard_error"]
            (beyond if settled else within).append(row)
    compared = len(beyond) + len(within) + len(alone)
    yield from head(f"log-ratio of `{PATH}`", "pairs", "of those compared", "accuracy")
    for name, part in kinds.items():
        if part:
            said = cell(accuracy(verdicts(part)))
            yield f"| {name} | {len(part):,} | {100 * len(part) / compared:.1f}% | {said} |"


def tables(rows: list[Row]) -> dict[str, list[str]]:
    """Whole tables, for the CSV files."""
    found = by_method(rows)
    made = {"accuracy": list(overall_table(found)), "differences": list(difference_table(found))}
    if PATH in found:
        made["paths"] = list(spread_table(list(found[PATH].values())))
    by_group = {name: list(group_table(found, name, "group")) for name in GROUPS}
    made["groups"] = [line for name, lines in by_group.items() for line in (f"## {name}", *lines)]
    return made


def table(rows: Sequence[Row]) -> Iterator[list[str]]:
    """One line per pair: its id, and what each method made of it; empty where it has no ratio."""
    found = by_method(rows)
    yield ["id", *found, f"{PATH}_standard_error"]
    for name in next(iter(found.values())):
        ratios = [found[method][name]["log_ratio"] for method in found]
        error = found[PATH][name]["standard_error"] if PATH in found else None
        yield [name, *("" if value is None else f"{value:.6g}" for value in (*ratios, error))]


def paradigms(rows: Sequence[Row]) -> Iterator[list[str]]:
    """One line per paradigm: the accuracy of every method with its interval, empty without one."""
    found = by_method(rows)
    parts = {method: accuracies(verdicts(list(one.values()))) for method, one in found.items()}
    ends = [name for method in found for name in (method, f"{method} low", f"{method} high")]
    yield ["paradigm", *ends, f"{PATH} compares"]
    for name in sorted(next(iter(parts.values()))):
        numbers = [
            "" if math.isnan(each.value) else f"{value:.3f}"
            for each in (parts[method][name] for method in found)
            for value in (each.value, each.low, each.high)
        ]
        yield [name, *numbers, f"{parts[PATH][name].coverage:.2f}" if PATH in parts else ""]


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="Tables on BLiMP from measured rows.")
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    rows = read(chosen.rows)
    for made, ending in ((table, ""), (paradigms, "-paradigms")):
        lines = [",".join(cells) for cells in made(rows)]
        place = chosen.output.with_stem(f"{chosen.output.stem}{ending}")
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, lines in tables(rows).items():
        place = chosen.output.parent / "tables" / f"{chosen.output.stem}-{name}.csv"
        place.parent.mkdir(exist_ok=True)
        place.write_text(marked_page.as_csv(lines), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
