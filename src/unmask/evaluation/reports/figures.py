"""Pictures of NLLs against the distance between the blanks.

The only module that imports matplotlib, and only when it is called. Figures are made without
pyplot, so that nothing needs a screen, and no figure stays open.
"""

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from unmask.errors import UnmaskError
from unmask.evaluation.reports.bootstrap import Estimate
from unmask.evaluation.reports.distance import DistanceBin, by_setting
from unmask.printable import printable, quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# what would say when a file was written, left out: the same figure is the same file
FORMATS: Mapping[str, Mapping[str, None]] = {
    ".svg": {"Date": None},
    ".png": {},
    ".pdf": {"CreationDate": None},
}
PANELS = {"pairwise_nll": "Pairwise NLL", "unary_nll": "Unary NLL"}
READING = (
    "Mean NLL, lower is better. Bars: 95% bootstrap intervals, resampled by sentence.\n"
    "Constructions share examples: those with overlapping bars may differ all the same."
)

# of a page between its margins, in inches
_WIDTH = 6.9
_HEIGHT = 7.8
_SMALL, _NORMAL, _LARGE = 7, 8, 9.5
# the part of a bin that constructions stand side by side in: on one spot they would hide each other
_SPREAD = 0.7
# constructions are left out of the axis where the others then get so many times the height
_FLATTENED = 2.0


@dataclass(frozen=True)
class Style:
    """How a construction is drawn; marker and dashes tell apart what colours alone may not."""

    colour: str
    marker: str
    dashes: str = "solid"


_DASHES = ("dashed", "dotted", "dashdot")
# after Paul Tol's "muted" scheme for the colour-blind, the palest darkened, with black and grey
STYLES = {
    "mlm": Style("#000000", "o"),
    "mrf-logit": Style("#888888", "s"),
    "mrf": Style("#CC6677", "D"),
    "hcb": Style("#DDAA33", "^"),
    "ag-paper": Style("#117733", "v"),
    "ag": Style("#44AA99", "<"),
    "weighted-ag": Style("#999933", ">"),
    "pseudo-gibbs": Style("#6699CC", "P"),
    "log-pool": Style("#332288", "*"),
    "orders": Style("#882255", "X"),
    "sweep": Style("#AA4499", "p"),
}


