"""Write the CSV files of docs/results/numerics.md that hold what the benchmarks printed.

    python benchmarks/pages.py

Reads docs/results/scoring.json (a list of what
benchmarks/scoring.py printed), sentences.json (what benchmarks/sentences.py printed), engine.json
(what benchmarks/run.py printed), and demo.json
(what benchmarks/demo_load.py printed). People write the page.
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


def demo_table(found: dict[str, Any]) -> Iterator[str]:
    told = found["told"]
    full = told.get("busy", 0) + told.get("queue full", 0)
    yield "| what | number |"
    yield "|---|---|"
    yield f"| answers | {told.get('answered', 0):,} |"
    yield f"| seconds until one | {_waits(found['answer_seconds'])} |"
    yield f"| left in the middle | {told.get('left', 0):,} |"
    yield f"| asked to try again in a moment | {full:,} |"
    yield f"| errors | {found['error_count']:,} |"
    before, after = found["memory_second_quarter_mb"], found["memory_end_mb"]
    yield f"| memory, middle and end | {before:,.0f} and {after:,.0f} MB |"


def _waits(seconds: dict[str, float]) -> str:
    return f"median {seconds['median']:.1f}, 90% {seconds['90%']:.1f}, most {seconds['max']:.1f}"


TABLES: dict[str, Callable[[Any], Iterator[str]]] = {
    "scoring": scoring_table,
    "sentences": sentences_table,
    "engine": engine_table,
    "demo": demo_table,
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
