"""Write the CSV files of docs/results/numerics.md that hold what the benchmarks printed.

    python benchmarks/pages.py

Reads docs/results/scoring.json (a list of what benchmarks/scoring.py printed), sentences.json (what
benchmarks/sentences.py printed) and engine.json (what benchmarks/run.py printed). People write the
page.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine_page import engine_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGE = RESULTS / "numerics.md"
sys.path.insert(0, str(ROOT / "runs"))

import marked_page  # noqa: E402


def said(spread: dict[str, float]) -> str:
    return f"{spread['median']:.3g} ({spread['min']:.3g} to {spread['max']:.3g})"


def scoring_table(runs: list[dict[str, Any]]) -> Iterator[str]:
    heads = [
        "",
        "one text: time over that of its forward passes alone",
        "many texts: rows per second over the bare trunk's",
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


def sentences_table(runs: list[dict[str, Any]]) -> Iterator[str]:
    yield "| | rows | rows per second | rows per second over the bare trunk's |"
    yield "|---|---|---|---|"
    for run in runs:
        rate, part = run["rows_per_second"], said(run["of_trunk"])
        seconds = f"{rate['median']:,.0f} ({rate['min']:,.0f} to {rate['max']:,.0f})"
        yield f"| `{run['method']}` | {run['rows']:,} | {seconds} | {part} |"


TABLES: dict[str, Callable[[Any], Iterator[str]]] = {
    "scoring": scoring_table,
    "sentences": sentences_table,
    "engine": engine_table,
}


def tables() -> dict[str, list[str]]:
    """Whole tables by the name of their JSON."""
    return {
        name: list(table(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))))
        for name, table in TABLES.items()
    }


def main() -> None:
    marked_page.write_blocks(PAGE, {}, tables())


if __name__ == "__main__":
    main()
