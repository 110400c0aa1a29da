"""Every formula of the documentation is made, and a browser draws it."""

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _sphinx.formulas import mathml
from browser import browser, opened, screenshot  # noqa: F401
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from reading_pages import DOCS, pages, text_of


def _all(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or [])


def formulas(page: Path) -> list[tuple[str, bool]]:
    """The formulas of a page, and whether each stands alone."""
    reader = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, allow_space=False)
    return [
        (token.content, token.type == "math_block")
        for token in _all(reader.parse(text_of(page)))
        if token.type in ("math_inline", "math_block")
    ]


@cache
def of_all_pages() -> dict[Path, list[tuple[str, bool]]]:
    """Read when a test asks: every process that shares the tests imports this file."""
    return {page: found for page in pages() if (found := formulas(page))}


@pytest.mark.slow
def test_every_formula_is_made() -> None:
    for latex, block in itertools.chain.from_iterable(of_all_pages().values()):
        assert mathml(latex, block=block).startswith("<math "), latex
        # GitHub's Markdown takes the backslash away from these
        assert not re.search(r"\[^a-zA-Z]", latex), latex
        # a command that GitHub refuses
        assert "operatorname" not in latex, latex


@pytest.mark.parametrize("latex", [r"\unheardof{a}", r"\frac{1}{", "a_"])
def test_what_cannot_be_made_is_named(latex: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(latex)[1:-1])):
        mathml(latex, block=False)


@pytest.mark.slow
def test_a_browser_draws_formulas(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    made = [
        mathml(latex, block=block) for found in of_all_pages().values() for latex, block in found
    ]
    style = (DOCS / "_static" / "site.css").read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    body = "".join(f'<div class="formula">{one}</div>' for one in made)
    head = f"<!doctype html><meta charset=utf-8><title>x</title><style>{style}</style>"
    page.write_text(head + body, encoding="utf-8")
    with opened(browser, page) as shown:
        boxes = [one.bounding_box() for one in shown.query_selector_all("math")]
        assert len(boxes) == len(made)
        assert all(box["width"] > 5 and box["height"] > 5 for box in boxes)
        # a fraction is two lines high: it is drawn, and not its letters in a row
        plain, fraction = mathml("a b", block=True), mathml(r"\frac{a}{b}", block=True)
        shown.set_content(f"<div id=a>{plain}</div><div id=b>{fraction}</div>")
        heights = [shown.query_selector(f"#{name} math").bounding_box()["height"] for name in "ab"]
        assert heights[1] > 1.5 * heights[0]
        screenshot(shown, "formulas")
