"""The contradictions of a model in two panels: J by distance, the spread of orders."""

import math
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from unmask.errors import UnmaskError
from unmask.markup import html_table
from unmask.plots.fonts import drawing
from unmask.plots.saving import wrapped
from unmask.plots.styles import LARGE, NORMAL, SMALL
from unmask.printable import printable
from unmask.resampling import Estimate, means
from unmask.sequences.consistency import statistics
from unmask.sequences.consistency.measuring import ORDER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unmask.sequences.consistency.result import Consistency

# distances of two blanks, in tokens, by their smallest and largest
_BINS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, math.inf))
_COLOUR, _SIZE = "#0072B2", (8.0, 3.6)


def plot_consistency(answers: "Consistency") -> "Figure":
    """J of two blanks by how far apart they are, and log-probabilities by random orders."""
    bins, gaps = by_distance(answers), deviations(answers)
    if not bins or not gaps:
        raise UnmaskError("there is nothing to draw: no text has numbers")
    model = printable(str(answers.facts.get("model")))
    with drawing([model]) as (figure, fonts):
        by_bin, by_order = figure.subplots(1, 2)
        estimates = [estimate for _, estimate, _ in bins]
        values = [estimate.value for estimate in estimates]
        # the ends of an interval may be unknown, and its value lie at an end
        ends = [(each.value - each.low, each.high - each.value) for each in estimates]
        reach = np.maximum(np.nan_to_num(ends), 0).T
        by_bin.errorbar(range(len(bins)), values, reach, color=_COLOUR, fmt="o", capsize=3)
        by_bin.set_xticks(range(len(bins)), [f"{name}\n(n={count})" for name, _, count in bins])
        by_bin.set_ylim(bottom=0)
        by_bin.set_xlabel("distance of the two blanks, in tokens", fontsize=NORMAL)
        by_bin.set_ylabel("J in bits, with 95% intervals", fontsize=NORMAL)
        by_order.hist(gaps, bins=31, color=_COLOUR)
        by_order.yaxis.get_major_locator().set_params(integer=True)
        by_order.axvline(0, color="#555555", linewidth=0.8)
        by_order.set_xlabel(
            "log-probability of a text by a random order\nminus the mean of its "
            "orders, nats per token",
            fontsize=NORMAL,
        )
        by_order.set_ylabel("texts and orders", fontsize=NORMAL)
        for panel in (by_bin, by_order):
            panel.tick_params(labelsize=SMALL)
            panel.grid(color="#DDDDDD", linewidth=0.5, axis="y")
            panel.set_axisbelow(True)
        title = f"How far {model} contradicts itself ({len(answers.numbers)} texts)"
        figure.suptitle(fonts.shown(wrapped(title, 80)), fontsize=LARGE)
        figure.set_size_inches(*_SIZE)
    return figure


def to_html(answers: "Consistency") -> str:
    """The statistics with their intervals, and the same in words, for notebooks."""
    passes = sum(row.get("forward_passes") or 0 for row in answers.rows)
    rows = [statistics.cells(statistic) for statistic in answers.statistics]
    notes = [*statistics.words(answers.statistics), f"Forward passes: {passes:,}."]
    title = f"Contradictions of {answers.facts.get('model')}"
    return html_table(title, statistics.HEAD, rows, notes)


def by_distance(answers: "Consistency") -> list[tuple[str, Estimate, int]]:
    """J of all pairs of blanks by how far apart they are: a name, a mean and a count per bin."""
    pairs, bins = [row for row in answers.rows if row.get("incompatibility") is not None], []
    for low, high in _BINS:
        if inside := [row for row in pairs if low <= row["distance"] <= high]:
            values, names = zip(
                *((row["incompatibility"], row["text_id"]) for row in inside), strict=True
            )
            (mean,) = means([values], names, answers.resampling)
            name = str(low) if low == high else f"{low}-{high}" if high < math.inf else f"{low}+"
            bins.append((name, mean, len(inside)))
    return bins


def deviations(answers: "Consistency") -> list[float]:
    """Of every text and order, how far its log-probability is from their mean, per token."""
    texts: dict[str, list[float]] = {}
    for row in (row for row in answers.rows if row["part"] == ORDER):
        texts.setdefault(row["text_id"], []).append(row["text_log_p"] / row["tokens"])
    return [log_p - fmean(logs) for logs in texts.values() for log_p in logs]
