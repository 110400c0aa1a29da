"""HTML by templates, in which everything that is not markup is escaped."""

import unicodedata
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from unmask.printable import printable

# quotation marks too, so that a text is inert in an attribute as well
_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}


def escaped(value: str) -> str:
    """A text for HTML, between tags or in a quoted attribute: neither a tag nor its end.

    A mark that combines with what stands before it is written as a number where it is first: a
    program that normalises the file would make one character of it and the markup.
    """
    shown = "".join(_SPECIAL.get(ch, ch) for ch in printable(value))
    if shown and unicodedata.category(shown[0]).startswith("M"):
        return f"&#x{ord(shown[0]):x};{shown[1:]}"
    return shown


def templates(package: str) -> Environment:
    """The templates of a package."""
    return Environment(
        loader=FunctionLoader(lambda file: asset(package, file)),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(package: str, file: str) -> str:
    """A file of a package; line ends as a browser sees them, since it hashes them."""
    return "\n".join(files(package).joinpath(file).read_text(encoding="utf-8").splitlines())


def _inert(value: object) -> Markup:
    """Whatever a template shows that is not markup: escaped, controls and overrides visible."""
    return value if isinstance(value, Markup) else Markup(escaped(str(value)))
