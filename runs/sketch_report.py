"""Write docs/results/sketch.md and its figure from the rows that runs/sketch.py measured.

python runs/sketch_report.py --rows docs/results/sketch.jsonl --output docs/results/sketch.md
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]

HEADER = """\
# Sketches against exact joints

Two blanks over a whole vocabulary by default: the likeliest contexts and a weighted sample of the
others ([decision](../decisions/0019-a-sketch-by-default.md)) instead of all of them. Here both
are held against each other, pair by pair: `runs/sketch.py exact` computed the exact joints,
`runs/sketch.py sketch` the sketches, and `runs/sketch_report.py` this page from their rows, which
hold example ids and no text ([rows](sketch.jsonl)). caption-bert: masked pairs of SNLI test
sentences, the first in hashed order. albert-tiny-chinese: texts of the script, two adjacent
characters each, as many as there was time for exactly. How contexts are proposed and drawn, and
how much error bars are widened, was chosen on pairs of SNLI *dev* sentences.

*Found*: the part of the exact ten likeliest pairs that are among the sketch's ten. *log p off*:
the mean absolute difference of their log-probabilities, in nats. *P-NLL*, *U-NLL*: sketch less
exact, nats per token, with the 95% interval of the mean; *absolute*: the mean of absolute
differences. Under *error bars*, how often two stated standard errors hold the exact number.

These rows were measured before the stationary law used both tables, before entropies used whole
rows and with other error bars and another rule of stopping. They have not been measured again.
"""

FOOTER = """\
## What limits it

- Where mass is spread over many tokens and pairs of them are locked, as between the characters of
  Chinese words, a fixed number of passes sees too little of it: a thousand do not find all of the
  ten likeliest pairs there, and their log-probabilities are off by a tenth or more.
- With a precision instead of a number of passes the sketch grows, but it stops where its error bar
  is small, and so more often where that is too small: it holds a little less often than it should.
- A pair that nothing hints at, neither the masked text nor a context that was run, is missed
  without a sign. `tests/queries/test_sketch.py` has such tables.
- `hcb` is rejected for these figures: between adjacent blanks it found nine of the ten likeliest
  pairs, and its error bars were too short. `mrf`, `mrf-logit`, `ag`, `ag-paper` and `weighted-ag`
  cannot be had so either.
- In these rows the mutual information is estimated too low more often than its error bar says.
"""


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    parts = [
        HEADER,
        "## By passes\n",
        _table(*_accuracy(rows)),
        "![errors by passes](sketch.svg)\n",
    ]
    parts += ["## Error bars\n", _table(*_coverage(rows))]
    parts += [
        "## How many passes the default precision takes\n",
        _SIZES,
        _table(*_sizes(rows)),
        FOOTER,
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


_SIZES = """\
Contexts: how many tokens carry 99% of the mass of a blank, the mean of both. The number of passes
follows these, not the vocabulary. Where the exact joint was not computed they are the sketch's
own estimate.
"""


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def _groups(rows: Sequence[Row], *keys: str) -> Iterator[tuple[tuple[str, ...], list[Row]]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(str(row[key]) for key in keys), []).append(row)
    yield from found.items()


def _interval(values: Sequence[float]) -> str:
    mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:+.4f} [{mean - 1.96 * error:+.4f}, {mean + 1.96 * error:+.4f}]"


def _accuracy(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["pairs", "method", "sketch", "n", "passes", "found", "log p off"]
    heads += ["P-NLL", "absolute", "U-NLL", "absolute"]
    lines = []
    compared = [row for row in rows if "found" in row]
    for (source, method, kind), mine in sorted(
        _groups(compared, "source", "method", "kind"), key=lambda one: _order(one[0])
    ):
        if len(mine) < 2:
            continue
        pairwise, unary = ([row[f"{m}_nll_off"] for row in mine] for m in ("pairwise", "unary"))
        lines.append(
            [
                source,
                method,
                kind,
                str(len(mine)),
                f"{np.mean([row['forward_passes'] for row in mine]):,.0f}",
                f"{np.mean([row['found'] for row in mine]):.3f}",
                f"{np.mean([row['log_prob_off'] for row in mine]):.3f}",
                _interval(pairwise),
                f"{np.mean(np.abs(pairwise)):.4f}",
                _interval(unary),
                f"{np.mean(np.abs(unary)):.4f}",
            ]
        )
    return heads, lines


def _order(key: tuple[str, ...]) -> tuple[object, ...]:
    source, method, kind = key
    first = kind.split()[0]
    return source, method != "log-pool", method, int(first) if first.isdigit() else 10**6


def _coverage(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["pairs", "sketch", "n", "likeliest pair", "P-NLL", "U-NLL", "entropy", "information"]
    names = ("best", "pairwise_nll", "unary_nll", "entropy", "mutual_information")
    lines = []
    compared = [row for row in rows if "found" in row and row["method"] == "log-pool"]
    for (source, _, kind), mine in sorted(
        _groups(compared, "source", "method", "kind"), key=lambda one: _order(one[0])
    ):
        held = [
            np.mean([abs(row[f"{name}_off"]) <= 2 * row[f"{name}_error"] + 1e-6 for row in mine])
            for name in names
        ]
        lines.append([source, kind, str(len(mine)), *(f"{part:.2f}" for part in held)])
    return heads, lines


def _sizes(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["pairs", "vocabulary", "n", "passes: median", "least", "most", "precision reached"]
    heads += ["contexts: median", "least", "most"]
    lines = []
    chosen = [r for r in rows if r["kind"].startswith("precision") and r["method"] == "log-pool"]
    for (source,), mine in _groups(chosen, "source"):
        passes = [row["forward_passes"] for row in mine]
        contexts = [np.mean(row["contexts"]) for row in mine]
        lines.append(
            [
                source,
                f"{mine[0]['vocabulary']:,}",
                str(len(mine)),
                *(f"{f(passes):,.0f}" for f in (np.median, np.min, np.max)),
                f"{np.mean([row['precision_reached'] for row in mine]):.2f}",
                *(f"{f(contexts):,.0f}" for f in (np.median, np.min, np.max)),
            ]
        )
    return heads, lines


def draw(rows: Sequence[Row], place: Path) -> None:
    """Mean absolute errors of `log-pool` by forward passes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.8), layout="constrained")
    wanted = {"log_prob_off": "log p of the ten likeliest", "pairwise_nll_off": "P-NLL per token"}
    for panel, (name, title) in zip(figure.subplots(1, 2), wanted.items(), strict=True):
        compared = [r for r in rows if r["kind"].endswith("passes") and r["method"] == "log-pool"]
        for (source,), mine in _groups(compared, "source"):
            points = sorted(
                (int(passes), float(np.mean([abs(row[name]) for row in some])))
                for (passes,), some in _groups(mine, "forward_passes")
                if len(some) > 1
            )
            panel.plot(*zip(*points, strict=True), marker="o", label=source)
        panel.set(xscale="log", yscale="log", title=title, xlabel="forward passes")
        panel.set_ylabel("mean absolute error, nats")
    panel.legend(fontsize=7)
    figure.savefig(place, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    rows = read(chosen.rows)
    draw(rows, chosen.output.with_suffix(".svg"))
    chosen.output.write_text(page(rows))


if __name__ == "__main__":
    main()
