"""The dependence between places of a text, as a picture: a heat map, or arcs over the text."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import whole_number
from unmask.errors import UnmaskError
from unmask.markup import html_table
from unmask.names import MEASURES
from unmask.plots import heat_map, panels, tokens
from unmask.plots.fonts import drawing
from unmask.plots.styles import LARGE, SMALL
from unmask.printable import quoted, width
from unmask.queries.dependence.dependence_map import DependenceMap, Edge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# more cells have no room for numbers, and become an image of their own in an SVG
_MOST_NUMBERS = 16
# in inches: a cell without a number, at most; a map of many places; the room of a label
_CELL, _LARGEST, _LABEL = 0.27, 7.5, 0.13
_AROUND_WIDTH, _AROUND_HEIGHT = 1.3, 0.6
_LONGEST_TITLE = 140
# bits or nats: less is the rounding of independent places, and gets no strong colours
_LEAST = 0.01
# a sentence; residues are a map
_MOST_WORDS = 60
# in inches: of a letter, between words, the highest arc, the line of the text
_LETTER, _GAP, _HIGHEST, _LINE = 0.085, 0.16, 2.2, 0.24
# of an arc, its height over half its width; and inches in which the notes have a line each
_STEEPEST, _NARROWEST = 0.7, 6.5
_FOUND, _OTHER = "#332288", "#999999"


def plot_map(dependence: DependenceMap) -> "Figure":
    """Every two places against each other; pairs without a number have no colour of the scale."""
    names = [tokens.label(place.name) for place in dependence.places]
    text, scale = quoted(dependence.text, limit=_LONGEST_TITLE)[1:-1], _scale(dependence)
    notes = [*_notes(dependence)]
    with drawing([text, *notes, *names]) as (figure, fonts):
        labels = [*map(fonts.shown_label, names)]
        panel: Any = figure.subplots()
        mesh, cell = _draw_cells(panel, dependence, scale)
        _label(panel, labels, cell[1])
        panels.draw_colour_bar(figure, mesh, [panel], scale)
        room = panels.inches(labels)
        wide, high = (len(labels) * side for side in cell)
        size = (_AROUND_WIDTH + room + wide, _AROUND_HEIGHT + room + high)
        heat_map.write_around(figure, fonts, text, notes, size)
    return figure


def plot_arcs(dependence: DependenceMap, other: Iterable[Edge] | None = None) -> "Figure":
    """The strongest tree without crossings above the text, and `other` edges below it."""
    names = [tokens.label(place.name) for place in dependence.places]
    check_arcs(len(names))
    above = dependence.tree()
    below = [] if other is None else _checked(other, len(names))
    notes = [*_arc_notes(dependence, above, None if other is None else below), *_notes(dependence)]
    with drawing([*notes, *names]) as (figure, fonts):
        labels = [*map(fonts.shown, names)]
        places = _along(labels)
        panel: Any = figure.subplots()
        longest = max((places[b] - places[a] for a, b in (*above, *below)), default=1.0)
        steep = min(_STEEPEST, 2 * _HIGHEST / longest)
        most = max((dependence[edge] for edge in above), default=0.0)
        for edge in above:
            share = min(1.0, max(0.0, dependence[edge] / most)) if most > 0 else 0.0
            arc_style = {"color": _FOUND, "linewidth": 0.8 + 2 * share, "alpha": 0.4 + 0.6 * share}
            _arc(panel, [places[place] for place in edge], steep, arc_style)
        for edge in below:
            colour = _FOUND if edge in above else _OTHER
            _arc(panel, [places[p] for p in edge], -steep, {"color": colour, "linewidth": 1.2})
        for x, name in zip(places, labels, strict=True):
            panel.text(x, 0, name, ha="center", va="center", fontsize=LARGE)
        size = _frame(panel, places, labels, [_height(places, es, steep) for es in (above, below)])
        heat_map.write_around(figure, fonts, "", notes, size)
    return figure


def to_html(dependence: DependenceMap) -> str:
    """The strongest dependences of a map with their errors, for notebooks."""
    pairs, rows = dependence.top(), []
    for pair in pairs:
        error = "" if pair.standard_error is None else f" +- {pair.standard_error:.3f}"
        rows.append([*map(tokens.label, pair.names), f"{pair.value:z.3f}{error}"])
    words = MEASURES[dependence.measure].words
    corrected = ", with the average product correction" if dependence.is_corrected else ""
    notes = [
        f"The strongest {words} of {len(dependence.places)} places{corrected}.",
        f"Forward passes: {dependence.forward_passes:,}.",
    ]
    head = ["first", "second", dependence.unit]
    return html_table(dependence.text, head, rows, notes, [pair.value for pair in pairs])


def check_arcs(places: int) -> None:
    """Reject a text that is too long for arcs."""
    if places > _MOST_WORDS:
        raise UnmaskError(
            f"arcs are drawn over {_MOST_WORDS} places at most, and this text has {places}; draw "
            "the map instead, without the tree"
        )


# --- notes -------------------------------------------------------------------------------------


def _notes(dependence: DependenceMap) -> Iterator[str]:
    estimated = "" if dependence.standard_errors is None else f", from {dependence.samples} samples"
    correction = "; minus what both places depend on all others (average product correction)"
    corrected = correction if dependence.is_corrected else ""
    name, meaning = _name(dependence), MEASURES[dependence.measure].meaning
    yield f"{name[0].upper()}{name[1:]}: {meaning}{estimated}{corrected}."
    path = Path(dependence.model)
    # of a folder the last part, since the rest is of one machine
    model = quoted(path.name if path.is_absolute() else dependence.model)[1:-1]
    yield f"Dependence in the model {model}, not in the world; it is neither cause nor syntax."


def _arc_notes(
    dependence: DependenceMap, above: Sequence[Edge], below: Sequence[Edge] | None
) -> Iterator[str]:
    values = [dependence[edge] for edge in above]
    note = "Above the text: the strongest tree whose arcs do not cross"
    if values:
        ends = f"{min(values):.3g} to {max(values):.3g} {dependence.unit}"
        note += f"; a thicker arc is stronger, {ends}"
    yield f"{note}."
    if below is not None:
        n = sum(edge in above for edge in below)
        yield f"Below: the tree to compare it with; {n} of its {len(below)} edges are above too."


def _name(dependence: DependenceMap) -> str:
    return f"{MEASURES[dependence.measure].words}, {dependence.unit}"


# --- a map -------------------------------------------------------------------------------------


def _scale(dependence: DependenceMap) -> panels.Scale:
    """The colour scale: from 0, or symmetric around 0 if there are negative values."""
    finite = dependence.values[~dependence.values.isnan()]
    most = max(_LEAST, float(finite.abs().max()) if len(finite) else 0.0)
    # ignores rounding below zero of measures that cannot be negative
    below = len(finite) > 0 and float(finite.min()) < -1e-3 * most
    colours, low = ("PuOr_r", -most) if below else ("YlGnBu", 0.0)
    decimals = 2 if most < 10 else 1 if most < 100 else 0
    return panels.Scale(colours, low, most, _name(dependence), lambda x: tokens.signed(x, decimals))


def _draw_cells(
    panel: Any, dependence: DependenceMap, scale: panels.Scale
) -> tuple[Any, tuple[float, float]]:
    """The cells, and the width and height of one in inches."""
    size = len(dependence.places)
    if size <= _MOST_NUMBERS:
        mesh = panels.draw_map(panel, dependence.values, scale, missing="")
        return mesh, (panels.CELL_WIDTH, panels.CELL_HEIGHT)
    mesh = panels.draw_map(panel, dependence.values, scale, numbers=False)
    cell = min(_CELL, _LARGEST / size)
    return mesh, (cell, cell)


def _label(panel: Any, names: Sequence[str], cell: float) -> None:
    """Names at both sides, as many as there is room for: all, or every second, fifth, tenth."""
    scaled = (step * 10**power for power in range(9) for step in (1, 2, 5))
    every = next(step for step in scaled if step * cell >= _LABEL)
    places = range(every - 1, len(names), every)
    labels = [names[place] for place in places]
    panel.set_yticks(places, labels, fontsize=SMALL)
    panel.set_xticks(places, labels, fontsize=SMALL, rotation=90)


# --- arcs --------------------------------------------------------------------------------------


def _along(names: Sequence[str]) -> list[float]:
    """The middle of every word, in inches, with as much room as its letters need."""
    places, start = [], 0.0
    for name in names:
        room = _LETTER * max(1, width(name))
        places.append(start + room / 2)
        start += room + _GAP
    return places


def _arc(panel: Any, ends: Sequence[float], steep: float, style: dict[str, Any]) -> None:
    """Half an ellipse; all are equally steep, so that one within another does not touch it."""
    start, end = ends
    side = 1 if steep > 0 else -1
    angles = [math.pi * step / 48 for step in range(49)]
    middle, reach = (start + end) / 2, (end - start) / 2
    xs = [middle - reach * math.cos(angle) for angle in angles]
    ys = [side * _LINE / 2 + steep * reach * math.sin(angle) for angle in angles]
    panel.plot(xs, ys, solid_capstyle="round", **style)


def _height(places: Sequence[float], edges: Iterable[Edge], steep: float) -> float:
    return max((steep * (places[b] - places[a]) / 2 for a, b in edges), default=0.0)


def _frame(
    panel: Any, places: Sequence[float], names: Sequence[str], heights: Sequence[float]
) -> tuple[float, float]:
    """The limits of the panel, without axes, and the size of the picture: one unit is one inch."""
    ends = [_LETTER * max(1, width(name)) / 2 + 0.1 for name in (names[0], names[-1])]
    left, right = places[0] - ends[0], places[-1] + ends[1]
    high, low = (height + _LINE / 2 + 0.1 for height in heights)
    panel.set_xlim(left, right)
    panel.set_ylim(-low, high)
    panel.set_aspect("equal")
    panel.set_axis_off()
    return max(_NARROWEST, right - left + 0.2), high + low + 0.2


def _checked(edges: Iterable[Edge], size: int) -> list[Edge]:
    checked = []
    for edge in edges:
        pair = [whole_number(place) for place in edge] if isinstance(edge, list | tuple) else []
        numbers = [place for place in pair if place is not None and 0 <= place < size]
        if len(pair) != 2 or len(set(numbers)) != 2:
            raise UnmaskError(
                f"an edge is two different places, as numbers from 0 to {size - 1}, not "
                f"{quoted(edge)}"
            )
        checked.append((min(numbers), max(numbers)))
    return sorted(set(checked))
