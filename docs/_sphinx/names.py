"""Signatures that a person can read: the names of types in place of all that they stand for.

Annotations are values when autodoc sees them, and an alias is then a union of everything it allows.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.util.typing import ExtensionMetadata, stringify_annotation

# explained in reference/types.md
ALIASES = {
    "Axes": "unmask.queries.joint_model",
    "Proposed": "unmask.queries.joint_model",
    "Candidates": "unmask.text.candidates",
    "Targets": "unmask.queries.word_targets",
    "PiecePrior": "unmask.queries.word_targets",
    "Blank": "unmask.text.spans",
    "Token": "unmask.text.support",
    "Options": "unmask.arguments",
}


@cache
def spelled_out() -> list[tuple[str, str]]:
    """What autodoc writes for each alias, the longest first: some stand inside others."""
    texts = [
        (stringify_annotation(getattr(import_module(module), name), "smart"), name)
        for name, module in ALIASES.items()
    ]
    return sorted(texts, key=lambda text: -len(text[0]))


def shorten(
    _app: Sphinx,
    _kind: str,
    _name: str,
    _value: object,
    _options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Put the names of aliases where a signature spells them out."""
    return _short(signature), _short(returned)


def _short(text: str | None) -> str | None:
    # what a dataclass makes anew has no value to show, and `<factory>` is no Python
    text = text.replace("<factory>", "...") if text else text
    for long, name in spelled_out() if text else ():
        text = text.replace(long, name) if text else text
    return text


def name_role(
    _role: str,
    raw: str,
    text: str,
    line: int,
    inliner: Any,
    options: Any = None,
    content: Sequence[str] = (),
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """What docstrings put in backticks: a class links to itself, anything else is code.

    An argument may have the name of a method, and must not link to that.
    """
    if text[:1].isupper():
        return PyXRefRole()("py:obj", raw, text, line, inliner, options or {}, content)
    return [nodes.literal(raw, text)], []


def setup(app: Sphinx) -> ExtensionMetadata:
    """Take part in the build."""
    app.add_role("name", name_role)
    app.connect("autodoc-process-signature", shorten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
