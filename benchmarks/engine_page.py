"""The table of what benchmarks/run.py printed."""

from collections.abc import Iterator
from typing import Any

KINDS = {
    "readouts-of-trunk": "Readouts: rows per second, over those of the bare trunk",
    "elicitation-of-trunk": "Elicitation of a table: rows per second, over those of the bare trunk",
    "elicitation-over-loop": "Elicitation of a table: times faster than a straightforward loop",
    "bfloat16-over-loop": "Elicitation in bfloat16: times faster than that loop in float32",
    "bfloat16-readouts-of-trunk": "Readouts: rows per second, over those of the trunk, in bfloat16",
    "dense-over-elicitation": "All constructions and metrics, dense tables: time over elicitation",
}


def engine_table(found: dict[str, Any]) -> Iterator[str]:
    """The ratios, with their targets."""
    yield f"## {command(found)}"
    yield "| what | on | repeats | ratio | target | outcome |"
    yield "|---|---|---|---|---|---|"
    for one in found["comparisons"]:
        yield _row(one)


def command(found: dict[str, Any]) -> str:
    how = "" if found["plan"] == "full" else f" --{found['plan']}"
    sizes = f"--repeats {found['repeats']} --threads {found['threads']}"
    return f"python benchmarks/run.py --json{how} {sizes}"


def _row(one: dict[str, Any]) -> str:
    ratio = "{median:.3g} ({min:.3g} to {max:.3g})".format(**one["ratio"])
    aim, outcome = "", ""
    if one["target"]:
        side = "at least" if one["target"]["at_least"] else "at most"
        aim, outcome = f"{side} {one['target']['value']:g}", "met" if one["met"] else "missed"
    what, repeats = KINDS[one["kind"]], len(one["seconds_under"])
    return f"| {what} | {_subject(one)} | {repeats} | {ratio} | {aim} | {outcome} |"


def _subject(one: dict[str, Any]) -> str:
    size = one["size"]
    sample = f"{size['rows']:,} rows of {size['length']} tokens"
    return f"{one['subject']}, V = {size['vocabulary']:,}, {sample}"
