"""Constructions side by side: the same tokens, and one scale of colours."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.errors import SupportError
from unmask.joints.joint import Joint
from unmask.plots import heat_map, panels, tokens
from unmask.plots.saving import library, new_figure, own_settings
from unmask.plots.styles import NORMAL, construction_styles, legend_name
from unmask.plots.tokens import Cells
from unmask.printable import quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ACROSS = 4
# in inches: colour bar and name of the rows, between panels, above a panel, name of the columns
_AROUND, _GAP, _HEAD, _FOOT = 1.1, 0.12, 0.32, 0.3
_LEAST_WIDTH = 5.0


def compare(
    joints: Mapping[str, Joint], n: int = 8, *, kind: str = "probability", title: str | None = None
) -> "Figure":
    """The likeliest tokens of several joints over the same two blanks, a panel each.

    The joints take turns in choosing tokens, which are then the same in all panels.
    """
    tokens.check_number(n)
    panels.check_kind(kind)
    _check_axes(joints)
    for joint in joints.values():
        heat_map.check_sums(joint, kind)
    library("matplotlib.figure")
    cells = tokens.shown_cells(list(joints.values()), n)
    values = [heat_map.values_of(joint, cells, kind) for joint in joints.values()]
    text = _common_text(joints) if title is None else quoted(title, limit=300)[1:-1]
    return _drawn(joints, cells, values, kind, text)


def _drawn(
    joints: Mapping[str, Joint], cells: Cells, values: Sequence[Tensor], kind: str, text: str
) -> "Figure":
    heads = [legend_name(name) for name in joints]
    notes = heat_map.notes_of(joints, values, kind)
    first = next(iter(joints.values()))
    fonts, rows, columns = heat_map.label_fonts(first, cells, [text, *heads, *notes])
    scale = panels.scale_of(kind, values)
    across = math.ceil(len(joints) / math.ceil(len(joints) / _MOST_ACROSS))
    with own_settings(fonts.families):
        figure = new_figure()
        every = _grid(figure, len(joints), across)
        meshes = [panels.draw_map(*each, scale) for each in zip(every, values, strict=True)]
        _label(every, across, rows, columns)
        _head(every, joints, [fonts.shown(head) for head in heads])
        panels.draw_colour_bar(figure, meshes[0], every, scale)
        size = _size(len(joints), across, rows, columns)
        heat_map.write_around(figure, fonts, text, notes, size)
    return heat_map.finished(figure, fonts)


def _grid(figure: Any, count: int, across: int) -> list[Any]:
    shape = (math.ceil(count / across), across)
    grid = list(figure.subplots(*shape, squeeze=False, sharex=True, sharey=True).flat)
    for unused in grid[count:]:
        unused.remove()
    return grid[:count]


def _size(
    count: int, across: int, rows: Sequence[str], columns: Sequence[str]
) -> tuple[float, float]:
    """In inches, so that cells have room for their numbers."""
    below = panels.inches(columns) if panels.are_turned(columns) else 0.2
    wide = _AROUND + panels.inches(rows) + across * (panels.CELL_WIDTH * len(columns) + _GAP)
    high = panels.CELL_HEIGHT * len(rows) + _HEAD
    down = math.ceil(count / across)
    # where the last row has fewer panels, those above have labels too
    return max(_LEAST_WIDTH, wide), down * high + below * (1 + (count % across > 0)) + _FOOT


def _label(every: Sequence[Any], across: int, rows: Sequence[str], columns: Sequence[str]) -> None:
    for place, panel in enumerate(every):
        lowest = place + across >= len(every)
        panels.label_rows(panel, rows, "" if place % across else "blank 0")
        # slanted ones would reach below the panel before
        panels.label_columns(panel, columns, "blank 1" if lowest else "", angle=90)
        # panels share their axes, and the last row may have fewer of them
        panel.tick_params(labelleft=place % across == 0, labelbottom=lowest)


def _head(every: Sequence[Any], joints: Mapping[str, Joint], heads: Sequence[str]) -> None:
    for panel, head, joint in zip(every, heads, joints.values(), strict=True):
        style = construction_styles([joint.method])[joint.method]
        panel.set_title(head, loc="left", fontsize=NORMAL, color=style.colour)


def _check_axes(joints: Mapping[str, Joint]) -> None:
    if not joints:
        raise SupportError("there is no joint to compare; give {name: joint, ...}")
    (_, first), *others = joints.items()
    for joint in joints.values():
        heat_map.check_blanks(joint)
    for name, joint in others:
        pairs = zip(first.supports, joint.supports, strict=True)
        if not all(torch.equal(a.ids.cpu(), b.ids.cpu()) for a, b in pairs):
            raise SupportError(
                f"{quoted(name)} ranges over other tokens than the first joint: compare joints of "
                "one text and one support"
            )


def _common_text(joints: Mapping[str, Joint]) -> str:
    texts = {heat_map.text_of(joint) for joint in joints.values()}
    return texts.pop() if len(texts) == 1 else ""
