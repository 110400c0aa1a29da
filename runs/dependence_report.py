"""Write docs/results/dependence.md from the rows of runs/dependence.py and runs/together.py.

    python runs/dependence_report.py --rows FOLDER --output docs/results/dependence.md

The folder has trees.jsonl, exact.jsonl, antibody.json, together.jsonl, and reading.json: sentences
by section, written by hand.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from unmask.markup import markdown
from unmask.resampling import Estimate, Numbers, means, paired_differences, ratios

Row = dict[str, Any]
MEASURES = ("mutual-information", "pmi")
LENGTHS = ((3, 6), (7, 10), (11, 99))

HEADER = """\
# Dependence between places

Maps of [dependence](../concepts/dependence.md), measured by `runs/dependence.py` and
`runs/together.py`. Brackets are 95% bootstrap intervals over sentences. The rows, with example ids
and no text, are in the folder `docs/results/dependence`.
"""


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def shown(one: Estimate, digits: int = 3, sign: str = "") -> str:
    value, low, high = (f"{n:{sign}.{digits}f}" for n in (one.value, one.low, one.high))
    return f"{value} [{low}, {high}]"


# --- trees -------------------------------------------------------------------------------------


def trees(rows: list[Row]) -> Iterator[str]:
    unaligned = sum(bool(row.get("unaligned")) for row in rows)
    rows = [row for row in rows if not row.get("unaligned")]
    ids = [row["id"] for row in rows]
    edges = np.array([row["edges"] for row in rows], dtype=np.float64)
    yield (
        f"tiny-english, {len(rows)} SNLI test sentences in hashed order"
        f" ({int(edges.sum()):,} edges; {unaligned} left out because a word of the parser is not"
        " whole tokens). Places are the words of spaCy's en_core_web_sm, without punctuation. UUAS"
        " is the share of its edges, without labels and directions, that a tree has; 16 samples per"
        " word for mutual information."
    )
    yield ""
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
    yield ""
    counts = [sum(low <= row["words"] <= high for row in rows) for low, high in LENGTHS]
    yield (
        "Sentences per column of lengths: "
        + ", ".join(map(str, counts))
        + ". Of the edges of the free trees, "
        + " and ".join(
            f"{column(rows, m, 'adjacent').sum() / sum(r['words'] - 1 for r in rows):.0%} ({m})"
            for m in MEASURES
        )
        + " link neighbours."
    )
    yield ""
    for measure in MEASURES:
        best = [row[measure]["strongest_apart"] for row in rows if row[measure]["strongest_apart"]]
        yield (
            f"The strongest dependence between words that are not neighbours, by {measure}"
            f" ({len(best)} sentences): {_counted([one['tags'] for one in best])}. The parser links"
            f" the two in {sum(one['edge'] is not None for one in best)} of them"
            f" ({_counted([one['edge'] for one in best if one['edge']])})."
        )
        yield ""


def _length(limits: tuple[int, int]) -> str:
    low, high = limits
    return f"{low} to {high} words" if high < 99 else f"{low} words or more"


def _counted(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common(most))


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
    estimate, error, every = (
        column(rows, key) for key in ("estimate", "standard_error", "every_token")
    )
    held = np.abs(estimate - every) <= 1.96 * error
    masks = Counter(row["mask"] for row in rows)
    yield (
        f"caption-bert, {len(rows)} masked pairs of SNLI test sentences"
        f" ({', '.join(f'{count} {mask}' for mask, count in masks.items())}), 32 samples per blank:"
        f" {np.mean(column(rows, 'forward_passes')):.0f} forward passes per pair on average, where"
        f" exact tables take 8,193. With every token written instead of samples,"
        f" {held.mean():.0%} of the estimates are within 1.96 standard errors (median"
        f" {np.median(error):.3f} bits, at most {error.max():.3f}; estimates have a median of"
        f" {np.median(estimate):.2f} bits)."
    )
    yield ""
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
    yield ""


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
    yield (
        f"antiberty, the germline heavy chain of {about['sequence'].upper()}:"
        f" {about['places']} places, {about['pairs']:,} pairs, {about['forward_passes']:,} forward"
        f" passes in {about['seconds'] / 60:.1f} minutes ({about['threads']} thread, on a shared"
        " machine). All twenty amino acids are written at every place and read at all others."
    )
    yield ""
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
    yield ""
    strongest = ", ".join(f"{a} - {b}" for a, b, _ in corrected["top_apart"][:10])
    yield f"The strongest at least six places apart, corrected: {strongest}."
    yield ""
    yield (
        "Notebooks centre the Jacobian over positions too; over all pairs the rank correlation of"
        f" the two is {about['positions_centred_too']:.3f}."
    )
    yield ""
    yield "![The corrected Jacobian of the heavy chain](dependence/antibody.png)"
    yield ""


# --- filling together --------------------------------------------------------------------------


def together(rows: list[Row]) -> Iterator[str]:
    ids = [row["id"] for row in rows]
    lie = Counter(row["lie"] for row in rows)
    yield (
        f"tiny-english, {len(rows)} SNLI test sentences with 4 to 8 blanks"
        f" ({', '.join(f'{count} {name}' for name, count in lie.items())}). Log-probabilities are"
        " those of the `orders` joint, in nats per blank: the mean over all orders of up to 6"
        " blanks, over 16 of them beyond. A step is what must wait for the one before; the forward"
        " passes of a step run as one batch."
    )
    yield ""
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
    yield ""


SECTIONS: dict[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "Trees of sentences": ("trees.jsonl", trees),
    "Estimates and exact joints": ("exact.jsonl", exact),
    "An antibody": ("antibody.json", antibody),
    "Blanks that are filled together": ("together.jsonl", together),
}


def page(folder: Path) -> Iterator[str]:
    yield HEADER
    reading = json.loads((folder / "reading.json").read_text("utf-8"))
    for title, (name, section) in SECTIONS.items():
        path = folder / name
        yield f"## {title}\n"
        rows: Any = read(path) if path.suffix == ".jsonl" else json.loads(path.read_text("utf-8"))
        yield from section(rows)
        yield reading[title] + "\n"
    yield f"Made with unmask {version('unmask')}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    chosen = parser.parse_args()
    chosen.output.write_text("\n".join(page(chosen.rows)) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
