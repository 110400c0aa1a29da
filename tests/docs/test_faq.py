"""The messages that the page of questions quotes are those that the package prints."""

import ast
import re

import pytest
from reading_pages import ROOT

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


def strings() -> list[str]:
    """Every string of the package."""
    return [
        text
        for file in sorted((ROOT / "src").rglob("*.py"))
        for text in templates(file.read_text(encoding="utf-8"))
    ]


def said(quote: str, strings: list[str]) -> bool:
    """Whether one string has all that is between the dots, in that order."""
    parts = [part for part in re.split(r"\.\.\.", quote) if len(part.strip(" ,:;")) > 2]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    # to look for the first part alone is quick
    return any(parts[0] in text and pattern.search(text) for text in strings)


@pytest.mark.slow
def test_quoted_messages_are_printed() -> None:
    assert len(QUOTED) >= 15
    texts = strings()
    assert [quote for quote in QUOTED if not said(quote, texts)] == []
