"""Constructions side by side: the same tokens, and one scale of colours."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch

from unmask.errors import SupportError
from unmask.joints.joint import Joint
from unmask.plots import heat_map, panels, tokens
from unmask.plots.fonts import drawing
from unmask.plots.styles import NORMAL, legend_name, style_of
from unmask.printable import quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ACROSS = 4
# in inches: colour bar and name of the rows, between panels, above a panel, name of the columns
_AROUND, _GAP, _HEAD, _FOOT = 1.1, 0.12, 0.32, 0.3


def compare(
    joints: Mapping[str, Joint], n: int = 8, *, kind: str = "probability", title: str | None = None
) -> "Figure":
    """The likeliest tokens of several joints over the same two blanks, one panel per joint.

    The joints take turns in choosing tokens, which are then the same in all panels.

    Args:
        joints: Joints by name, as `LanguageModel.joints` gives them.
        n: How many tokens of each blank.
        kind: "probability", or "pmi" in nats.
        title: A line above the panels.
    Returns:
        A figure of matplotlib, which notebooks show.
    Examples:
        >>> joints = lm.joints("Two [MASK] are [MASK].", methods=["mlm", "log-pool"], support=20)
        >>> figure = unmask.plots.compare(joints, n=5)
    """
    heat_map.check(joints.values(), n, kind)
    _check_axes(list(joints.items()))
    first, *_ = every = list(joints.values())
    cells = tokens.shown_cells(every, n)
    values = [heat_map.values_of(joint, cells, kind) for joint in every]
    texts = {heat_map.text_of(joint) for joint in every}
    text = "" if len(texts) > 1 else texts.pop()
    if title is not None:
        text = quoted(title, limit=300)[1:-1]
    scale = panels.scale_of(kind, values)
    notes = [*heat_map.notes_of(joints, values, scale)]
    heads = [legend_name(name) for name in joints]
    labels = tokens.cell_labels(first, cells)
    with drawing([text, *heads, *notes, *chain(*labels)]) as (figure, fonts):
        rows, columns = ([*map(fonts.shown_label, names)] for names in labels)
        across = math.ceil(len(every) / math.ceil(len(every) / _MOST_ACROSS))
        shape = (math.ceil(len(every) / across), across)
        grid = list(figure.subplots(*shape, squeeze=False, sharex=True, sharey=True).flat)
        for unused in grid[len(every) :]:
            unused.remove()
        grid = grid[: len(every)]
        meshes = [panels.draw_map(*each, scale) for each in zip(grid, values, strict=True)]
        _label(grid, across, rows, columns)
        for panel, head, joint in zip(grid, heads, every, strict=True):
            title_style = {"fontsize": NORMAL, "color": style_of(joint.method).colour}
            panel.set_title(fonts.shown(head), loc="left", **title_style)
        panels.draw_colour_bar(figure, meshes[0], grid, scale)
        size = _size(len(every), across, rows, columns)
        heat_map.write_around(figure, fonts, text, notes, size)
    return figure


def _size(
    count: int, across: int, rows: Sequence[str], columns: Sequence[str]
) -> tuple[float, float]:
    """In inches, so that cells have room for their numbers."""
    below = panels.inches(columns) if panels.are_turned(columns) else 0.2
    wide = _AROUND + panels.inches(rows) + across * (panels.CELL_WIDTH * len(columns) + _GAP)
    high = panels.CELL_HEIGHT * len(rows) + _HEAD
    down = math.ceil(count / across)
    # where the last row has fewer panels, those above have labels too
    return wide, down * high + below * (1 + (count % across > 0)) + _FOOT


def _label(every: Sequence[Any], across: int, rows: Sequence[str], columns: Sequence[str]) -> None:
    for place, panel in enumerate(every):
        lowest = place + across >= len(every)
        panels.label_rows(panel, rows, "" if place % across else "first blank")
        # slanted ones would reach below the panel before
        panels.label_columns(panel, columns, "second blank" if lowest else "", angle=90)
        # panels share their axes, and the last row may have fewer of them
        panel.tick_params(labelleft=place % across == 0, labelbottom=lowest)


def _check_axes(joints: Sequence[tuple[str, Joint]]) -> None:
    if not joints:
        raise SupportError("there is no joint to compare; give {name: joint, ...}")
    # sketches of one text have axes of their own, and those that need none the whole vocabulary
    if any(joint.is_sketched() for _, joint in joints):
        return
    (_, first), *others = joints
    for name, joint in others:
        pairs = zip(first.supports, joint.supports, strict=True)
        if not all(torch.equal(a.ids.cpu(), b.ids.cpu()) for a, b in pairs):
            raise SupportError(
                f"{quoted(name)} ranges over other tokens than the first joint: compare joints of "
                "one text and one support"
            )
