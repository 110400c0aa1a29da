"""Write docs/results/scoring.md from what benchmarks/scoring.py printed.

python benchmarks/scoring_page.py docs/results/scoring.json --output docs/results/scoring.md
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def said(spread: dict[str, float]) -> str:
    return f"{spread['median']:.3g} ({spread['min']:.3g} to {spread['max']:.3g})"


def page(runs: list[dict[str, Any]]) -> Iterator[str]:
    first = runs[0]
    yield "# What scoring pairs costs beyond its forward passes\n"
    yield f"{first['model']} (V = {first['vocabulary']:,}), 8 to 24 random tokens a text, float32,"
    yield f"{first['threads']} threads of a CPU, torch {first['torch']}. Times are taken in turns"
    yield "with what they are held against: median (least to most) of the repeats. Produced by"
    yield "`benchmarks/scoring.py`; its output is [scoring.json](scoring.json).\n"
    heads = [
        "",
        "one text: time over that of its forward passes alone",
        "many texts: rows a second over the bare trunk's",
        "peak memory above that of the forward passes",
    ]
    yield "| " + " | ".join(heads) + " |"
    yield "|---|---|---|---|"
    for run in runs:
        for method, many in run["many_texts"].items():
            one = run["one_text"][method]
            above = max(item["above_forward_bytes"] for item in run["memory"][method]) / 1e6
            few, count = f"{one['rows']} rows", f"{many['texts']:,} texts, {many['rows']:,} rows"
            yield (
                f"| `{method}` | {said(one['ratio'])}; {few} "
                f"| {said(many['of_trunk'])}; {count} | {above:.0f} MB |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of scoring results.")
    parser.add_argument("found", type=Path)
    parser.add_argument("--output", type=Path, default=Path("docs/results/scoring.md"))
    chosen = parser.parse_args()
    found = json.loads(chosen.found.read_text(encoding="utf-8"))
    chosen.output.write_text("\n".join(page(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
