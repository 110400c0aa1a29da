"""Figures as SVG within a page: several of them next to each other, and no style of theirs.

matplotlib writes an SVG as a document of its own. Here its ids become unique, and its style
attributes plain attributes, since the page's policy forbids inline styles.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING

from markupsafe import Markup

from unmask.evaluation.reports.distance import DistanceBin
from unmask.evaluation.reports.figures import described, distance_figure
from unmask.plots.saving import library, write_figure
from unmask.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHOUT = (
    "The figure of these numbers needs matplotlib: pip install 'unmask[plots]', and make this"
    " page again."
)
_ONE_BIN = "All examples are in one bin of distances, so there is nothing to draw."
_NO_BASELINE = "There are no differences to a baseline, so there is nothing to draw by distance."
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
# matplotlib puts these into a style element, which would apply to the whole page
_INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
_LEFT_OUT = ("metadata", "style")


def chart(bins: Sequence[DistanceBin], *, key: str, title: str, axis_label: str) -> str:
    """The figure of one setting's bins as markup, or the reason why there is none.

    Its ids begin with `key`.
    """
    if not bins:
        return _NO_BASELINE
    if len({(one.first, one.last) for one in bins}) < 2:
        return _ONE_BIN
    if find_spec("matplotlib") is None:
        return WITHOUT
    figure = distance_figure(bins, title=title, axis_label=axis_label)
    label = described(bins, title=title, axis_label=axis_label)
    return drawn(figure, key=key, label=label)


def drawn(figure: "Figure", *, key: str, label: str) -> Markup:
    """A figure of matplotlib's as an element of a page."""
    written = BytesIO()
    with library("matplotlib").rc_context({"svg.fonttype": "path"}):
        write_figure(figure, written, ".svg")
    return inline(written.getvalue(), key=key, label=label)


def inline(document: bytes, *, key: str, label: str) -> Markup:
    """An SVG document as an element of a page; ids begin with `key`, comments are gone."""
    root = ElementTree.fromstring(document)
    for parent in list(root.iter()):
        for child in [one for one in parent if _local(one.tag) in _LEFT_OUT]:
            parent.remove(child)
    for one in root.iter():
        one.tag = _local(one.tag)
        one.attrib = _attributes(one.attrib, key)
        one.text, one.tail = (text and text.strip() for text in (one.text, one.tail))
    root.attrib = {"viewBox": root.attrib["viewBox"], **_INHERITED, "role": "img"}
    root.attrib["aria-label"] = printable(label)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _attributes(style: dict[str, str], key: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for full, value in style.items():
        match _local(full):
            case "id":
                attributes["id"] = f"{key}-{value}"
            case "href":
                attributes["href"] = f"#{key}-{value.removeprefix('#')}"
            case "style":
                attributes |= _declarations(value, key)
            case other:
                attributes[other] = _pointing(value, key)
    return attributes


def _declarations(style: str, key: str) -> dict[str, str]:
    pairs = [one.split(":", 1) for one in style.split(";") if ":" in one]
    return {what.strip(): _pointing(value.strip(), key) for what, value in pairs}


def _pointing(value: str, key: str) -> str:
    # paths are long texts with line breaks of no meaning
    return _REFERENCE.sub(rf"url(#{key}-\1)", " ".join(value.split()))


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
