"""Cells of tables that hold numbers: a class, so that intervals are not broken between lines."""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_NUMBERS = re.compile(r"[-+−±\d.,:%\[\]() ]*\d[-+−±\d.,:%\[\]() ]*")


def mark_numbers(_app: Sphinx, doctree: nodes.document) -> None:
    """Give the class `number` to cells without a word."""
    for cell in doctree.findall(nodes.entry):
        if _NUMBERS.fullmatch(cell.astext().strip()):
            cell["classes"].append("number")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Take part in the build."""
    app.connect("doctree-read", mark_numbers)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
