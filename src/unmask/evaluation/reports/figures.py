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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.durable import make_folder, write_text
from unmask.errors import UnmaskError
from unmask.evaluation.reports.distance import LEAST_COUNT, DistanceBin, by_setting
from unmask.evaluation.reports.rendering import comma_separated
from unmask.evaluation.reports.reporting import Report, table
from unmask.evaluation.reports.summary import Summary
from unmask.evaluation.reports.tables import shown_setting
from unmask.evaluation.rows import Group
from unmask.plots.ranges import axis_range, mark_outside, outside
from unmask.plots.saving import library, plain_text, save_figure, wrapped
from unmask.plots.styles import LARGE, NORMAL, SMALL, Style, construction_styles, legend_name
from unmask.plots.trade_off import Point
from unmask.printable import listed, printable, quoted
from unmask.resampling import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"pairwise_nll": "P-NLL", "unary_nll": "U-NLL"}

# of a page between its margins, in inches
_WIDTH = 6.9
_HEIGHT = 6.8
# the part of a bin that constructions stand side by side in: on one spot they would hide each other
_SPREAD = 0.6
_library = partial(library, install="pip install 'unmask[plots]', or take the tables")

_LONGEST_NAME = 100
AXES = {
    "distance": "tokens between the blanks",
    "syntax": "edges between the blanks' words in the dependency tree",
}


def draw(
    report: Report,
    folder: Path,
    format: str = "svg",
    *,
    say: Callable[[str], object] = lambda _: None,
) -> Iterator[Path]:
    """One figure per setting and kind of distance, two CSVs per kind; yields what was written.

    Of the NLLs of all constructions, and of the differences that are drawn. `say` gets a line for
    every figure that is not drawn.
    """
    make_folder(folder)
    for kind in report.kinds:
        bins = report.difference_bins(kind)
        for name in (kind, f"{kind}-differences"):
            path = folder / f"{name}.csv"
            write_text(path, comma_separated(table(report, name)))
            yield path
        if not bins:
            say(f"no figure of {AXES[kind]}: {_no_figure_reason(report)}")
        settings = by_setting(bins)
        named = Counter(map(file_name, settings))
        for group, of_group in settings.items():
            ends, title = _ends(of_group), shown_setting(group)
            # one bin is one point, which the table shows
            if len(ends) > 1:
                name = file_name(group, told_apart=named[file_name(group)] > 1)
                path = folder / f"{kind}-{name}.{format}"
                save_figure(distance_figure(of_group, title=title, axis_label=AXES[kind]), path)
                yield path
            else:
                say(f"no figure of {title}: {_one_bin(kind, *ends[0])}")


def distance_figure(bins: Sequence[DistanceBin], *, title: str, axis_label: str) -> "Figure":
    """Differences in pairwise and unary NLL by distance in one setting, over counts of examples.

    One line per construction, side by side within a bin, around the baseline's zero. Where one
    would flatten all others it leaves the axis, and the panel says which and where it went.
    """
    figure: Figure = _library("matplotlib.figure").Figure(layout="constrained")
    *panels, strip = figure.subplots(3, sharex=True, height_ratios=(6, 6, 1.2))
    lines = _lines(bins)
    styles = construction_styles(lines)
    places = {pair: place for place, pair in enumerate(_ends(bins))}
    baseline = legend_name(_baseline(bins))
    for panel, (metric, name) in zip(panels, PANELS.items(), strict=True):
        less = wrapped(f"{name} minus that of {baseline}", 60)
        panel.set_title(less, loc="left", fontsize=NORMAL, fontweight="bold")
        _draw_lines(panel, lines, styles, places, metric)
    _draw_counts(strip, bins, places)
    strip.set_xlabel(wrapped(axis_label), fontsize=NORMAL)
    figure.suptitle(wrapped(title), fontsize=LARGE)
    rows = _draw_legend(figure, panels[0], baseline)
    figure.set_size_inches(_WIDTH, _HEIGHT + 0.18 * rows)
    plain_text(figure)
    return figure


def frontier_points(
    summaries: Iterable[Summary], forward_passes: Mapping[str, float]
) -> list[Point]:
    """Points of a run's summaries of one setting, for `unmask.plots.frontier`.

    Args:
        summaries: Summaries of a `report`.
        forward_passes: What a pair costs, by construction.
    Returns:
        A point per construction.
    Raises:
        UnmaskError: What a construction costs is missing.
    Examples:
        >>> from unmask.evaluation import frontier_points, read_run, report
        >>> from unmask.resampling import Resampling
        >>> combined = report([read_run("results")], resampling=Resampling(resamples=100))
        >>> points = frontier_points(combined.summaries(), {"log-pool": 500})
        >>> [point.construction for point in points]
        ['log-pool']
    """
    measured = [one for one in summaries if one.pairwise_ppl is not None]
    if len({one.group.setting for one in measured}) > 1:
        raise UnmaskError("a frontier is of one setting: give the summaries of one model and mask")
    unknown = {one.group.construction for one in measured} - forward_passes.keys()
    if unknown:
        raise UnmaskError(f"what does {quoted(min(unknown))} cost? Give its forward passes")
    return [
        Point(name, forward_passes[name], *map(math.log, (ppl.value, ppl.low, ppl.high)))
        for one in measured
        if (ppl := one.pairwise_ppl) and (name := one.group.construction)
    ]


