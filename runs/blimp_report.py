"""Write a page as docs/results/blimp-tiny-english.md from the rows that runs/blimp.sh measured.

    python runs/blimp_report.py --rows FOLDER --output FILE

The folder has files of rows as `unmask score --blimp ... --output` writes them, all of one model.
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import unmask
from unmask.markup import markdown
from unmask.printable import printable, quoted
from unmask.resampling import means
from unmask.sequences.minimal_pairs import Accuracy, Verdict, accuracies, accuracy

Row = dict[str, Any]
# the rows of a method by the ids of their pairs
ByMethod = dict[str, dict[str, Row]]

PATH = "hcb-path"
# how many standard errors from 0 a log-ratio has to be for its sign to count as settled
SETTLED = 2.0
# pairs of each paradigm where time allows
USUAL = 100

HEADER = """
[BLiMP](https://github.com/alexwarstadt/blimp) (Warstadt et al. 2020) has 67 paradigms of 1,000
pairs of sentences that differ in little, one of them acceptable. A method is right where it
prefers that one; a tie counts half.
"""
MEANINGS = {
    "pll": "- `pll`: difference of pseudo-log-likelihoods (Salazar et al. 2020).",
    "pll-word-l2r": """\
- `pll-word-l2r`: the same, with the later pieces of a token's word masked too (Kauf & Ivanova
  2023).""",
    PATH: "- `hcb-path`: log-ratio along the tokens that differ, averaged over at most 8 orders.",
    "unmasking left-to-right": """\
- `unmasking left-to-right`: difference of log-probabilities, each token given those before it and
  the number of those after it.""",
    "unmasking surest": """\
- `unmasking surest`: the same, next being the place where the likeliest token is most probable.""",
    "unmasking margin": """\
- `unmasking margin`: the same, next being the place with the largest margin between the likeliest
  token and the second.""",
}
# what a model has read, as far as it bears on these pairs
MODELS = {
    "caption-bert": """\
caption-bert has read captions of pictures only, and hardly met most of these constructions: near
one half it does not know.""",
    "tiny-english": """\
tiny-english has 5.4 million parameters, and has read captions of pictures, short sentences and
some of Wikipedia, with few of their tokens masked: nearly empty texts are new to it.""",
}
EXPLAINED = """
Log-ratios along paths compare sentences with equally many tokens only. Differences of scores and of
log-probabilities compare all, as is the custom, though numbers of texts with different numbers of
tokens are hardly comparable. So accuracies by all pairs are of different pairs: compare methods by
the tables of common pairs and of differences.

The accuracy of one paradigm has Wilson's interval. Over several paradigms it is the mean of theirs,
each counting the same, and the interval is put together from theirs, paradigms held fixed (MOVER,
Zou & Donner 2008). Differences are means over paradigms too; their intervals are percentiles of
10,000 resamples of the paradigms. All are of 95%. **Bold**: a difference whose interval excludes
zero.
"""


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


def page(rows: list[Row], name: str = "blimp") -> Iterator[str]:
    found = by_method(rows)
    first = next(iter(found.values()))
    counts = accuracies(verdicts(list(first.values())))
    sizes = sorted({one.pairs for one in counts.values()})
    yield f"# BLiMP with {markdown(rows[0]['model'])}"
    yield HEADER
    yield from (MEANINGS[method] for method in found if method in MEANINGS)
    yield EXPLAINED
    each = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    yield f"Measured by `PAIRS={sizes[-1]} runs/blimp.sh`."
    yield f"Model: {markdown(rows[0]['model'])}. {len(counts)} paradigms of {each} pairs each, the"
    yield "first in the hashed order of their ids, so a random part where not all. One small model:"
    yield "the tables are about methods, not about how good models can be."
    if sizes[-1] < USUAL:
        yield f"Fewer pairs than the {USUAL} per paradigm of [the older page](blimp.md), to save"
        yield "time."
    yield from (MODELS[model] for model in [rows[0]["model"]] if model in MODELS)
    yield f"Every pair with its log-ratios is in [{name}.csv]({name}.csv).\n"
    yield from overall_table(found)
    yield "\n## Differences between methods\n"
    yield from difference_table(found)
    if PATH in found:
        yield "\n## How sure the paths are\n"
        yield "Orders of a path differ where the model's conditionals contradict each other. The"
        yield "standard error is that of their mean, as if they were a sample of many; pairs with"
        yield "two or three places that differ have all their orders in it.\n"
        yield from spread_table(list(found[PATH].values()))
    yield "\n## By field\n"
    yield from group_table(found, "field", "field")
    yield "\n## By phenomenon\n"
    yield from group_table(found, "linguistics_term", "phenomenon")
    yield "\n## By paradigm\n"
    yield f"The accuracies of all paradigms are in [{name}-paradigms.csv]({name}-paradigms.csv)."
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "transformers"))
    yield f"\nMade with unmask {unmask.__version__}, {versions}, float32, on a CPU."


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


def main() -> int:
    parser = argparse.ArgumentParser(description="The page on BLiMP from measured rows.")
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    try:
        text = "\n".join(page(read(chosen.rows), chosen.output.stem)) + "\n"
        chosen.output.write_text(text, encoding="utf-8")
        rows = read(chosen.rows)
        for made, ending in ((table, ""), (paradigms, "-paradigms")):
            lines = [",".join(cells) for cells in made(rows)]
            place = chosen.output.with_name(f"{chosen.output.stem}{ending}.csv")
            place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except (unmask.UnmaskError, OSError) as error:
        print(f"blimp: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
