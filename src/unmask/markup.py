"""Pieces of HTML with all texts escaped; whole pages are templates of their own.

Texts go in through `text` and `element`'s attributes, which escape them; what is already markup is
a `Markup`, so that mypy sees where one is taken for the other.
"""

import unicodedata
from collections.abc import Iterable
from typing import NewType

from unmask.printable import printable

Markup = NewType("Markup", str)

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


def text(value: str) -> Markup:
    """A text that is shown, whatever it holds."""
    return Markup(escaped(value))


def name(value: str) -> Markup:
    """A name from outside, whose writing direction stays within it."""
    return element("bdi", text(value))


def element(tag: str, *content: Markup, **attributes: str | bool) -> Markup:
    """A tag with its content; `class_` is class, underscores are hyphens.

    An attribute that is True has no value, one that is False or empty is left out.
    """
    said = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not False
    )
    return Markup(f"<{tag}{said}>{''.join(content)}</{tag}>")


def joined(parts: Iterable[Markup], between: str = "\n") -> Markup:
    """Several pieces after each other."""
    return Markup(between.join(parts))


def _attribute(key: str, value: str | bool) -> str:
    shown = key.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{escaped(str(value))}"'
