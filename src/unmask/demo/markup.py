"""Pieces of HTML with all texts escaped; whole pages are templates of their own.

Texts go in through `text` and `element`'s attributes, which escape them; what is already markup is
a `Markup`, so that mypy sees where one is taken for the other.
"""

from collections.abc import Iterable
from typing import NewType

from unmask import table_cells

Markup = NewType("Markup", str)


def text(value: str) -> Markup:
    """A text that is shown, whatever it holds."""
    return Markup(table_cells.html(value))


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
    return f" {shown}" if value is True else f' {shown}="{table_cells.html(str(value))}"'
