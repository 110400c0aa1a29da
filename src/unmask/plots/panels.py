"""One heat map in one panel: its colours, the texts of its cells, and the bars at its sides."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.plots.saving import library
from unmask.plots.styles import NORMAL, SMALL
from unmask.plots.tokens import signed
from unmask.printable import width

# of a cell, in inches
CELL_WIDTH, CELL_HEIGHT = 0.4, 0.27
# less than this is the rounding of independent blanks, and gets no strong colours
_LEAST_PMI = 0.1
# decimals of a percentage beyond which it does not fit into its cell
_MOST_DECIMALS = 3
_LONGEST_UPRIGHT = 4
# of a cell that has no colour of the scale
NO_VALUE = "#DDDDDD"


@dataclass(frozen=True)
class Scale:
    """The colours of values, and the numbers in cells."""

    colours: str
    low: float
    high: float
    label: str
    written: Callable[[float], str]
    in_percent: bool = False


def scale_of(kind: str, values: Sequence[Tensor]) -> Scale:
    """One scale for all these maps: from 0 for probabilities, symmetric around 0 for PMI."""
    every = torch.cat([cells.reshape(-1) for cells in values])
    most = max((abs(x) for x in every.tolist() if math.isfinite(x)), default=0.0)
    if kind == "pmi":
        most = max(most, _LEAST_PMI)
        return Scale("PuOr_r", -most, most, "PMI, nats", lambda nats: signed(nats, 1, plus=True))
    label, written = "probability of the pair", percent_writer(most)
    return Scale("YlGnBu", 0.0, most or 1.0, label, written, in_percent=True)


def percent_writer(most: float) -> Callable[[float], str]:
    """Percentages with as many decimals as the largest needs; nothing where they round to 0."""
    decimals = max(1, 1 - math.floor(math.log10(100 * most))) if most > 0 else 1

    def written(probability: float) -> str:
        text = f"{100 * probability:.{decimals}f}"
        return text if decimals <= _MOST_DECIMALS and float(text) else ""

    return written


def draw_map(
    panel: Any,
    values: Float[Tensor, "rows columns"],
    scale: Scale,
    *,
    missing: str = "never",
    numbers: bool = True,
) -> Any:
    """The cells, with their numbers or `missing`; returns what a colour bar is drawn of.

    Without `numbers` cells are small, and an image of their own in an SVG.
    """
    rows, columns = values.shape
    edges = [[place - 0.5 for place in range(count + 1)] for count in (columns, rows)]
    cell_style = {"edgecolors": "white", "linewidth": 0.5} if numbers else {"rasterized": True}
    colours = {"cmap": scale.colours, "vmin": scale.low, "vmax": scale.high}
    mesh = panel.pcolormesh(*edges, values.numpy(), **colours, **cell_style)
    # a pair that cannot be has no colour of the scale
    panel.set_facecolor(NO_VALUE)
    panel.set_ylim(rows - 0.5, -0.5)
    if not numbers:
        panel.tick_params(length=2, width=0.5)
        return mesh
    for row, line in enumerate(values.tolist()):
        for column, value in enumerate(line):
            text, ink = missing, "black"
            if math.isfinite(value):
                text, ink = scale.written(value), _ink(mesh, value)
            if text:
                panel.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=ink)
    panel.tick_params(length=0)
    return mesh


def label_rows(panel: Any, labels: Sequence[str], name: str) -> None:
    """Tokens of blank 0 beside the cells."""
    panel.set_yticks(range(len(labels)), labels, fontsize=NORMAL)
    panel.set_ylabel(name, fontsize=NORMAL)


def label_columns(panel: Any, labels: Sequence[str], name: str, *, angle: int = 45) -> None:
    """Tokens of blank 1 below the cells, turned where they are too long for them."""
    turned: dict[str, Any] = {}
    if are_turned(labels):
        va = "top" if angle < 90 else "center"
        turned = {"rotation": angle, "ha": "right", "va": va, "rotation_mode": "anchor"}
    panel.set_xticks(range(len(labels)), labels, fontsize=NORMAL, **turned)
    panel.set_xlabel(name, fontsize=NORMAL)


def are_turned(labels: Sequence[str]) -> bool:
    """True if labels of columns are too long to fit side by side."""
    return max(map(width, labels)) > _LONGEST_UPRIGHT


def inches(labels: Sequence[str]) -> float:
    """About how much room the longest of these labels takes."""
    return 0.075 * max(map(width, labels)) + 0.1


def draw_bars(panel: Any, values: Sequence[float], colour: str, *, horizontal: bool) -> None:
    """Probabilities as bars, their percentages at the ends."""
    draw = panel.barh if horizontal else panel.bar
    bars = draw(range(len(values)), values, 0.75, color=colour)
    written = percent_writer(max(values))
    panel.bar_label(bars, [written(value) for value in values], fontsize=SMALL, padding=2)
    # room for the numbers
    (panel.set_xlim if horizontal else panel.set_ylim)(0, (max(values) or 1.0) * 1.3)
    panel.set(**{"xticks" if horizontal else "yticks": []})
    panel.tick_params(length=0)
    panel.spines[["top", "right", "bottom" if horizontal else "left"]].set_visible(False)


def draw_colour_bar(figure: Any, mesh: Any, panels: Any, scale: Scale) -> None:
    """Colour bar at the right of the panels."""
    bar = figure.colorbar(mesh, ax=panels, location="right", aspect=30, pad=0.02)
    bar.set_label(scale.label, fontsize=NORMAL)
    bar.ax.tick_params(labelsize=SMALL)
    # hairlines between the colours otherwise
    bar.solids.set_edgecolor("face")
    if scale.in_percent:
        bar.ax.yaxis.set_major_formatter(library("matplotlib.ticker").PercentFormatter(1))


def _ink(mesh: Any, value: float) -> str:
    """White on dark cells, by their relative luminance."""
    red, green, blue, _ = mesh.cmap(mesh.norm(value))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "white"
