r"""Names made inert for a Markdown, LaTeX or CSV cell.

Control characters, right-to-left overrides and the like are first shown escaped, as everywhere
(`unmask.printable`), so no cell can hold a line break; then come the format's own specials.
"""

import re

from unmask.printable import printable

_MARKDOWN = {
    **{ch: f"\\{ch}" for ch in "\\`*_[]|~$"},
    # entities, because a backslash does not stop raw HTML in every renderer
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
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
# what spreadsheets take for the start of a formula, the full-width forms included
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def markdown(text: str) -> str:
    """The text for a cell of a Markdown table: neither markup, nor HTML, nor a column more."""
    return "".join(_MARKDOWN.get(ch, ch) for ch in printable(text))


def latex(text: str) -> str:
    """The text for LaTeX: no command, no comment, no column more."""
    return "".join(_LATEX.get(ch, ch) for ch in printable(text))


def csv(text: str) -> str:
    """The text for a CSV cell that a spreadsheet opens: a formula becomes text behind a quote.

    Numbers stay as they are. Commas and quotes are left to the csv module.
    """
    risky = text.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return ("'" if risky else "") + printable(text)
