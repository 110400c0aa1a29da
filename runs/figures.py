"""Draw the figures of docs/results/figures from the CSV files of whole tables and published rows.

    python runs/figures.py [NAME ...]

NAME: forest, perplexity, passes, sketch, construction, how-it-works; all
without one. `construction` and `how-it-works` run models/tiny-english, the
others read what is published.
"""

import argparse
import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import beyond_the_paper
import numpy as np
from drawing import COLOURS, INK, STYLE

import unmask
from unmask.plots.saving import library, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
FOLDER = RESULTS / "figures"
NEAR = ("orders", "ag")
FAR = ("mlm", "hcb", "mrf", "mrf-logit")
Row = dict[str, str]


def read(name: str) -> list[Row]:
    with (RESULTS / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def blank(width: float, height: float, columns: int = 1, **options: Any) -> tuple["Figure", Any]:
    """A figure of at most 600 px, with readable letters."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, columns, **options)
    for panel in np.atleast_1d(panels):
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    return figure, panels


def logarithmic(axis: Any) -> None:
    """A logarithmic axis with a label for each power of ten, as a plain number."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def intervals(panel: Any, rows: Sequence[Row], head: str, places: Any, colour: str) -> None:
    """Points with their intervals, one below the other."""
    value, low, high = (
        np.array([float(row[name]) for row in rows])
        for name in (head, f"{head} low", f"{head} high")
    )
    panel.errorbar(
        value, places, xerr=[value - low, high - value], fmt="o", ms=3, lw=1, color=colour
    )


def forest() -> "Figure":
    """Every construction minus the default in P-NLL, on test pairs."""
    rows = read("which-joint-judgement")
    figure, panels = blank(6.2, 4.4, 2, width_ratios=(3, 2))
    kinds = dict.fromkeys(row["section"] for row in rows)
    groups = {}
    for kind in kinds:
        about = re.match(r"(\w+) .*?, ([\w-]+), .*, (\w+) blanks", kind)
        assert about is not None
        groups[kind] = (f"{about[2]}, {about[1]}", about[3])
    models = dict.fromkeys(name for name, _ in groups.values())
    colours = dict(zip(models, COLOURS, strict=True))
    for panel, methods in zip(panels, (NEAR, FAR), strict=True):
        for place, method in enumerate(methods):
            some = [row for row in rows if row["minus log-pool"] == method]
            # as far apart everywhere, around the name of the method
            heights = place + 0.072 * (np.arange(len(some)) - (len(some) - 1) / 2)
            for height, row in zip(heights, some, strict=True):
                name, blanks = groups[row["section"]]
                intervals(panel, [row], "P-NLL", [height], colours[name])
                if blanks == "Random":
                    hollow: dict[str, Any] = {"mfc": "none", "mec": colours[name], "zorder": 9}
                    panel.plot(float(row["P-NLL"]), height, "o", ms=3, **hollow)
        panel.axvline(0, color="#888888", lw=0.8)
        panel.set_yticks(range(len(methods)), methods, fontsize=8)
        panel.set_ylim(len(methods) - 0.5, -0.5)
        panel.locator_params(axis="x", nbins=5)
    for name, colour in colours.items():
        panels[1].plot([], [], "o-", ms=3, lw=1, color=colour, label=name)
    panels[1].plot([], [], "o", ms=3, mfc="none", mec=INK, label="hollow: random blanks")
    figure.legend(fontsize=7, frameon=False, ncols=4, loc="outside upper center")
    figure.supxlabel(
        "P-NLL minus that of log-pool, nats per token: above 0, log-pool is better", fontsize=9
    )
    return figure


def perplexity() -> "Figure":
    """The paper's P-PPL and ours, contiguous blanks, on a logarithmic axis."""
    rows = [row for row in read("table1-numbers") if row["blanks"] == "contiguous"]
    methods = ("mlm", "mrf-logit", "mrf", "hcb", "ag")
    shown = [row for row in rows if row["support"] == "exact" and row["construction"] in methods]
    figure, panel = blank(6.2, 3.6)
    settings = dict.fromkeys((row["model"], row["corpus"]) for row in shown)
    for setting in settings:
        by = {
            row["construction"]: float(row["P-PPL"])
            for row in shown
            if (row["model"], row["corpus"]) == setting
        }
        papers = setting[0].startswith("the paper")
        # the paper's beside ours, each setting as far from the next
        beside = -0.2 if papers else 0.2
        panel.plot(
            np.arange(len(methods)) + beside,
            [by[name] for name in methods],
            "o" if papers else "s",
            ms=4,
            color=COLOURS[1] if papers else COLOURS[0],
            alpha=0.8,
        )
    panel.plot([], [], "o", ms=4, color=COLOURS[1], label="the paper: four settings of BERT")
    panel.plot([], [], "s", ms=4, color=COLOURS[0], label="here: exact runs of four models")
    logarithmic(panel.yaxis)
    panel.set_xticks(range(len(methods)), methods, fontsize=9)
    panel.set_ylabel("P-PPL, contiguous blanks", fontsize=9)
    panel.legend(fontsize=8, frameon=False)
    return figure


def passes() -> "Figure":
    """Forward passes against P-NLL of all constructions."""
    found = {
        row["construction"]: row
        for row in read("table1-caption-bert")
        if (row["corpus"], row["mask"]) == ("SNLI test", "contiguous")
    }
    figure, panel = blank(6.2, 3.6)
    for name, how in (beyond_the_paper.PASSES | beyond_the_paper.OTHERS).items():
        count = counted(how, 4096)
        nll, low, high = (
            np.log(float(found[name][f"P-PPL{end}"])) for end in ("", " low", " high")
        )
        colour = COLOURS[0] if name == "log-pool" else COLOURS[1]
        panel.errorbar(
            count, nll, yerr=[[nll - low], [high - nll]], fmt="o", ms=4, lw=0.6, color=colour
        )
    for name, side in LABELS.items():
        count = counted(
            (beyond_the_paper.PASSES | beyond_the_paper.OTHERS)[name.split(",")[0]], 4096
        )
        nll = np.log(float(found[name.split(",")[0]]["P-PPL"]))
        panel.annotate(name, (count, nll), xytext=side, textcoords="offset points", fontsize=8)
    logarithmic(panel.xaxis)
    panel.set_xlim(0.5, 60_000)
    panel.set_xlabel("forward passes for a pair of blanks, vocabulary of 4,096", fontsize=9)
    panel.set_ylabel("P-NLL, nats per token", fontsize=9)
    return figure


# where a name stands beside its point
LABELS = {
    "mlm": (6, -3),
    "orders": (6, -9),
    "hcb": (-26, -3),
    "mrf": (6, -3),
    "mrf-logit": (6, -3),
    "log-pool, ag": (-64, -24),
}


def counted(how: str, vocabulary: int) -> int:
    """The number that stands for "2V + 1" or "3 per pair"."""
    found = re.fullmatch(r"(?:(\d*)(V)(?: \+ )?)?(\d*)(?: per pair)?", how)
    assert found is not None
    times, tables, more = found.groups()
    return (int(times or 1) * vocabulary if tables else 0) + int(more or 0)


def sketch() -> "Figure":
    """Estimates minus exact numbers, a line per pair of blanks, with two stated standard errors."""
    lines = (RESULTS / "sketch.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [
        row
        for row in map(json.loads, lines)
        if row["source"].startswith("tiny-english")
        and (row["estimator"], row["kind"], row["seed"]) == ("both tables", "default", 0)
    ]
    shown = {
        "ten": "log p of the likeliest fill, nats",
        "incompatibility": "J, bits",
        "mutual_information": "mutual information, nats",
    }
    figure, panels = blank(6.4, 3.4, 3)
    for panel, (name, label) in zip(panels, shown.items(), strict=True):
        errors = np.array([row["numbers"][name][0] for row in rows])
        value, stated = errors[np.argsort(errors[:, 0])].T
        outside = np.abs(value) > 2 * stated
        for places, colour in (
            (np.flatnonzero(~outside), COLOURS[0]),
            (np.flatnonzero(outside), COLOURS[1]),
        ):
            panel.errorbar(
                value[places],
                places,
                xerr=2 * stated[places],
                fmt="o",
                ms=1.5,
                lw=0.5,
                color=colour,
            )
        panel.axvline(0, color="#888888", lw=0.8)
        panel.set_title(f"{label}\n{np.mean(~outside):.0%} hold the exact number", fontsize=8)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
    figure.supxlabel(
        f"estimate minus exact, two standard errors; {len(rows)} pairs, a line each", fontsize=9
    )
    return figure


def construction() -> "Figure":
    """A text, its two tables of conditionals and the joint, over a few words."""
    lm = unmask.load(ROOT / "models" / "tiny-english")
    words = (["man", "people", "men", "woman"], ["is", "are", "was", "were"])
    quiet = unmask.Settings(progress=False, announce=False)
    tables = lm.tables(
        "The [MASK] [MASK] at the casino.", support=dict(enumerate(words)), settings=quiet
    )
    a_given_b = tables.a_given_b.log_prob(slice(0, 4)).exp()
    b_given_a = tables.b_given_a.log_prob(slice(0, 4)).exp()
    joint = unmask.construct("log-pool", tables).log_rows(slice(0, 4)).exp()
    figure, panels = blank(6.4, 2.7, 3)
    titles = (
        "p(first | second)\ncolumns add up to 1",
        "p(second | first)\nrows add up to 1",
        "the joint\nall cells add up to 1",
    )
    for panel, title, cells in zip(panels, titles, (a_given_b, b_given_a, joint), strict=True):
        values = cells.numpy()
        panel.imshow(values, cmap="Purples", vmin=0, vmax=1 if panel is not panels[2] else None)
        for (row, column), value in np.ndenumerate(values):
            dark = value > 0.6 * (1 if panel is not panels[2] else values.max())
            panel.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )
        panel.set_xticks(range(4), words[1], fontsize=8)
        panel.set_yticks(range(4), words[0], fontsize=8)
        panel.set_title(title, fontsize=8)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
    figure.suptitle("The ___ ___ at the casino.", fontsize=10)
    return figure


