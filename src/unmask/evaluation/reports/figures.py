"""Pictures of NLLs against the distance between the blanks, and their numbers, as files.

Imports matplotlib only when it is called. Figures are made without pyplot, so that nothing needs a
screen, and no figure stays open.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.durable import make_folder, write_text
from unmask.evaluation.reports.bootstrap import Estimate
from unmask.evaluation.reports.distance import LEAST_COUNT, DistanceBin, by_setting
from unmask.evaluation.reports.rendering import comma_separated
from unmask.evaluation.reports.reporting import Report, table
from unmask.evaluation.reports.tables import shown_setting
from unmask.evaluation.rows import Group
from unmask.plots.ranges import axis_range, mark_outside, outside
from unmask.plots.saving import library, plain_text, save_figure, wrapped
from unmask.plots.styles import LARGE, NORMAL, SMALL, Style, construction_styles, legend_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"pairwise_nll": "Pairwise NLL", "unary_nll": "Unary NLL"}
READING = (
    "Mean NLL, lower is better. Bars: 95% bootstrap intervals, resampled by sentence.\n"
    "Constructions share examples: those with overlapping bars may differ all the same."
)

# of a page between its margins, in inches
_WIDTH = 6.9
_HEIGHT = 7.8
# the part of a bin that constructions stand side by side in: on one spot they would hide each other
_SPREAD = 0.7
_library = partial(library, install="pip install 'unmask[plots]', or take the tables")

_LONGEST_NAME = 100
AXES = {
    "distance": "tokens between the blanks",
    "syntax": "edges between the blanks' words in the dependency tree",
}


def draw(
    it: Report, folder: Path, format: str = "svg", *, say: Callable[[str], object] = lambda _: None
) -> Iterator[Path]:
    """One figure per setting and kind of distance, one CSV per kind; yields what was written.

    `say` gets a line for every figure that is not drawn.
    """
    make_folder(folder)
    kinds: Mapping[str, Sequence[DistanceBin]] = {
        "distance": it.token_bins(),
        **({"syntax": it.syntactic_bins()} if it.syntactic else {}),
    }
    for kind, bins in kinds.items():
        path = folder / f"{kind}.csv"
        write_text(path, comma_separated(table(it, kind)))
        yield path
        if not bins:
            say(f"no figure of {AXES[kind]}: no example has a distance and metrics")
        for group, found in by_setting(bins).items():
            ends = sorted({(one.first, one.last) for one in found})
            title = shown_setting(group)
            # one bin is a point, of which the table says everything
            if len(ends) > 1:
                path = folder / f"{kind}-{_file_name(group)}.{format}"
                save_figure(distance_figure(found, title=title, axis_label=AXES[kind]), path)
                yield path
            else:
                say(f"no figure of {title}: {_one_bin(kind, *ends[0])}")


def distance_figure(bins: Sequence[DistanceBin], *, title: str, axis_label: str) -> "Figure":
    """Pairwise and unary NLL against distance in one setting, over the counts of examples.

    One line per construction, side by side within a bin. Where one would flatten all others it
    leaves the axis, and the panel says which and where it went.
    """
    figure: Figure = _library("matplotlib.figure").Figure(layout="constrained")
    *panels, strip = figure.subplots(3, sharex=True, height_ratios=(6, 6, 1.2))
    lines = _lines(bins)
    styles = construction_styles(lines)
    ends = sorted({(one.first, one.last) for one in bins})
    places = {pair: place for place, pair in enumerate(ends)}
    for panel, (metric, name) in zip(panels, PANELS.items(), strict=True):
        panel.set_title(name, loc="left", fontsize=NORMAL, fontweight="bold")
        _draw_lines(panel, lines, styles, places, metric)
    _draw_counts(strip, bins, places)
    strip.set_xlabel(wrapped(axis_label), fontsize=NORMAL)
    figure.suptitle(wrapped(title), fontsize=LARGE)
    rows = _draw_legend(figure, panels[0])
    figure.set_size_inches(_WIDTH, _HEIGHT + 0.18 * rows)
    plain_text(figure)
    return figure


def _lines(bins: Iterable[DistanceBin]) -> dict[str, list[DistanceBin]]:
    lines: dict[str, list[DistanceBin]] = {}
    for one in bins:
        lines.setdefault(one.group.construction, []).append(one)
    return {name: sorted(line, key=lambda one: one.first) for name, line in lines.items()}


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
        _draw_line(panel, xs, found[name], styles[name], legend_name(name))
    panel.set_ylabel("nats per token", fontsize=NORMAL)
    panel.tick_params(labelsize=SMALL)
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.5)
    # between bins, because the points of one bin do not stand on one spot
    for place in range(1, len(places)):
        panel.axvline(place - 0.5, color="#DDDDDD", linewidth=0.5, zorder=0)
    panel.tick_params(axis="x", length=0)
    if said := outside(found, low, high, legend_name):
        panel.set_title(wrapped(said, 80), loc="right", fontsize=SMALL, style="italic")


def _draw_line(
    panel: Any, xs: Sequence[float], line: Sequence[Estimate], style: Style, label: str
) -> None:
    lows, highs = [one.low for one in line], [one.high for one in line]
    # not bands: those of many constructions are one grey cloud, whose points stand side by side
    panel.vlines(xs, lows, highs, style.colour, linewidth=0.8, alpha=0.5)
    values = [one.value for one in line]
    look = {"marker": style.marker, "markersize": style.marker_size}
    look |= {"markeredgecolor": "white", "markeredgewidth": 0.25, "linewidth": 0.9}
    panel.plot(xs, values, color=style.colour, linestyle=style.dashes, label=label, **look)
    mark_outside(panel, xs, values, style.colour)


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
    strip.bar_label(bars, shown, fontsize=SMALL, padding=1)
    strip.set_xticks(range(len(places)), [_between(*ends) for ends in places], fontsize=SMALL)
    strip.set_xlim(-0.6, len(places) - 0.4)
    strip.set_ylim(0, 1.35 * max(tallest))
    strip.set_yticks([])
    strip.set_ylabel("examples", fontsize=NORMAL)


def _draw_legend(figure: Any, panel: Any) -> int:
    """Under the axes, where it covers nothing; how many rows it has."""
    handles, labels = panel.get_legend_handles_labels()
    columns = min(6, max(1, 100 // (max(map(len, labels)) + 8)))
    look = {"fontsize": SMALL, "title_fontsize": SMALL, "frameon": False, "handlelength": 2.8}
    where = {"loc": "outside lower center", "ncols": columns}
    figure.legend(handles, labels, title=READING, **where, **look)
    return math.ceil(len(labels) / columns)


def _between(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _one_bin(kind: str, first: int, last: int) -> str:
    if first == last:
        return f"all examples have {first} {AXES[kind]}"
    return (
        f"its {first} to {last} {AXES[kind]} are one bin, since each takes {LEAST_COUNT} examples "
        "or more; evaluate more examples"
    )


def _file_name(group: Group) -> str:
    """Letters and digits only: names come from anywhere, and may hold slashes.

    What that leaves out goes into a hash.
    """
    said = "-".join([group.model, group.corpus, group.mask, group.support])
    plain = re.sub(r"[^a-z0-9]+", "-", said.lower()).strip("-")
    if len(plain) <= _LONGEST_NAME and said.isascii():
        return plain
    return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"