def described(bins: Sequence[DistanceBin], *, title: str, axis_label: str) -> str:
    """What a figure shows, in words: the course of every line of its first panel."""
    lines = "; ".join(_line_summary(name, line) for name, line in _lines(bins).items())
    return (
        f"P-NLL and U-NLL minus those of {_baseline(bins)} by {axis_label}: {title}. In P-NLL:"
        f" {lines}. The table has all numbers."
    )


def _line_summary(name: str, line: Sequence[DistanceBin]) -> str:
    """From the first bin of a line to its last, and the bins whose intervals exclude zero."""
    points = [(_between(one.first, one.last), one.pairwise_nll) for one in line]
    (near, first), (far, last) = points[0], points[-1]
    below = [at for at, one in points if one.high < 0]
    above = [at for at, one in points if one.low > 0]
    sides = (("below", below), ("above", above))
    clear = [f"{side} zero at {listed(places)}" for side, places in sides if places]
    return (
        f"{name} from {first.value:+.3f} at {near} to {last.value:+.3f} at {far},"
        f" {' and '.join(clear) or 'nowhere clear of zero'}"
    )


def _baseline(bins: Sequence[DistanceBin]) -> str:
    (name,) = {one.baseline or "" for one in bins}
    return name


def _ends(bins: Iterable[DistanceBin]) -> list[tuple[int, int]]:
    return sorted({(one.first, one.last) for one in bins})


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
    estimates = {name: [getattr(one, metric) for one in line] for name, line in lines.items()}
    low, high = axis_range(estimates)
    margin = 0.05 * (high - low)
    # the baseline is always in sight
    low, high = min(low, -margin), max(high, margin)
    panel.set_ylim(low, high)
    panel.axhline(0, color="#333333", linewidth=0.8, zorder=1)
    step = _SPREAD / len(lines)
    for order, (name, line) in enumerate(lines.items()):
        shift = (order - (len(lines) - 1) / 2) * step
        xs = [places[one.first, one.last] + shift for one in line]
        _draw_line(panel, xs, estimates[name], styles[name], legend_name(name))
    panel.set_ylabel("nats per token", fontsize=NORMAL)
    panel.tick_params(labelsize=SMALL)
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.5)
    # between bins, because the points of one bin are side by side
    for place in range(1, len(places)):
        panel.axvline(place - 0.5, color="#DDDDDD", linewidth=0.5, zorder=0)
    panel.tick_params(axis="x", length=0)
    if note := outside(estimates, low, high, legend_name):
        panel.set_title(wrapped(note, 80), loc="right", fontsize=SMALL, style="italic")


def _draw_line(
    panel: Any, xs: Sequence[float], line: Sequence[Estimate], style: Style, label: str
) -> None:
    lows, highs = [one.low for one in line], [one.high for one in line]
    # not bands, which would lie over each other; points are side by side
    panel.vlines(xs, lows, highs, style.colour, linewidth=1.2)
    values = [one.value for one in line]
    look = {"marker": style.marker, "markersize": style.marker_size}
    # a thin line leads the eye: nothing was measured between two bins
    look |= {"markeredgecolor": "white", "markeredgewidth": 0.25, "linewidth": 0.5}
    panel.plot(xs, values, color=style.colour, linestyle=style.dashes, label=label, **look)
    mark_outside(panel, xs, values, style.colour)


def _draw_counts(
    strip: Any, bins: Sequence[DistanceBin], places: Mapping[tuple[int, int], int]
) -> None:
    counts: dict[tuple[int, int], list[int]] = {ends: [] for ends in places}
    for one in bins:
        counts[one.first, one.last].append(one.examples)
    tallest = [max(by_distance) for by_distance in counts.values()]
    bars = strip.bar(range(len(places)), tallest, width=0.7, color="#BBBBBB")
    # where some constructions failed they have different counts
    shown = [_between(min(by_distance), max(by_distance)) for by_distance in counts.values()]
    strip.bar_label(bars, shown, fontsize=SMALL, padding=1)
    strip.set_xticks(range(len(places)), [_between(*ends) for ends in places], fontsize=SMALL)
    strip.set_xlim(-0.6, len(places) - 0.4)
    strip.set_ylim(0, 1.35 * max(tallest))
    strip.set_yticks([])
    strip.set_ylabel("examples", fontsize=NORMAL)


def _draw_legend(figure: Any, panel: Any, baseline: str) -> int:
    """Under the axes, where it covers nothing; how many rows it has."""
    handles, labels = panel.get_legend_handles_labels()
    columns = min(6, max(1, 100 // (max(map(len, labels)) + 8)))
    look = {"fontsize": SMALL, "title_fontsize": SMALL, "frameon": False, "handlelength": 2.8}
    where = {"loc": "outside lower center", "ncols": columns}
    reading = (
        f"Below zero: better than {baseline} on the same examples.\n"
        "Bars: 95% bootstrap confidence intervals of the paired difference."
    )
    figure.legend(handles, labels, title=reading, **where, **look)
    return math.ceil(len(labels) / columns)


def _between(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _no_figure_reason(report: Report) -> str:
    if report.baseline is None:
        return "there is no mlm to compare with; choose another baseline="
    return f"no setting has {printable(report.baseline)} and a construction to compare with it"


def _one_bin(kind: str, first: int, last: int) -> str:
    if first == last:
        return f"all examples have {first} {AXES[kind]}"
    return (
        f"its {first} to {last} {AXES[kind]} are one bin, since each takes {LEAST_COUNT} examples "
        "or more; evaluate more examples"
    )


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
