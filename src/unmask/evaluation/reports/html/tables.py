"""Tables of results in HTML, and the dot of colour that a construction has on the whole page."""

import math
from collections.abc import Mapping

from unmask.evaluation.reports.bootstrap import Estimate
from unmask.evaluation.reports.tables import Cell, Column, Table
from unmask.markup import Markup, element, joined, name, text

# beyond this a fixed number of digits is no longer readable
_LARGE = 1e7


def table_of(table: Table, colours: Mapping[str, str], *, caption: str) -> Markup:
    """A table as readers see it; differences that leave out zero are marked with a star."""
    shown = table.compact()
    head = element("tr", *(_head(column) for column in shown.columns))
    body = [
        element("tr", *(_cell(c, one, colours) for c, one in zip(shown.columns, row, strict=True)))
        for row in shown.rows
    ]
    return scrolled(
        element(
            "table",
            captioned(caption),
            element("thead", head),
            element("tbody", joined(body)),
        ),
        label=caption,
    )


def captioned(said: str) -> Markup:
    """The caption of a table, whose text stays in sight while the table moves."""
    return element("caption", element("span", text(said)))


def scrolled(table: Markup, *, label: str) -> Markup:
    """A table that is wider than a phone moves within its own frame, by the keyboard as well."""
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)


def construction(label: str, colours: Mapping[str, str]) -> Markup:
    """The name of a construction behind its colour, which figures have too."""
    return Markup(swatch(colours[label]) + name(label))


def swatch(colour: str) -> Markup:
    """A dot of a colour; it says nothing that the name beside it does not."""
    dot = element("circle", cx="5", cy="5", r="4", fill=colour)
    return element("svg", dot, class_="swatch", viewBox="0 0 10 10", aria_hidden="true")


def _head(column: Column) -> Markup:
    return element("th", name(column.name), scope="col")


def _cell(column: Column, cell: Cell, colours: Mapping[str, str]) -> Markup:
    if isinstance(cell, str):
        known = column.name == "construction" and cell in colours
        shown = construction(cell, colours) if known else name(cell)
        return element("th", shown, scope="row") if known else element("td", shown, class_="name")
    if isinstance(cell, Estimate):
        marked = column.signed and cell.leaves_out_zero()
        return element("td", _estimate(column, cell), class_="apart" if marked else False)
    return element("td", text("" if cell is None else _number(column, cell)))


def _estimate(column: Column, cell: Estimate) -> Markup:
    value = text(_number(column, cell.value))
    if math.isnan(cell.low):
        return value
    ends = f"[{_number(column, cell.low)}, {_number(column, cell.high)}]"
    star = " *" if column.signed and cell.leaves_out_zero() else ""
    return Markup(f"{value} {element('span', text(ends), class_='interval')}{star}")


def _number(column: Column, value: int | float) -> str:
    if isinstance(value, int):
        return str(value)
    sign = "+" if column.signed else ""
    kind = "f" if abs(value) < _LARGE or not math.isfinite(value) else "e"
    return f"{value:{sign}.{column.digits}{kind}}"