def distance_figure(bins: Sequence[DistanceBin], *, title: str, axis_label: str) -> "Figure":
    """Pairwise and unary NLL against distance in one setting, over the counts of examples.

    One line a construction, side by side within a bin. Where one would flatten all others it
    leaves the axis, and the panel says which and where it went.
    """
    _check_setting(bins)
    figure: Figure = _library("matplotlib.figure").Figure(layout="constrained")
    *panels, strip = figure.subplots(3, sharex=True, height_ratios=(6, 6, 1.2))
    lines = _lines(bins)
    styles = construction_styles(lines)
    ends = sorted({(one.first, one.last) for one in bins})
    places = {pair: place for place, pair in enumerate(ends)}
    for panel, (metric, name) in zip(panels, PANELS.items(), strict=True):
        panel.set_title(name, loc="left", fontsize=_NORMAL, fontweight="bold")
        _draw_lines(panel, lines, styles, places, metric)
    _draw_counts(strip, bins, places)
    strip.set_xlabel(_wrapped(axis_label), fontsize=_NORMAL)
    figure.suptitle(_wrapped(title), fontsize=_LARGE)
    rows = _draw_legend(figure, panels[0])
    figure.set_size_inches(_WIDTH, _HEIGHT + 0.18 * rows)
    _plain_text(figure)
    return figure


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as .svg, .png or .pdf; the file appears whole or not at all."""
    target = Path(path)
    shown = quoted(str(path), limit=150)
    suffix = target.suffix.lower()
    if suffix not in FORMATS:
        raise UnmaskError(f"a figure is a file in {', '.join(FORMATS)}, not {shown}: rename it")
    partial = target.with_name(target.name + ".partial")
    try:
        # without a salt the ids in an SVG are drawn at random
        with _library("matplotlib").rc_context({"svg.hashsalt": "unmask"}):
            figure.savefig(partial, format=suffix[1:], dpi=200, metadata=dict(FORMATS[suffix]))
        os.replace(partial, target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UnmaskError(f"cannot write {shown}: {error.strerror}; choose another place") from None


def construction_styles(names: Iterable[str]) -> dict[str, Style]:
    """A style a construction: always the same for those of the library.

    Others, with options for example, get dashes and a style that follows from the name, so that it
    is the same in every figure too, unless two of one figure meet in it.
    """
    names = list(names)
    styles = {name: STYLES[name] for name in names if name in STYLES}
    looks = [(one.colour, other.marker) for one in STYLES.values() for other in STYLES.values()]
    every = [Style(*look, dashes) for look in looks for dashes in _DASHES]
    for name in sorted(set(names) - STYLES.keys()):
        first = int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest())
        order = (every[(first + step) % len(every)] for step in range(len(every)))
        taken = set(styles.values())
        styles[name] = next((s for s in order if s not in taken), every[first % len(every)])
    return {name: styles[name] for name in names}


def axis_range(lines: Mapping[str, Sequence[Estimate]]) -> tuple[float, float]:
    """The ends of an axis for these lines: of all, or of those that others would flatten.

    Lines are left out one by one, always that without which the others get most height, as long
    as they get twice of it and more than half of the lines remain.
    """
    kept = {name: _reach(line) for name, line in lines.items()}
    while len(kept) - 1 > len(lines) / 2:
        rests = {name: [kept[other] for other in kept if other != name] for name in kept}
        worst = min(kept, key=lambda name: _height(rests[name]))
        if _height(list(kept.values())) < _FLATTENED * _height(rests[worst]):
            break
        del kept[worst]
    low, high = min(low for low, _ in kept.values()), max(high for _, high in kept.values())
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _check_setting(bins: Sequence[DistanceBin]) -> None:
    settings = by_setting(bins)
    if len(settings) != 1:
        raise UnmaskError(
            f"a figure is of one setting, and these bins are of {len(settings)}: draw one figure"
            " for each that `by_setting` finds"
        )


def _lines(bins: Iterable[DistanceBin]) -> dict[str, list[DistanceBin]]:
    lines: dict[str, list[DistanceBin]] = {}
    for one in bins:
        lines.setdefault(one.group.construction, []).append(one)
    return {name: sorted(line, key=lambda one: one.first) for name, line in lines.items()}


def _reach(line: Sequence[Estimate]) -> tuple[float, float]:
    # an interval that nothing is known of has ends that are NaN
    ends = [end for one in line for end in (one.value, one.low, one.high) if not math.isnan(end)]
    return min(ends), max(ends)


def _height(reaches: Sequence[tuple[float, float]]) -> float:
    return max(high for _, high in reaches) - min(low for low, _ in reaches)


def _draw_lines(
    panel: Any,
    lines: Mapping[str, Sequence[DistanceBin]],
    styles: Mapping[str, Style],
    places: Mapping[tuple[int, int], int],
    metric: str,
) -> None:
    found = {name: [getattr(one, metric) for one in line] for name, line in lines.items()}
    low, high = axis_range(found)
    panel.set_ylim(low, high)
    step = _SPREAD / len(lines)
    for order, (name, line) in enumerate(lines.items()):
        shift = (order - (len(lines) - 1) / 2) * step
        xs = [places[one.first, one.last] + shift for one in line]
        _draw_line(panel, xs, found[name], styles[name], _name(name))
    panel.set_ylabel("nats per token", fontsize=_NORMAL)
    panel.tick_params(labelsize=_SMALL)
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.5)
    # between bins, because the points of one bin do not stand on one spot
    for place in range(1, len(places)):
        panel.axvline(place - 0.5, color="#DDDDDD", linewidth=0.5, zorder=0)
    panel.tick_params(axis="x", length=0)
    if said := _outside(found, low, high):
        panel.set_title(said, loc="right", fontsize=_SMALL, style="italic")


def _draw_line(
    panel: Any, xs: Sequence[float], line: Sequence[Estimate], style: Style, label: str
) -> None:
    lows, highs = [one.low for one in line], [one.high for one in line]
    # not bands: those of many constructions are one grey cloud, whose points stand side by side
    panel.vlines(xs, lows, highs, style.colour, linewidth=0.8, alpha=0.5)
    values = [one.value for one in line]
    # a star of the size of other markers looks smaller
    look = {"marker": style.marker, "markersize": 7 if style.marker == "*" else 4.5}
    look |= {"markeredgecolor": "white", "markeredgewidth": 0.25, "linewidth": 0.9}
    panel.plot(xs, values, color=style.colour, linestyle=style.dashes, label=label, **look)
    _mark_outside(panel, xs, values, style.colour)


def _mark_outside(panel: Any, xs: Sequence[float], values: Sequence[float], colour: str) -> None:
    """An arrow at the edge of the axis where a point would be beyond it."""
    low, high = panel.get_ylim()
    up, down = 6, 7  # matplotlib's numbers of arrows whose tips are at the point
    for x, value in zip(xs, values, strict=True):
        if not low <= value <= high:
            edge, arrow = (high, up) if value > high else (low, down)
            panel.plot(x, edge, marker=arrow, color=colour, markersize=5, clip_on=False)


def _outside(lines: Mapping[str, Sequence[Estimate]], low: float, high: float) -> str:
    """Which lines leave the axis, and how far."""
    said = []
    for name, line in lines.items():
        values = [one.value for one in line if not low <= one.value <= high]
        if values:
            first, last = f"{min(values):.2f}", f"{max(values):.2f}"
            said.append(f"{_name(name)} ({first if first == last else f'{first} to {last}'})")
    return _wrapped(f"off the axis: {', '.join(said)}", 80) if said else ""


def _draw_counts(
    strip: Any, bins: Sequence[DistanceBin], places: Mapping[tuple[int, int], int]
) -> None:
    counts: dict[tuple[int, int], list[int]] = {ends: [] for ends in places}
    for one in bins:
        counts[one.first, one.last].append(one.examples)
    tallest = [max(found) for found in counts.values()]
    bars = strip.bar(range(len(places)), tallest, width=0.7, color="#BBBBBB")
    # where some constructions failed they have different counts
    shown = [_between(min(found), max(found)) for found in counts.values()]
    strip.bar_label(bars, shown, fontsize=_SMALL, padding=1)
    strip.set_xticks(range(len(places)), [_between(*ends) for ends in places], fontsize=_SMALL)
    strip.set_xlim(-0.6, len(places) - 0.4)
    strip.set_ylim(0, 1.35 * max(tallest))
    strip.set_yticks([])
    strip.set_ylabel("examples", fontsize=_NORMAL)


def _draw_legend(figure: Any, panel: Any) -> int:
    """Under the axes, where it covers nothing; how many rows it has."""
    handles, labels = panel.get_legend_handles_labels()
    columns = min(6, max(1, 100 // (max(map(len, labels)) + 8)))
    look = {"fontsize": _SMALL, "title_fontsize": _SMALL, "frameon": False, "handlelength": 2.8}
    where = {"loc": "outside lower center", "ncols": columns}
    figure.legend(handles, labels, title=READING, **where, **look)
    return math.ceil(len(labels) / columns)


def _plain_text(figure: Any) -> None:
    """Dollar signs and backslashes in names are no formulas, whatever a user's settings say."""
    for text in figure.findobj(_library("matplotlib.text").Text):
        text.set_parse_math(False)
        text.set_usetex(False)


def _between(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _name(name: str) -> str:
    # a leading underscore would hide it from the legend
    return quoted(name)[1:-1] if not name.startswith("_") else quoted(name)


def _wrapped(text: str, width: int = 100) -> str:
    return "\n".join(wrap(printable(text), width))


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UnmaskError(
            "figures need matplotlib: pip install 'unmask[figures]', or take the tables"
        ) from None
