"""Formulas as MathML, made while the site is built: browsers show it without scripts or fonts.

A formula that cannot be made is a warning of its page, which `-W` turns into a failed build.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

# what the library leaves to be mended: names of functions stand apart from their neighbours, unless
# these are parentheses that open or a sign; and a prime is a sign of its own height
_NAME = r"<mi>(?:log|ln|exp|max|min)</mi>"
_BASE = rf"(?:<msub>{_NAME}(?:(?!</?msub>).)*</msub>|(?<!<msub>){_NAME})"
_FUNCTION = re.compile(
    rf"((?:&#x00029;</mo>|</mi>|</mn>|</mfrac>)?)({_BASE})(?!<mo[^>]*>&#x00028;)"
)
_GAP = '<mspace width="0.167em" />'
_PRIME = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
_RAISED = r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>'


def mathml(latex: str, *, block: bool) -> str:
    """A formula of LaTeX as an element of a page; ValueError where it has what is not known."""
    try:
        made = convert(latex, display="block" if block else "inline")
    except Exception as error:  # the library has many, without a base of their own
        raise ValueError(f"{latex!r} is not a formula: {type(error).__name__}") from error
    # a command that the library does not know is text to it
    if unknown := re.findall(r"\\\w+", made):
        raise ValueError(f"{latex!r} has {unknown[0]}, which is not known")
    made = _FUNCTION.sub(lambda found: _apart(found[1], found[2]), made)
    return _PRIME.sub(_RAISED, made)


def _apart(before: str, name: str) -> str:
    return f"{before}{_GAP if before else ''}{name}{_GAP}"


def show_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula into a line."""
    writer.body.append(_shown(node, block=False))
    raise nodes.SkipNode


def show_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands alone; one that is too wide can be scrolled."""
    writer.body.append(f'<div class="formula">{_shown(node, block=True)}</div>\n')
    raise nodes.SkipNode


def _shown(node: nodes.Element, *, block: bool) -> str:
    try:
        return mathml(node.astext(), block=block)
    except ValueError as error:
        logging.getLogger(__name__).warning(str(error), location=node)
        return ""


def setup(app: Sphinx) -> ExtensionMetadata:
    """Take part in the build."""
    app.add_html_math_renderer("mathml", (show_inline, None), (show_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
