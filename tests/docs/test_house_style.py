"""The house style of names and messages, as far as it can be read from the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from reading_pages import DOCS

PACKAGE = Path(__file__).parents[2] / "src" / "unmask"
MODULES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
OPTION = re.compile(r"(?<![\w-])--[a-z{]")
PYTHON = re.compile(r"\b[a-z_]+(?:=(?:$|[^=\s])|\.[a-z_]+\()|\b(?:None|True|False)\b")
# a card repeats the command line that made it, the harness is given its own, and
# `ray start --head` is a command of Ray
COMMAND_LINES = {"harness.py", "sequences/consistency/statistics.py"}
FOREIGN = ("ray start --head",)


def _strings(node: ast.AST) -> Iterator[str]:
    """What an expression writes out: an f-string is one string, with {} for its values."""
    if isinstance(node, ast.JoinedStr):
        parts = node.values
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        for part in parts:
            if isinstance(part, ast.FormattedValue):
                yield from _strings(part.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)


def _is_message(node: ast.AST) -> bool:
    warns = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")
    return warns or isinstance(node, ast.Raise)


def _messages(module: ast.AST) -> Iterator[str]:
    """Every text in what is raised or warned of."""
    for node in ast.walk(module):
        if _is_message(node):
            yield from _strings(node)


def _without_docstrings(module: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield from _strings(node) if isinstance(node, ast.expr) else _without_docstrings(node)


def test_the_library_names_arguments_and_no_options() -> None:
    assert [
        f"{path}: {text}"
        for path, module in MODULES.items()
        if not path.startswith("cli/") and path not in COMMAND_LINES
        for text in _without_docstrings(module)
        if OPTION.search(text) and not any(command in text for command in FOREIGN)
    ] == []


def test_the_command_line_names_options_and_no_python() -> None:
    assert [
        f"{path}: {text}"
        for path, module in MODULES.items()
        if path.startswith("cli/")
        for text in _messages(module)
        if PYTHON.search(text)
    ] == []


def test_messages_that_the_page_of_questions_quotes_are_printed() -> None:
    quotes = re.findall(r"^> `(.*)`$", (DOCS / "faq.md").read_text("utf-8"), re.MULTILINE)
    assert len(quotes) >= 15
    texts = [
        text
        for module in MODULES.values()
        for node in ast.walk(module)
        if isinstance(node, ast.JoinedStr | ast.Constant)
        for text in _strings(node)
    ]
    for quote in quotes:
        # one string has all that is between the dots, in that order
        parts = [part for part in quote.split("...") if len(part.strip(" ,:;")) > 2]
        pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
        # to look for the first part alone is quick
        assert any(parts[0] in text and pattern.search(text) for text in texts), quote
