"""The page of docs/results/ that shows what benchmarks/run.py printed."""

import statistics
from collections.abc import Iterator
from typing import Any

KINDS = {
    "readouts-of-trunk": "Readouts: rows per second, over those of the bare trunk",
    "elicitation-of-trunk": "Elicitation of a table: rows per second, over those of the bare trunk",
    "elicitation-over-loop": "Elicitation of a table: times faster than a straightforward loop",
    "bfloat16-over-loop": "Elicitation in bfloat16: times faster than that loop in float32",
    "bfloat16-readouts-of-trunk": "Readouts: rows per second, over those of the trunk, in bfloat16",
    "contest-of-reading": "A pass of `ag`: part of the speed at which both tables can be read",
    "flow-of-reading": "A pass of `pseudo-gibbs`: part of that speed",
    "paper-step-of-reading": "A step of `ag-paper`: part of that speed",
    "dense-over-elicitation": "All constructions and metrics, dense tables: time over elicitation",
    "streamed-over-elicitation": "All constructions and metrics, streamed: time over elicitation",
}
TERMS = """
- Readouts: from a cloze to a table of one outcome. The rows are built, the model runs, a readout a
  row is kept.
- Elicitation of a table: the same with all outcomes, so with the output layer, normalisers and
  cells.
- The bare trunk: `model.base_model` on the same ids, made beforehand, in batches of the same size
  and in inference mode.
- The loop: logits of all positions from the whole model, one position picked, log-softmax.
- Reading: the sum of all cells of both float32 tables, by the fastest of a few simple ways.
- All constructions and metrics: every method, the paper's four metrics of each, and J.
"""


# of the 12 x 12 d² products a token of a trunk of 12 layers: an output projection and feed-forward
# network, spared at all positions but one
SPARED = 9 / 144
LIMITS = """
## What limits them

The loop takes {loop:.2f} times as long as the trunk at BERT-base's size: its output layer runs at
all 16 positions. Of the 144 d² products a token of the trunk, trimming spares 9 at nearly all
tokens, so that {most:.2f} is the most that it could reach, without an output layer of its own; nine
tenths of what is left are matrix products. The projections of the first layer, which rows share,
and the queries of the last would be 4 of the 144 more.

A pass of `ag` takes some 22 float64 operations a cell, four of them to find the strongest edges,
and is bound by them rather than by memory; tables of 4,096 tokens lie in this processor's cache,
where reading is faster still."""


def engine_page(found: dict[str, Any]) -> Iterator[str]:
    machine, versions = found["machine"], found["versions"]
    yield "# How fast the engine is\n"
    yield "Ratios to what the engine cannot be faster than, or must not be slower than. Both sides"
    yield f"ran in turns in one process on {found['threads']} threads; a ratio is taken within"
    yield "a repeat, and given as median (least to most) over the repeats."
    yield f"{machine['cpu']} with {', '.join(machine['flags'])};"
    yield ", ".join(f"{name} {number}" for name, number in versions.items()) + "."
    yield f"Produced by `{command(found)}`;"
    yield "its output is [engine.json](engine.json)."
    yield TERMS
    yield "| what | on | repeats | ratio | target | |"
    yield "|---|---|---|---|---|---|"
    for one in found["comparisons"]:
        yield _row(one)
    yield from _limits({one["name"]: one for one in found["comparisons"]})
    yield from _rounding(found["rounding"])
    yield from _bandwidth(found["comparisons"])
    yield from _examples(found["comparisons"])
    if found["left_out"]:
        yield f"\nNot measured, because the models were not there: {', '.join(found['left_out'])}."


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
    if "gigabytes" in size:
        return f"V = {size['vocabulary']:,}, {size['gigabytes']:.2g} GB"
    sample = f"{size['rows']:,} rows of {size['length']} tokens"
    return f"{one['subject']}, V = {size['vocabulary']:,}, {sample}"


def _limits(by_name: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What the ratios that are hard to reach are made of."""
    of_trunk = by_name.get("elicitation-of-trunk/bert-base-random")
    of_loop = by_name.get("elicitation-over-loop/bert-base-random")
    if of_trunk is None or of_loop is None:
        return
    pairs = zip(of_loop["seconds_over"], of_trunk["seconds_over"], strict=True)
    loop = statistics.median(one / other for one, other in pairs)
    yield LIMITS.format(loop=loop, most=loop / (1 - SPARED))


def _rounding(errors: list[dict[str, Any]]) -> Iterator[str]:
    if not errors:
        return
    yield "\n## What bfloat16 does to log-probabilities\n"
    least = errors[0]["above_probability"]
    yield f"Differences to float32, over tokens with probability above {least:g}. Random weights"
    yield "give nearly uniform distributions, so that only trained models are typical.\n"
    yield "| model | contexts | cells | mean | largest |"
    yield "|---|---|---|---|---|"
    for one in errors:
        counts = f"{one['contexts']:,} | {one['cells']:,}"
        yield f"| {one['subject']} | {counts} | {one['mean']:.2g} | {one['largest']:.2g} |"


def _bandwidth(comparisons: list[dict[str, Any]]) -> Iterator[str]:
    read = [one for one in comparisons if "reader" in one]
    if not read:
        return
    yield "\n## How fast tables are read\n"
    for vocabulary in dict.fromkeys(one["size"]["vocabulary"] for one in read):
        same = [one for one in read if one["size"]["vocabulary"] == vocabulary]
        speeds = [one["read_gigabytes_per_second"] for one in same]
        ways = " or ".join(dict.fromkeys(one["reader"] for one in same))
        yield f"- V = {vocabulary:,}: {min(speeds):.3g} to {max(speeds):.3g} GB/s, by {ways}."


def _examples(comparisons: list[dict[str, Any]]) -> Iterator[str]:
    worked = [one for one in comparisons if "stages" in one]
    if worked:
        yield "\n## Where the time of an example goes\n"
    for one in worked:
        longest = sorted(one["stages"].items(), key=lambda item: -item[1])
        stages = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in longest)
        solvers = ", ".join(f"{name} {said['passes']}" for name, said in one["solvers"].items())
        yield f"- {one['name']}: {stages}. Passes: {solvers}. Elicitation: {one['elicitation']}."