DIAGRAM = "how-it-works"
WORDS = (("people", "man", "men"), ("are", "is"))


def how_it_works() -> str:
    """A text, its two tables of conditionals and the joint, as SVG without a background."""
    lm = unmask.load(ROOT / "models" / "tiny-english")
    quiet = unmask.Settings(progress=False, announce=False)
    joint = lm.joint("The [MASK] [MASK] at the casino.", settings=quiet)
    first, second = WORDS
    given_second = [
        [joint_share(lm, f"The [MASK] {b} at the casino.", a, quiet) for b in second] for a in first
    ]
    given_first = [
        [joint_share(lm, f"The {a} [MASK] at the casino.", b, quiet) for b in second] for a in first
    ]
    together = [[math.exp(joint.log_prob(a, b)) for b in second] for a in first]
    parts = [
        label(110, 128, "The ▢ ▢ at the casino.", 17),
        label(110, 152, "a text with two blanks", 12),
        arrow(205, 112, 262, 80),
        arrow(205, 140, 262, 190),
        *grid(330, 40, "p(first | second)", given_second, COLOURS[1], 0.15),
        *grid(330, 170, "p(second | first)", given_first, COLOURS[1], 0.7),
        arrow(452, 80, 512, 112),
        arrow(452, 190, 512, 140),
        *grid(580, 100, "joint: p(first, second)", together, "#5b7fd6", 0.17),
    ]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 270" width="720" height="270" '
        'font-family="system-ui, sans-serif" role="img">\n'
        "<title>a text, its two tables of conditional probabilities, and the joint</title>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{INK}"/></marker></defs>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def joint_share(lm: unmask.LanguageModel, text: str, word: str, quiet: unmask.Settings) -> float:
    """The probability of a word in the one blank of a text."""
    return math.exp(lm.joint(text, settings=quiet).log_prob(word))


