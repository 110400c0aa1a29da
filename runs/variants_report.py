"""The tables of docs/results/variants.md: scores of antibody variants beside measurements.

    python runs/variants_report.py scores --rows cr6261.jsonl --output FOLDER/cr6261.csv
    python runs/variants_report.py summary --scores FOLDER --data DIR
    python runs/variants_report.py page --scores FOLDER --output docs/results/variants.md

`scores` makes a score of every variant by every method of the log-odds that runs/variants.py read.
`summary` holds them against the measurements, which are not published here, and writes what it
finds to FOLDER/summary.json. `page` renews the tables of the page; people write its sentences.
Published rows carry variants as bits, and scores.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import marked_page
import numpy as np
import torch
import variants
from scipy.stats import rankdata, spearmanr

from unmask.constructions import construct
from unmask.constructions.incompatibility import agreement
from unmask.sequences.variant_metrics import (
    EPISTASIS_PEARSON,
    EPISTASIS_SPEARMAN,
    RECALL,
    SPEARMAN,
    Resampling,
    evaluate_variants,
)
from unmask.sequences.variants.cubes import by_mutation, path_moments
from unmask.sequences.variants.joints import BlockTables
from unmask.tables.contexts import Contexts

Odds = Mapping[str, list[float]]
Numbers = dict[str, dict[str, float]]
Row = dict[str, Any]

JOINTS = ("log-pool", "pseudo-gibbs", "ag", "mrf")
BASELINE = "single-mask-marginals"
# what each landscape was measured for, and the value of those that showed no binding
MEASURED: dict[str, dict[str, float | None]] = {
    "cr6261": {"h1_log_kd": 7.0, "h9_log_kd": 7.0, "expression": None},
    "cr9114": {"h3_log_kd": 6.0},
}
FILES = {"cr6261": "cr6261.csv", "cr9114": "cr9114-h3.csv"}
NAMES = {
    "h1_log_kd": "affinity to H1",
    "h9_log_kd": "affinity to H9",
    "h3_log_kd": "affinity to H3",
    "expression": "expression",
}


# --- scores ------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, list[float]]:
    lines = path.read_text("utf-8").splitlines()
    return {row["context"]: row["log_odds"] for row in map(json.loads, lines)}


def scores(odds: Odds, draws: int = 0) -> tuple[Numbers, float | None]:
    """By variant, its score by every method that has the contexts for it; and J.

    All variants if every context with one mask was read, otherwise those that are drawn.
    """
    k = len(next(iter(odds)))
    whole = ["".join(bits) for bits in product("01", repeat=k)]
    is_whole = all(context in odds for variant in whole for context in variants.one_mask(variant))
    every = whole if is_whole else sorted(variants.drawn(k, draws))
    found: Numbers = {variant: {} for variant in every}
    for variant, into in found.items():
        made = [place for place, bit in enumerate(variant) if bit == "1"]
        into.update(_conventions(odds, variant, made))
        into["pairs"] = _pairs(odds, made, k)
    bits = None
    if is_whole:
        tables = stored_tables(odds, k)
        bits = agreement(tables).bits
        each = {name: _log_odds(name, tables) for name in JOINTS}
        each["hcb-path"] = _path_means(odds, k)
        for variant, into in found.items():
            cell = tuple(map(int, variant))
            into.update({name: float(values[cell]) for name, values in each.items()})
    return found, bits


def _conventions(odds: Odds, variant: str, made: list[int]) -> dict[str, float]:
    germline = "0" * len(variant)
    found = {
        "wt-marginals": sum(odds[germline][place] for place in made),
        BASELINE: sum(_single(odds, place, germline) for place in made),
    }
    if variant in odds:
        found["mutant-marginals"] = sum(odds[variant][place] for place in made)
    if not made:
        found["masked-marginals"] = 0.0
    elif (masked := variants.all_masked(variant)) in odds:
        found["masked-marginals"] = sum(odds[masked])
    return found


def _single(odds: Odds, place: int, background: str) -> float:
    """The log-odds of one mutation, masked, given the bits of the others."""
    return odds[variants.with_bits(background, [place], variants.MASK)][0]


def _pairs(odds: Odds, made: list[int], k: int) -> float:
    """Single mutations, and what every two of them do together in the germline (log-pool)."""
    germline = "0" * k
    total = sum(_single(odds, place, germline) for place in made)
    for one, other in combinations(made, 2):
        for here, there in ((one, other), (other, one)):
            beside = variants.with_bits(germline, [there], "1")
            total += (_single(odds, here, beside) - _single(odds, here, germline)) / 2
    return total


def _log_odds(name: str, tables: BlockTables) -> torch.Tensor:
    log_p = construct(name, tables).log_rows(slice(None))
    return log_p - log_p.flatten()[0]


def _path_means(odds: Odds, k: int) -> torch.Tensor:
    backgrounds = ["".join(str(bits >> place & 1) for place in range(k)) for bits in range(2**k)]
    log_odds = [[_single(odds, place, one) for one in backgrounds] for place in range(k)]
    return by_mutation(path_moments(np.array(log_odds))[0])


def stored_tables(odds: Odds, k: int) -> BlockTables:
    """The conditionals of germline and mature residue that were read, as tables of the library."""

    def read(_: Contexts, place: int) -> torch.Tensor:
        found = torch.zeros((2,) * k, dtype=torch.float64)
        for bits in product((0, 1), repeat=k):
            if bits[place]:
                found[bits] = _single(odds, place, "".join(map(str, bits)))
        return found

    return BlockTables(k, read)


def write_scores(rows: Path, output: Path, draws: int) -> None:
    odds = read(rows)
    found, bits = scores(odds, draws)
    # a method that lacks some variants, since its rows have not all run, is left out
    named = dict.fromkeys(name for one in found.values() for name in one)
    methods = [name for name in named if all(name in one for one in found.values())]
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["variant", *methods])
        for variant, values in found.items():
            writer.writerow([variant, *(f"{values[name] + 0.0:.5f}" for name in methods)])
    about = {"rows": len(odds), "incompatibility": bits}
    output.with_suffix(".json").write_text(json.dumps(about) + "\n", "utf-8")


# --- against the measurements ------------------------------------------------------------------


def read_csv(path: Path) -> dict[str, dict[str, float]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row.pop("variant"): {name: float(value) for name, value in row.items() if value}
            for row in csv.DictReader(file)
        }


def summary(folder: Path, data: Path, resamples: int = 1000) -> Row:
    """Per landscape and measurement, what the metrics say."""
    again = Resampling(resamples=resamples)
    found: Row = {}
    for landscape, columns in MEASURED.items():
        path = folder / f"{landscape}.csv"
        if not path.exists():
            continue
        scored, measured = read_csv(path), read_csv(data / FILES[landscape])
        about = json.loads((folder / f"{landscape}.json").read_text("utf-8"))
        found[landscape] = {**about, "variants": len(scored), "measured": {}}
        for column, floor in columns.items():
            shared = [v for v in scored if column in measured.get(v, {})]
            found[landscape]["measured"][column] = _metrics(
                {v: scored[v] for v in shared},
                {v: measured[v][column] for v in shared},
                floor,
                again,
            )
    return found


def _metrics(
    scored: Numbers, measured: dict[str, float], floor: float | None, again: Resampling
) -> Row:
    above = [v for v in scored if floor is None or measured[v] > floor]
    rows = _evaluated(scored, measured, list(scored), again)
    found: Row = {"variants": len(scored), "above": len(above), "all": rows}
    number = spearmanr([v.count("1") for v in scored], [measured[v] for v in scored])
    found["number"] = round(float(number.statistic), 4)
    alike = _ranked_within(scored, measured)
    found["within"] = _only_spearman(_evaluated(*alike, list(scored), again))
    if floor is not None:
        found["above the floor"] = _only_spearman(_evaluated(scored, measured, above, again))
    return found


def _only_spearman(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["metric"] == SPEARMAN]


def _ranked_within(scored: Numbers, measured: dict[str, float]) -> tuple[Numbers, dict[str, float]]:
    """Ranks among the variants with as many mutations, from -1/2 to 1/2, instead of numbers."""
    methods = list(next(iter(scored.values())))
    ranked: Numbers = {variant: {} for variant in scored}
    truth: dict[str, float] = {}
    for size in {variant.count("1") for variant in scored}:
        alike = [variant for variant in scored if variant.count("1") == size]
        columns = [[scored[v][name] for v in alike] for name in methods]
        for name, column in zip(methods, columns, strict=True):
            for variant, rank in zip(alike, _centred_ranks(column), strict=True):
                ranked[variant][name] = rank
        own = _centred_ranks([measured[v] for v in alike])
        truth |= dict(zip(alike, own, strict=True))
    return ranked, truth


def _centred_ranks(values: list[float]) -> list[float]:
    n = len(values)
    return [float(rank - (n + 1) / 2) / n for rank in rankdata(values)]


def _evaluated(
    scored: Numbers, measured: dict[str, float], chosen: list[str], again: Resampling
) -> list[Row]:
    methods = list(next(iter(scored.values())))
    rows = evaluate_variants(
        [_mutant(v) for v in chosen],
        [measured[v] for v in chosen],
        {name: [scored[v][name] for v in chosen] for name in methods},
        baseline=BASELINE,
        resampling=again,
    )
    return [
        {key: round(v, 4) if isinstance(v, float) else v for key, v in row._asdict().items()}
        for row in rows
        if row.mutations == "all"
    ]


def _mutant(variant: str) -> str:
    """The bits as names of mutations; the metrics need no residues."""
    made = (f"G{place}M" for place, bit in enumerate(variant, start=1) if bit == "1")
    return ":".join(made) or "wt"


# --- the page ----------------------------------------------------------------------------------

TITLES = {"cr6261": "CR6261", "cr9114": "CR9114"}


def tables(folder: Path) -> dict[str, list[str]]:
    """Whole tables, for the CSV files: what was measured, and scores against each measurement."""
    found = json.loads((folder / "summary.json").read_text("utf-8"))
    scored = []
    for landscape, about in found.items():
        for column, metrics in about["measured"].items():
            scored += [f"## {TITLES[landscape]}, {NAMES[column]}", *_measured(metrics)]
    return {"measurements": list(_measurements(found)), "methods": scored}


def blocks(folder: Path) -> dict[str, list[str]]:
    """The table that the page shows: the correlation of every method with every measurement."""
    found = json.loads((folder / "summary.json").read_text("utf-8"))
    columns = {
        f"{TITLES[landscape]}, {NAMES[column]}": {
            row["method"]: _shown(row) for row in metrics["all"] if row["metric"] == SPEARMAN
        }
        for landscape, about in found.items()
        for column, metrics in about["measured"].items()
    }
    lines = [f"| method | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for method in dict.fromkeys(name for one in columns.values() for name in one):
        cells = [one.get(method, "not run") for one in columns.values()]
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return {"Spearman": lines}


def _measurements(found: Row) -> Iterator[str]:
    head = ["antibody", "variants scored", "forward passes", "J of the joint, bits", "measured"]
    head += ["variants", "without binding", "Spearman of the number of mutations"]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for landscape, about in found.items():
        bits = about["incompatibility"]
        first = [TITLES[landscape], f"{about['variants']:,}", f"{about['rows']:,}"]
        first.append("not run" if bits is None else f"{bits:.1g}")
        for column, metrics in about["measured"].items():
            n, above = metrics["variants"], metrics["above"]
            floor = MEASURED[landscape][column]
            cells = [*first, NAMES[column], f"{n:,}", "" if floor is None else f"{n - above:,}"]
            yield f"| {' | '.join(cells)} | {metrics['number']:+.2f} |"


def _measured(metrics: Row) -> Iterator[str]:
    head = ["method", "Spearman", "minus single", "equal numbers", "above the floor", "top 10%"]
    yield f"| {' | '.join([*head, 'epistasis, Pearson', 'epistasis, Spearman'])} |"
    yield "|---" * (len(head) + 2) + "|"
    by = {(row["metric"], row["method"]): row for row in metrics["all"]}
    beyond = {row["method"]: row for row in metrics.get("above the floor", [])}
    within = {row["method"]: row for row in metrics["within"]}
    for method in dict.fromkeys(row["method"] for row in metrics["all"]):
        rank = by[SPEARMAN, method]
        cells = [f"`{method}`", _shown(rank), _gap(rank), _shown(within[method])]
        cells += [_shown(beyond.get(method)), _shown(by[RECALL, method], sign="")]
        cells += [_shown(by[metric, method]) for metric in (EPISTASIS_PEARSON, EPISTASIS_SPEARMAN)]
        yield f"| {' | '.join(cells)} |"


def _shown(row: Row | None, sign: str = "+") -> str:
    if row is None or row["value"] is None:
        return "" if row is None else "none"
    said = f"{row['value']:{sign}.2f}"
    return (
        said if row["low"] is None else f"{said} [{row['low']:{sign}.2f}, {row['high']:{sign}.2f}]"
    )


def _gap(row: Row) -> str:
    ends = [row[f"difference{end}"] for end in ("", "_low", "_high")]
    return "" if None in ends else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*ends)


# --- running -----------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("scores", "summary", "page"))
    parser.add_argument("--rows", type=Path, help="of scores: what runs/variants.py wrote")
    parser.add_argument("--scores", type=Path, default=Path("docs/results/variants"))
    parser.add_argument("--data", type=Path, help="of summary: folder with the measurements")
    parser.add_argument("--output", type=Path, default=Path("docs/results/variants.md"))
    parser.add_argument("--draws", type=int, default=5000, help="variants of cr9114")
    chosen = parser.parse_args()
    if chosen.what == "scores":
        write_scores(chosen.rows, chosen.output, chosen.draws)
    elif chosen.what == "summary":
        found = json.dumps(summary(chosen.scores, chosen.data), indent=1)
        (chosen.scores / "summary.json").write_text(found + "\n", "utf-8")
    else:
        marked_page.write_blocks(chosen.output, blocks(chosen.scores), tables(chosen.scores))
    return 0


if __name__ == "__main__":
    sys.exit(main())
