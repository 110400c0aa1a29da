"""Axes that one far value does not flatten, and what they then leave out."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unmask.resampling import Estimate

# lines are left out of the axis where the others then get so many times the height
_FLATTENED = 2.0


def axis_range(lines: Mapping[str, Sequence[Estimate]]) -> tuple[float, float]:
    """The ends of an axis for these lines: of all, or of those that others would flatten.

    Lines are left out one by one, always that without which the others get most height, as long
    as they get twice of it and more than half of the lines remain.
    """
    reaches = dict[str, tuple[float, float]]()
    for name, line in lines.items():
        ends = [end for point in line for end in (point.value, point.low, point.high)]
        # an interval that nothing is known of has ends that are NaN
        ends = [end for end in ends if not math.isnan(end)]
        reaches[name] = min(ends), max(ends)
    while len(reaches) - 1 > len(lines) / 2:
        rests = {name: [reaches[other] for other in reaches if other != name] for name in reaches}
        worst = min(reaches, key=lambda name: _height(rests[name]))
        if _height(list(reaches.values())) < _FLATTENED * _height(rests[worst]):
            break
        del reaches[worst]
    low, high = min(low for low, _ in reaches.values()), max(high for _, high in reaches.values())
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def mark_outside(panel: Any, xs: Sequence[float], values: Sequence[float], colour: str) -> None:
    """An arrow at the edge of the axis where a point would be beyond it."""
    low, high = panel.get_ylim()
    up, down = 6, 7  # matplotlib's numbers of arrows whose tips are at the point
    for x, value in zip(xs, values, strict=True):
        if not low <= value <= high:
            edge, arrow = (high, up) if value > high else (low, down)
            panel.plot(x, edge, marker=arrow, color=colour, markersize=5, clip_on=False)


def outside(
    lines: Mapping[str, Sequence[Estimate]], low: float, high: float, name: Callable[[str], str]
) -> str:
    """The lines that leave the axis, and how far; empty if none does."""
    notes = []
    for line, points in lines.items():
        values = [point.value for point in points if not low <= point.value <= high]
        if values:
            first, last = f"{min(values):.2f}", f"{max(values):.2f}"
            notes.append(f"{name(line)} ({first if first == last else f'{first} to {last}'})")
    return f"off the axis: {', '.join(notes)}" if notes else ""


def _height(reaches: Sequence[tuple[float, float]]) -> float:
    return max(high for _, high in reaches) - min(low for low, _ in reaches)
