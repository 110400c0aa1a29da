"""The price of accuracy: forward passes against the NLL of pairs, one point per construction."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.arguments import real_number
from unmask.errors import UnmaskError
from unmask.plots.fonts import drawing
from unmask.plots.ranges import axis_range, mark_outside, outside
from unmask.plots.saving import library, wrapped
from unmask.plots.styles import LARGE, NORMAL, SMALL, Style, construction_styles, legend_name
from unmask.printable import printable, quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 6.0, 4.2
# points of the same cost are side by side: so many times the cost from the first to the last
_SPREAD = 1.5
_READING = "Lower and further left is better. Bars: 95% intervals. Line: the best for its cost."


class Point(NamedTuple):
    """A construction: the forward passes of one pair, its mean NLL, the ends of its interval."""

    construction: str
    forward_passes: float
    value: float
    low: float = math.nan
    high: float = math.nan


def frontier(
    rows: Iterable[Point | tuple[str, float, float] | tuple[str, float, float, float, float]],
    *,
    title: str = "",
) -> "Figure":
    """Forward passes, on a logarithmic axis, against pairwise NLL with its interval.

    A point that would squeeze all others together is left off the axis, with a note.

    Args:
        rows: Points, or plain tuples in the same order.
        title: A line above the axes.
    Returns:
        A figure of matplotlib, which notebooks show.
    Examples:
        >>> rows = [("mlm", 1, 2.9, 2.8, 3.0), ("log-pool", 500, 2.5, 2.4, 2.6)]
        >>> figure = unmask.plots.frontier(rows)
    """
    every = [_checked(Point(*row)) for row in rows]
    if not every:
        raise UnmaskError("there is no point to draw; give (construction, passes, nll, low, high)")
    names = [point.construction for point in every]
    if len(set(names)) < len(names):
        raise UnmaskError("a construction is given twice; name its options to tell them apart")
    styles = {legend_name(name): style for name, style in construction_styles(names).items()}
    with drawing([printable(title), *styles]) as (figure, fonts):
        _draw(
            figure.subplots(), every, [(fonts.shown(name), style) for name, style in styles.items()]
        )
        if title:
            figure.suptitle(fonts.shown(wrapped(title, 80)), fontsize=LARGE)
        look = {"fontsize": SMALL, "title_fontsize": SMALL, "frameon": False, "ncols": 4}
        figure.legend(title=_READING, loc="outside lower center", **look)
        figure.set_size_inches(_WIDTH, _HEIGHT + 0.18 * math.ceil(len(every) / 4))
    return figure


def _draw(panel: Any, every: Sequence[Point], styles: Sequence[tuple[str, Style]]) -> None:
    lines = {name: [point] for (name, _), point in zip(styles, every, strict=True)}
    low, high = axis_range(lines)
    panel.set_xscale("log")
    panel.set_ylim(low, high)
    places = _places(every)
    panel.step(*_best(every, places), where="post", color="#BBBBBB", linewidth=1, zorder=0)
    for x, point, (name, style) in zip(places, every, styles, strict=True):
        panel.vlines(x, point.low, point.high, style.colour, linewidth=1, alpha=0.6)
        look = {"marker": style.marker, "markersize": 1.4 * style.marker_size, "linestyle": ""}
        panel.plot([x], [point.value], color=style.colour, label=name, **look)
        mark_outside(panel, [x], [point.value], style.colour)
    panel.set_xlabel("forward passes for one pair", fontsize=NORMAL)
    panel.set_ylabel("pairwise NLL, nats per token", fontsize=NORMAL)
    panel.tick_params(labelsize=SMALL)
    panel.grid(color="#DDDDDD", linewidth=0.5)
    panel.set_axisbelow(True)
    plain = library("matplotlib.ticker").FuncFormatter(lambda passes, _: f"{passes:,g}")
    panel.xaxis.set_major_formatter(plain)
    if note := outside(lines, low, high, str):
        panel.set_title(note, loc="right", fontsize=SMALL, style="italic")


def _places(every: Sequence[Point]) -> list[float]:
    """The positions of points: their cost, or close to it if several points share it."""
    places = []
    for place, point in enumerate(every):
        same = [k for k, other in enumerate(every) if other.forward_passes == point.forward_passes]
        shift = same.index(place) / (len(same) - 1) - 0.5 if len(same) > 1 else 0.0
        places.append(point.forward_passes * _SPREAD**shift)
    return places


def _best(every: Sequence[Point], places: Sequence[float]) -> tuple[list[float], list[float]]:
    """The corners of the line below which nothing is: the best NLL for at most that cost."""
    corners: list[tuple[float, float]] = []
    by_cost = sorted(range(len(every)), key=lambda k: (every[k].forward_passes, every[k].value))
    for k in by_cost:
        if not corners or every[k].value < corners[-1][1]:
            corners.append((places[k], every[k].value))
    corners.append((max(*places, corners[-1][0]), corners[-1][1]))
    return [x for x, _ in corners], [y for _, y in corners]


def _checked(point: Point) -> Point:
    passes, value = real_number(point.forward_passes), real_number(point.value)
    if passes is None or not 0 < passes < math.inf:
        raise UnmaskError(
            f"{quoted(point.construction)} costs a number of forward passes above 0, not "
            f"{quoted(point.forward_passes)}"
        )
    if value is None or not math.isfinite(value):
        raise UnmaskError(
            f"the NLL of {quoted(point.construction)} is a finite number, not {quoted(point.value)}"
        )
    return point
