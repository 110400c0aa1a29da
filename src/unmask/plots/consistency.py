"""How far a model contradicts itself, in two panels: J by distance, the spread of orders."""

from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.errors import UnmaskError
from unmask.plots.fonts import drawing
from unmask.plots.saving import wrapped
from unmask.plots.styles import LARGE, NORMAL, SMALL
from unmask.printable import printable
from unmask.resampling import Estimate
from unmask.sequences.consistency.statistics import by_distance, deviations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unmask.sequences.consistency.result import Consistency

_COLOUR, _SIZE = "#0072B2", (8.0, 3.4)


def plot_consistency(answers: "Consistency") -> "Figure":
    """J of two blanks by how far apart they are, and log-probabilities by random orders."""
    bins = by_distance(answers.answers, answers.resampling)
    gaps = deviations(answers.answers)
    if not bins or not len(gaps):
        raise UnmaskError("there is nothing to draw: no text has numbers")
    model = printable(str(answers.facts.get("model")))
    with drawing([model]) as (figure, fonts):
        first, second = figure.subplots(1, 2)
        _distances(first, bins)
        _orders(second, gaps)
        for panel in (first, second):
            panel.tick_params(labelsize=SMALL)
            panel.grid(color="#DDDDDD", linewidth=0.5, axis="y")
            panel.set_axisbelow(True)
        title = f"How far {model} contradicts itself ({len(answers.answers)} texts)"
        figure.suptitle(fonts.shown(wrapped(title, 80)), fontsize=LARGE)
        figure.set_size_inches(*_SIZE)
    return figure


def _distances(panel: Any, bins: list[tuple[str, Estimate, int]]) -> None:
    values = [one.value for _, one, _ in bins]
    # the ends of an interval may be unknown, and its value lie at an end
    below = [np.nan_to_num(max(0.0, one.value - one.low)) for _, one, _ in bins]
    above = [np.nan_to_num(max(0.0, one.high - one.value)) for _, one, _ in bins]
    panel.errorbar(
        range(len(bins)), values, [below, above], color=_COLOUR, marker="o", capsize=3, linewidth=1
    )
    panel.set_xticks(range(len(bins)), [f"{name}\n(n={count})" for name, _, count in bins])
    panel.set_ylim(bottom=0)
    panel.set_xlabel("distance of the two blanks, in tokens", fontsize=NORMAL)
    panel.set_ylabel("J, bits; bars: 95%", fontsize=NORMAL)


def _orders(panel: Any, gaps: Any) -> None:
    panel.hist(gaps, bins=31, color=_COLOUR)
    panel.axvline(0, color="#555555", linewidth=0.8)
    panel.set_xlabel(
        "log p of a text by a random order,\nless its mean, nats per token", fontsize=NORMAL
    )
    panel.set_ylabel("orders", fontsize=NORMAL)
