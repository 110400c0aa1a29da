"""A landscape of mutations as a picture: what pairs do together, and what more mutations do."""

import math
import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.plots import heat_map, panels
from unmask.plots.fonts import drawing
from unmask.plots.saving import library
from unmask.plots.styles import NORMAL, SMALL, style_of
from unmask.plots.tokens import model_label, signed
from unmask.printable import printable
from unmask.sequences.landscapes import Landscape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# nats: less is the rounding of mutations that add up, and gets no strong colours
_LEAST = 0.1
# in inches: the panel of all combinations, what is around the cells, the lowest picture
_RIGHT, _AROUND_WIDTH, _AROUND_HEIGHT, _LOWEST = 3.4, 1.6, 1.0, 2.6
# of dots of one number of mutations, side by side; and dots that an SVG holds as shapes
_SPREAD, _MOST_SHAPES = 0.36, 512


def plot_landscape(landscape: Landscape, method: str | None = None) -> "Figure":
    """The mean epistasis of every two mutations, beside the log-odds of all combinations."""
    library("matplotlib.figure")
    values = landscape.of(method)
    name = next(one for one, given in landscape.log_odds.items() if given is values)
    names, cells = [str(one) for one in landscape.mutations], _triangle(landscape, name)
    title, notes = f"{len(names)} mutations by {printable(name)}", [*_notes(landscape)]
    with drawing([title, *notes, *names]) as (figure, fonts):
        wide, high = (len(names) - 1) * panels.CELL_WIDTH, (len(names) - 1) * panels.CELL_HEIGHT
        left, right = figure.subplots(1, 2, width_ratios=(max(wide, 1.0), _RIGHT))
        scale = _scale(cells)
        mesh = panels.draw_map(left, cells, scale, missing="")
        left.set_facecolor("none")
        left.spines[:].set_visible(False)
        panels.label_rows(left, names[1:], "")
        panels.label_columns(left, names[:-1], "")
        panels.draw_colour_bar(figure, mesh, [left], scale)
        _draw_combinations(right, values, style_of(name).colour)
        size = (
            _AROUND_WIDTH + panels.inches(names) + wide + _RIGHT,
            max(_LOWEST, _AROUND_HEIGHT + high),
        )
        heat_map.write_around(figure, fonts, title, notes, size)
    return figure


def _triangle(landscape: Landscape, method: str) -> Float[Tensor, "rows columns"]:
    """Cells below the diagonal: the later mutation down, the earlier across."""
    size = len(landscape.mutations)
    cells = torch.full((size - 1, size - 1), math.nan, dtype=torch.float64)
    place = {one: number for number, one in enumerate(landscape.mutations)}
    for pair in landscape.epistasis(method):
        first, second = (place[one] for one in pair.mutations)
        cells[second - 1, first] = pair.mean
    return cells


def _scale(cells: Float[Tensor, "rows columns"]) -> panels.Scale:
    most = max(_LEAST, float(cells.nan_to_num().abs().max()))
    label, decimals = "mean epistasis, nats", 1 if most >= 1 else 2
    return panels.Scale(
        "PuOr_r", -most, most, label, lambda value: signed(value, decimals, plus=True)
    )


def _draw_combinations(panel: Any, values: Float[Tensor, "..."], colour: str) -> None:
    """A dot per combination, those with as many mutations side by side in a fixed order."""
    flat = values.flatten().tolist()
    counts = [number.bit_count() for number in range(len(flat))]
    groups = [
        [value for value, made in zip(flat, counts, strict=True) if made == count]
        for count in range(values.ndim + 1)
    ]
    look = {"markersize": 3.5, "markeredgewidth": 0, "color": colour, "alpha": 0.5}
    look |= {"rasterized": True} if len(flat) > _MOST_SHAPES else {}
    for count, group in enumerate(groups):
        # the golden ratio spreads neighbours in a list evenly over the width
        shifts = [(0.618034 * place) % 1 - 0.5 for place in range(len(group))]
        across = [count + 2 * _SPREAD * shift * (len(group) > 1) for shift in shifts]
        panel.plot(across, group, "o", **look)
    medians = [statistics.median(group) for group in groups]
    panel.plot(range(len(groups)), medians, "_", markersize=16, markeredgewidth=2, color="black")
    panel.axhline(0, color="#999999", linewidth=0.8, zorder=0)
    panel.set_xlabel("number of mutations", fontsize=NORMAL)
    panel.set_ylabel("log-odds against the wild type, nats", fontsize=NORMAL)
    panel.set_xticks(range(len(groups)))
    panel.tick_params(labelsize=SMALL)
    panel.spines[["top", "right"]].set_visible(False)


def _notes(landscape: Landscape) -> Iterator[str]:
    yield (
        "Left: what two mutations do together beyond what each does alone, the mean over all "
        "combinations of the others."
    )
    yield f"Right: all {2 ** len(landscape.mutations):,} combinations, bars at their medians."
    model = model_label(landscape.model)
    yield f"Log-odds in the model {model}: what it finds usual, not a measurement."
