"""Pictures of how NLLs differ by the distance between the blanks, and their numbers, as files.

They draw differences to a baseline, paired by example: what makes examples hard at some distance
would otherwise hide what the constructions do there.

Imports matplotlib only when it is called. Figures are made without pyplot, so that nothing needs a
screen, and no figure stays open.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.durable import make_folder
from unmask.evaluation.reports.rendering import comma_separated
from unmask.evaluation.reports.reporting import Report
from unmask.evaluation.reports.summary import (
    LEAST_COUNT,
    NLLS,
    Summary,
    by_setting,
)
from unmask.evaluation.reports.tables import NAMES, report_table, shown_setting
from unmask.evaluation.rows import Group
from unmask.plots.ranges import axis_range, mark_outside, outside
from unmask.plots.saving import disable_math, library, save_figure, wrapped
from unmask.plots.styles import LARGE, NORMAL, SMALL, Style, construction_styles, legend_name
from unmask.printable import printable
from unmask.records.places import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# of a page between its margins, in inches
_WIDTH = 6.9
_HEIGHT = 6.8
# the share of a bin over which constructions are spread: at one point they would hide each other
_SPREAD = 0.6
_LONGEST_NAME = 100


def draw(
    report: Report,
    folder: Path,
    *,
    name: str = "distance",
    axis_label: str = "tokens between the blanks",
    say: Callable[[str], object] = lambda _: None,
) -> Iterator[Path]:
    """One figure per setting, and a CSV of all that they draw; yields what was written.

    Files have the `name` of the distance. `say` gets a line for every figure that is not drawn.
    """
    make_folder(folder)
    table = "distance-differences"
    bins = report.summaries(table)
    path = folder / f"{name}-differences.csv"
    write_whole(str(path), comma_separated(report_table(table, bins)).encode())
    yield path
    if not bins:
        baseline = printable(report.baseline or "mlm")
        say(f"no figure of {axis_label}: there is no {baseline} to compare with")
    settings = by_setting(bins)
    name_counts = Counter(map(file_name, settings))
    for group, members in settings.items():
        ends, title = _ends(members), shown_setting(group)
        # one bin is one point, which the table shows
        if len(ends) > 1:
            plain = file_name(group, told_apart=name_counts[file_name(group)] > 1)
            path = folder / f"{name}-{plain}.svg"
            save_figure(distance_figure(members, title=title, axis_label=axis_label), path)
            yield path
        else:
            say(
                f"no figure of {title}: all examples are in one bin, {between(*ends[0])}"
                f" {axis_label}; a bin takes {LEAST_COUNT} examples or more"
            )


def distance_figure(bins: Sequence[Summary], *, title: str, axis_label: str) -> "Figure":
    """Differences in pairwise and unary NLL by distance in one setting, over counts of examples.

    One line per construction, side by side within a bin, around the baseline's zero. Where one
    would flatten all others it leaves the axis, and the panel says which and where it went.
    """
    instead = "pip install 'unmask[plots]', or take the tables"
    figure: Figure = library("matplotlib.figure", install=instead).Figure(layout="constrained")
    *panels, strip = figure.subplots(3, sharex=True, height_ratios=(6, 6, 1.2))
    lines: dict[str, list[Summary]] = {}
    for summary in sorted(bins, key=attrgetter("first")):
        lines.setdefault(summary.group.construction, []).append(summary)
    styles = construction_styles(lines)
    places = {ends: place for place, ends in enumerate(_ends(bins))}
    baseline = legend_name(bins[0].baseline or "")
    for panel, metric in zip(panels, NLLS, strict=True):
        less = wrapped(f"{NAMES[metric]} minus that of {baseline}", 60)
        panel.set_title(less, loc="left", fontsize=NORMAL, fontweight="bold")
        _draw_lines(panel, lines, styles, places, metric)
    _draw_counts(strip, bins, places)
    strip.set_xlabel(wrapped(axis_label), fontsize=NORMAL)
    figure.suptitle(wrapped(title), fontsize=LARGE)
    rows = _draw_legend(figure, panels[0], baseline)
    figure.set_size_inches(_WIDTH, _HEIGHT + 0.18 * rows)
    disable_math(figure)
    return figure


def _ends(bins: Iterable[Summary]) -> list[tuple[int, int]]:
    return sorted({(summary.first, summary.last) for summary in bins})


def _draw_lines(
    panel: Any,
    lines: Mapping[str, Sequence[Summary]],
    styles: Mapping[str, Style],
    places: Mapping[tuple[int, int], int],
    metric: str,
) -> None:
    estimates = {
        name: [estimate for summary in line if (estimate := summary[metric])]
        for name, line in lines.items()
    }
    low, high = axis_range(estimates)
    margin = 0.05 * (high - low)
    # the baseline is always in sight
    low, high = min(low, -margin), max(high, margin)
    panel.set_ylim(low, high)
    panel.axhline(0, color="#333333", linewidth=0.8, zorder=1)
    for order, (name, line) in enumerate(lines.items()):
        style, values = styles[name], [point.value for point in estimates[name]]
        shift = (order - (len(lines) - 1) / 2) * _SPREAD / len(lines)
        xs = [places[summary.first, summary.last] + shift for summary in line]
        # not bands, which would lie over each other; points are side by side
        ends = zip(*((point.low, point.high) for point in estimates[name]), strict=True)
        panel.vlines(xs, *ends, style.colour, linewidth=1.2)
        line_style: dict[str, Any] = {"color": style.colour, "marker": style.marker}
        # a thin line leads the eye: nothing was measured between two bins
        line_style |= {"linestyle": style.dashes, "linewidth": 0.5}
        line_style |= {"markersize": style.marker_size, "markeredgewidth": 0.25}
        line_style["markeredgecolor"] = "white"
        panel.plot(xs, values, label=legend_name(name), **line_style)
        mark_outside(panel, xs, values, style.colour)
    panel.set_ylabel("nats per token", fontsize=NORMAL)
    panel.tick_params(labelsize=SMALL)
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.5)
    # between bins, because the points of one bin are side by side
    for place in range(1, len(places)):
        panel.axvline(place - 0.5, color="#DDDDDD", linewidth=0.5, zorder=0)
    panel.tick_params(axis="x", length=0)
    if note := outside(estimates, low, high, legend_name):
        panel.set_title(wrapped(note, 80), loc="right", fontsize=SMALL, style="italic")


def _draw_counts(
    strip: Any, bins: Sequence[Summary], places: Mapping[tuple[int, int], int]
) -> None:
    counts = [[s.examples for s in bins if (s.first, s.last) == ends] for ends in places]
    tallest = [max(examples) for examples in counts]
    bars = strip.bar(range(len(places)), tallest, width=0.7, color="#BBBBBB")
    # where some constructions failed they have different counts
    labels = [between(min(examples), max(examples)) for examples in counts]
    strip.bar_label(bars, labels, fontsize=SMALL, padding=1)
    strip.set_xticks(range(len(places)), [between(*ends) for ends in places], fontsize=SMALL)
    strip.set_xlim(-0.6, len(places) - 0.4)
    strip.set_ylim(0, 1.35 * max(tallest))
    strip.set_yticks([])
    strip.set_ylabel("examples", fontsize=NORMAL)


def _draw_legend(figure: Any, panel: Any, baseline: str) -> int:
    """Draw the legend under the axes, where it covers nothing; returns its number of rows."""
    handles, labels = panel.get_legend_handles_labels()
    columns = min(6, max(1, 100 // (max(map(len, labels)) + 8)))
    legend_style = {"fontsize": SMALL, "title_fontsize": SMALL, "handlelength": 2.8}
    placement = {"loc": "outside lower center", "ncols": columns}
    reading = (
        f"Below zero: better than {baseline} on the same examples.\n"
        "Bars: 95% bootstrap confidence intervals of the paired difference."
    )
    figure.legend(handles, labels, title=reading, frameon=False, **placement, **legend_style)
    return math.ceil(len(labels) / columns)


def between(first: int, last: int) -> str:
    """The ends of a bin as a reader sees them."""
    return str(first) if first == last else f"{first}–{last}"


def file_name(group: Group, *, told_apart: bool = False) -> str:
    """Letters and digits only: names come from anywhere, and may hold slashes.

    What that leaves out of long and foreign names, or of those to be `told_apart`, goes into a
    hash.
    """
    text = "-".join([group.model, group.corpus, group.mask, group.support])
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if len(plain) <= _LONGEST_NAME and text.isascii() and not told_apart:
        return plain
    return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
