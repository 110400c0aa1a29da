r"""Names made inert for a Markdown, LaTeX or CSV cell, and texts for HTML.

Control characters, right-to-left overrides and the like are first shown escaped, as everywhere
(`unmask.printable`), so no cell can hold a line break; then come the format's own specials.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from unmask.printable import printable

_MARKDOWN = {
    **{ch: f"\\{ch}" for ch in "\\`*_[]|~$"},
    # entities, because a backslash does not stop raw HTML in every renderer
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
# quotation marks too, so that a text is inert in an attribute as well
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_LONGEST_TITLE = 300
# of the longest bar, in the height of a letter
_WIDEST_BAR = 8
_BAR = (
    '<span style="display:inline-block;width:{:.2f}em;height:0.7em;background:currentColor;'
    'opacity:0.5"></span>'
)
_LATEX = {
    **{ch: f"\\{ch}" for ch in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # right after the end of a row these would be taken for its arguments
    **{ch: f"{{{ch}}}" for ch in "[]*"},
}
# controls, halves of surrogate pairs, line separators, and what turns the direction of all that
# follows; joiners and wide spaces are how many scripts are written
_ACTS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]")
# no number, but what spreadsheets take for the start of a formula, the full-width forms included
_FORMULA = re.compile(
    r"(?![+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z) *[=+\-@\t\r\n＝＋－＠]", re.ASCII
)
# an apostrophe makes a cell text, and no other program writes a backslash behind it
_INERT = "'\\"
_MARKED = re.compile(rf"{_FORMULA.pattern}|{re.escape(_INERT)}", re.ASCII)


def markdown(text: str) -> str:
    """The text for a cell of a Markdown table: neither markup, nor HTML, nor a column more."""
    return "".join(_MARKDOWN.get(ch, ch) for ch in printable(text))


def html(text: str) -> str:
    """The text for HTML, between tags or in a quoted attribute: neither a tag nor its end.

    A mark that combines with what stands before it is written as a number where it is first: a
    program that normalises the file would make one character of it and the markup.
    """
    escaped = "".join(_HTML.get(ch, ch) for ch in printable(text))
    if escaped and unicodedata.category(escaped[0]).startswith("M"):
        return f"&#x{ord(escaped[0]):x};{escaped[1:]}"
    return escaped


def html_table(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str],
    bars: Sequence[float] = (),
) -> str:
    """A table that notebooks show, its title above, notes below; a bar ends each row, if any.

    It reads well without styles. Nothing has a colour of its own, so that a dark page shows it too:
    bars are in the colour of the text, half transparent.
    """
    if len(title) > _LONGEST_TITLE:
        title = f"{title[:_LONGEST_TITLE]}..."
    lines = [f"<tr>{''.join(f'<th>{html(name)}</th>' for name in head)}</tr>"]
    for number, row in enumerate(rows):
        cells = "".join(f'<td dir="auto">{html(cell)}</td>' for cell in row)
        if bars:
            share = max(0.0, bars[number]) / max(*bars, 1e-9, 0.0)
            cells += f'<td style="text-align:left">{_BAR.format(_WIDEST_BAR * share)}</td>'
        lines.append(f"<tr>{cells}</tr>")
    table = f"<table>{''.join(lines)}</table>" if len(lines) > 1 else ""
    below = "".join(f"<div>{html(note)}</div>" for note in notes if note)
    return f"<div><div><b>{html(title)}</b></div>{table}{below}</div>"


def latex(text: str) -> str:
    """The text for LaTeX: no command, no comment, no column more."""
    return "".join(_LATEX.get(ch, ch) for ch in printable(text))


def data_cell(text: str, *, tabs: bool = False) -> str:
    r"""The text for a CSV or TSV cell that is read again: controls and formulas aside.

    Controls are shown escaped, but a tab and line ends only where cells end at them (`tabs`): the
    csv module quotes them. What a spreadsheet would take for a formula stands behind `'\`, which
    `from_data_cell` removes.
    """
    plain = "" if tabs else "\t\n\r"
    for ch in {*_ACTS.findall(text)} - {*plain}:
        text = text.replace(ch, printable(ch))
    return (_INERT if _MARKED.match(text) else "") + text


def from_data_cell(text: str) -> str:
    """The text of a cell without the mark that `data_cell` put before it."""
    rest = text.removeprefix(_INERT)
    return rest if rest != text and _MARKED.match(rest) else text


def csv(text: str) -> str:
    """The text for a CSV cell that a spreadsheet opens: a formula becomes text behind a quote.

    Numbers stay as they are. Commas and quotes are left to the csv module.
    """
    return ("'" if _FORMULA.match(text) else "") + printable(text)
