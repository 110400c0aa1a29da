"""The messages that the page of questions quotes are those that the package prints."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^> `(.*)`$", PAGE, re.MULTILINE)


def templates(source: str) -> list[str]:
    """Every string of a module, with `...` where an f-string has a value."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [
                part.value if isinstance(part, ast.Constant) else "..." for part in node.values
            ]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


@cache
def strings() -> list[str]:
    """Of the package; read when a test asks, for every process imports this file."""
    return [
        text
        for file in sorted((ROOT / "src").rglob("*.py"))
        for text in templates(file.read_text(encoding="utf-8"))
    ]


def said(quote: str, strings: list[str]) -> bool:
    """Whether one string has all that is between the dots, in that order."""
    parts = [part for part in re.split(r"\.\.\.", quote) if len(part.strip(" ,:;")) > 2]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    return any(pattern.search(text) for text in strings)


def test_templates_have_dots_where_values_are() -> None:
    assert "no ... here and there" in templates('raise E(f"no {value} here "\n "and there")')
    assert said("no ... here", ["no ... here and there"])
    assert not said("no ... where", ["no ... here and there"])


@pytest.mark.slow
@pytest.mark.parametrize("quote", QUOTED)
def test_a_quoted_message_is_printed(quote: str) -> None:
    assert said(quote, strings()), quote


def test_there_are_messages() -> None:
    assert len(QUOTED) >= 15
