"""A joint as a picture: a heat map of two blanks with their marginals, or the bars of one."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import SupportError, UnmaskError
from unmask.joints.joint import CELLS_RANKED_IN_TEXT, Joint
from unmask.markup import html_table
from unmask.plots import panels, tokens
from unmask.plots.fonts import Fonts, drawing
from unmask.plots.saving import library
from unmask.plots.styles import LARGE, NORMAL, SMALL, style_of
from unmask.plots.tokens import Cells
from unmask.printable import printable, quoted, width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# in inches: what is beside and above the cells except labels, title and notes, and the bars
_AROUND_WIDTH, _AROUND_HEIGHT, _BARS = 1.3, 0.9, 0.75
_LEAST_WIDTH = 5.0
_LONGEST_TEXT = 140
# more would be a carpet, and take minutes to write as SVG
_MOST_TOKENS = 100
_KINDS = ("probability", "pmi")
# fills in a notebook
_ROWS = 10


def plot(joint: Joint, n: int = 12, *, kind: str = "probability") -> "Figure":
    """The likeliest tokens of both blanks against each other, or of one blank in order.

    `unmask.plots.tokens` explains which tokens are shown.

    Args:
        joint: A joint over one blank or two.
        n: How many tokens of each blank.
        kind: "probability", or "pmi" in nats.
    Returns:
        A figure of matplotlib, which notebooks show.
    Raises:
        SupportError: The joint has more than two blanks.
    Examples:
        >>> figure = unmask.plots.plot(joint, n=6, kind="pmi")
    """
    if len(joint.supports) == 1:
        return _one_blank(joint, n, kind)
    check([joint], n, kind)
    cells = tokens.shown_cells([joint], n)
    return _two_blanks(joint, cells, values_of(joint, cells, kind), kind)


def to_html(joint: Joint) -> str:
    """The likeliest fills of a joint with their errors, and J in words, for notebooks."""
    head, *_ = repr(joint)[1:].splitlines()
    is_cheap = joint.is_tabulated() and math.prod(joint.shape) <= CELLS_RANKED_IN_TEXT
    fills = joint.top(min(_ROWS, math.prod(joint.shape))) if is_cheap else []
    names = [f"blank {number}" for number in range(len(joint.shape))]
    rows = [[*map(tokens.label, fill.tokens), fill.written(4)] for fill in fills]
    notes = [f"{head.removesuffix('>')}."]
    if (agreement := joint.agreement()) is not None:
        error = joint.standard_errors()["incompatibility"] if joint.is_sketched() else None
        notes.append(f"{agreement.said(error)}.")
    if isinstance(passes := joint.diagnostics.get("forward_passes"), int):
        notes.append(f"Forward passes: {passes:,}.")
    text = str(joint.diagnostics.get("text", ""))
    bars = [fill.probability for fill in fills]
    return html_table(text, [*names, "probability"], rows, notes, bars)


def check(joints: Iterable[Joint], n: object, kind: str) -> None:
    """Reject what cannot be drawn as heat maps, before the model runs."""
    _check_options(n, kind)
    for joint in joints:
        if len(joint.supports) != 2:
            raise SupportError(
                f"a heat map shows two blanks, and this joint has {len(joint.supports)}: draw two "
                "of them with joint.marginal(a, b).plot()"
            )
        if kind == "pmi" and not joint.is_tabulated():
            raise UnmaskError(
                f"the pmi of {printable(joint.method)} needs the sums over both blanks, "
                f"{sum(joint.shape):,} forward passes: call joint.marginal(0), which runs them, or "
                "draw kind='probability'"
            )


def _check_options(n: object, kind: str) -> None:
    number = whole_number(n)
    if number is None or not 1 <= number <= _MOST_TOKENS:
        raise SupportError(
            f"a figure shows 1 to {_MOST_TOKENS} tokens per blank, not {quoted(n)}; take n=12"
        )
    if kind not in _KINDS:
        raise UnmaskError(f"kind is {' or '.join(_KINDS)}, not {quoted(kind)}")
    library("matplotlib.figure")


def values_of(joint: Joint, cells: Cells, kind: str) -> Tensor:
    """The values in the cells of a map."""
    if kind == "pmi":
        return tokens.pmi(joint, cells)
    return tokens.log_cells(joint, cells).exp()


def text_of(joint: Joint) -> str:
    """The text that the joint is of, if it knows, on one line and shortened."""
    text = joint.diagnostics.get("text")
    return quoted(text, limit=_LONGEST_TEXT)[1:-1] if isinstance(text, str) else ""


def notes_of(
    joints: Mapping[str, Joint], values: Sequence[Tensor], scale: panels.Scale
) -> Iterator[str]:
    """Notes that a reader needs about the cells, and how far to trust them."""
    # only PMI goes below 0
    if scale.low < 0:
        yield "PMI above 0: likelier together than if the blanks were independent."
    else:
        yield from _about_probabilities(joints, values, scale)
    joint, *others = joints.values()
    if not others and not joint.is_tabulated():
        yield (
            f"Tokens of the likeliest pairs; no marginals, which would take {sum(joint.shape):,} "
            "forward passes."
        )
    agreements = {name: joint.agreement() for name, joint in joints.items()}
    notes = {name: f"{words}." for name, words in agreements.items() if words is not None}
    if len(set(notes.values())) == 1:
        yield next(iter(notes.values()))
    else:
        yield from (f"{printable(name)}: {words}" for name, words in notes.items())


def _about_probabilities(
    joints: Mapping[str, Joint], values: Sequence[Tensor], scale: panels.Scale
) -> Iterator[str]:
    written = [scale.written(p) for cells in values for p in cells.reshape(-1).tolist()]
    if any(written):
        decimals = max(len(text.partition(".")[2]) for text in written)
        small = f"; empty ones are below {0.5 * 10**-decimals:g}%" if "" in written else ""
        yield f"Numbers in cells are percentages{small}."
    held = [f"{100 * float(cells.sum()):.3g}%" for cells in values]
    if len(held) == 1:
        yield f"All pairs shown have {held[0]} of the probability."
    else:
        each = ", ".join(f"{printable(name)} {p}" for name, p in zip(joints, held, strict=True))
        yield f"Of the probability, all pairs shown have: {each}."


def write_around(
    figure: Any, fonts: Fonts, text: str, notes: Iterable[str], size: tuple[float, float]
) -> None:
    """The title above and the notes below, in lines that fit, and the size of it all in inches."""
    wide, high = max(_LEAST_WIDTH, size[0]), size[1]
    title = _lines(fonts.shown(text), wide * 11)
    lines = [line for note in notes for line in _lines(fonts.shown(note), wide * 17)]
    if title:
        figure.suptitle("\n".join(title), fontsize=LARGE)
    if lines:
        figure.supxlabel("\n".join(lines), fontsize=SMALL, color="#444444", linespacing=1.4)
    figure.set_size_inches(wide, high + 0.18 * len(title) + 0.16 * len(lines))


def _lines(text: str, cells: float) -> list[str]:
    """Lines that are so wide at most; characters of some scripts take two cells."""
    return wrap(text, max(20, int(cells * len(text) / max(1, width(text)))))


def _two_blanks(joint: Joint, cells: Cells, values: Tensor, kind: str) -> "Figure":
    text, method = text_of(joint), printable(joint.method)
    labels, scale = tokens.cell_labels(joint, cells), panels.scale_of(kind, [values])
    with drawing([text, method, *chain(*labels)]) as (figure, fonts):
        rows, columns = ([*map(fonts.shown_label, names)] for names in labels)
        panel, every = _with_bars(figure, joint, cells, fonts.shown(method))
        panels.draw_colour_bar(figure, panels.draw_map(panel, values, scale), every, scale)
        panels.label_rows(panel, rows, "first blank")
        panels.label_columns(panel, columns, "second blank")
        bars = _BARS * (len(every) > 1)
        wide = _AROUND_WIDTH + panels.inches(rows) + bars + panels.CELL_WIDTH * len(columns)
        high = _AROUND_HEIGHT + bars + panels.CELL_HEIGHT * len(rows)
        # labels are slanted
        high += 0.7 * panels.inches(columns) if panels.are_turned(columns) else 0
        notes = notes_of({joint.method: joint}, [values], scale)
        write_around(figure, fonts, text, notes, (wide, high))
    return figure


def _with_bars(figure: Any, joint: Joint, cells: Cells, title: str) -> tuple[Any, Any]:
    """The panel of the map, and all panels: with both marginals at its sides if they are free."""
    colour = style_of(joint.method).colour
    head = {"loc": "left", "fontsize": NORMAL, "color": colour}
    if not joint.is_tabulated():
        panel = figure.subplots()
        panel.set_title(title, **head)
        return panel, [panel]
    across = (panels.CELL_WIDTH * len(cells.columns), _BARS)
    down = (_BARS, panels.CELL_HEIGHT * len(cells.rows))
    shape = {"sharex": "col", "sharey": "row", "width_ratios": across, "height_ratios": down}
    (top, corner), (panel, side) = figure.subplots(2, 2, **shape)
    corner.remove()
    for axis, (bar_panel, ids) in enumerate(((side, cells.rows), (top, cells.columns))):
        places = tokens.places(joint, axis, ids)
        marginal = tokens.log_marginal(joint, axis)[places].exp().tolist()
        panels.draw_bars(bar_panel, marginal, colour, horizontal=axis == 0)
    # not its title, for which the layout would part the map from the bars above
    label_place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    name = side.annotate("first blank\nalone, %", (0, 1), (0, 3), fontsize=SMALL, **label_place)
    name.set_in_layout(False)
    top.set_ylabel("second blank\nalone, %", fontsize=SMALL)
    top.tick_params(labelbottom=False)
    side.tick_params(labelleft=False)
    top.set_title(title, **head)
    return panel, [top, panel, side]


def _one_blank(joint: Joint, n: int, kind: str) -> "Figure":
    _check_options(n, kind)
    if kind != "probability":
        raise UnmaskError("one blank has no pmi: draw kind='probability'")
    fills = joint.top(min(n, math.prod(joint.shape)))
    text, names = text_of(joint), [tokens.label(fill.tokens[0]) for fill in fills]
    with drawing([text, *names]) as (figure, fonts):
        panel: Any = figure.subplots()
        values = [fill.probability for fill in fills]
        panels.draw_bars(panel, values, style_of(joint.method).colour, horizontal=True)
        panels.label_rows(panel, [*map(fonts.shown_label, names)], "")
        panel.set_ylim(len(fills) - 0.5, -0.5)
        panel.set_xlabel("probability, %", fontsize=NORMAL)
        write_around(figure, fonts, text, [], (0, 0.5 + panels.CELL_HEIGHT * len(fills)))
    return figure