def grid(
    left: int, top: int, title: str, values: list[list[float]], colour: str, full: float
) -> list[str]:
    """A table of percentages on opaque tiles, each as dark as its value is large."""
    parts = [label(left + 56, top - 18, title, 13)]
    parts += [label(left + 28 + 56 * at, top - 2, word, 12) for at, word in enumerate(WORDS[1])]
    for row, word in enumerate(WORDS[0]):
        y = top + 4 + 24 * row
        parts.append(label(left - 6, y + 16, word, 12, "end"))
        for column, value in enumerate(values[row]):
            shade = 0.06 + 0.6 * min(1.0, value / full)
            tile = f'x="{left + 56 * column}" y="{y}" width="54" height="22" rx="3"'
            parts.append(f'<rect {tile} fill="#fff"/>')
            parts.append(f'<rect {tile} fill="{colour}" fill-opacity="{shade:.2f}"/>')
            number = f"{100 * value:.1f}%"
            parts.append(label(left + 27 + 56 * column, y + 16, number, 12, ink="#222"))
    return parts


def label(x: int, y: int, text: str, size: int, anchor: str = "middle", *, ink: str = INK) -> str:
    place = f'x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {place} fill="{ink}">{text}</text>'


def arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    return (
        f'<path d="M{x} {y} {to_x} {to_y}" stroke="{INK}" stroke-width="1.5" '
        'marker-end="url(#tip)" fill="none"/>'
    )


FIGURES: dict[str, Callable[[], "Figure"]] = {
    one.__name__: one
    for one in (
        forest,
        perplexity,
        passes,
        sketch,
        construction,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description="The figures of docs/results/figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*FIGURES, DIAGRAM]))
    chosen = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name in chosen.names or [*FIGURES, DIAGRAM]:
        if name == DIAGRAM:
            place = ROOT / "docs" / "figures" / f"{name}.svg"
            place.write_text(how_it_works(), encoding="utf-8")
            continue
        with library("matplotlib").rc_context(STYLE):
            save_figure(FIGURES[name](), FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
