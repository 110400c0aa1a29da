"""Tutorials are notebooks whose code compiles, all of it shown.

Building the documentation runs them, and test_tutorial_claims.py asks what they made; here nothing
is run.
"""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("myst_nb")

from IPython.core.inputtransformer2 import TransformerManager
from myst_nb.core.read import read_myst_markdown_notebook
from nbformat import NotebookNode

import unmask
from unmask.cli import _parser

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "quick-start.md", *sorted((DOCS / "tutorials").glob("*.md"))]
sys.path.insert(0, str(DOCS))

from _sphinx.kernels import MODELS  # noqa: E402

SHOWN = re.compile(r"^```python\n(?:(?!```).*\n)*```\n\n```text\n", re.MULTILINE)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def notebook(page: Path) -> NotebookNode:
    return read_myst_markdown_notebook(page.read_text(encoding="utf-8"))


def cells(page: Path) -> list[str]:
    """The sources of a page's cells."""
    return [cell.source for cell in notebook(page).cells if cell.cell_type == "code"]


def compiled(source: str) -> ast.Module:
    # shell commands and magics become calls, as in a notebook
    return ast.parse(TransformerManager().transform_cell(source))


def code(page: Path) -> Iterator[ast.AST]:
    for source in cells(page):
        yield from ast.walk(compiled(source))


def commands(page: Path) -> Iterator[list[str]]:
    for node in code(page):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "get_ipython().system":
            words = shlex.split(ast.literal_eval(node.args[0]))
            if words[0] == "unmask":
                yield words[1 : words.index("2>") if "2>" in words else None]


def test_every_page_is_there() -> None:
    assert {page.stem for page in PAGES} == {
        "quick-start",
        "two-blanks",
        "compare-constructions",
        "evaluate-your-model",
        "protein-pairs",
        "variants",
        "dependence",
        "several-blanks",
    }


@every_page
def test_a_page_is_a_notebook_that_python_runs(page: Path) -> None:
    about = notebook(page).metadata
    assert about["file_format"] == "mystnb"
    assert about["kernelspec"]["name"] == "python3"
    assert len(cells(page)) >= 5


@every_page
def test_what_is_shown_was_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    # outputs that the build does not make stand under their code, and are held by another test
    assert len(re.findall(r"^```(?:python|console)", text, re.MULTILINE)) == len(
        SHOWN.findall(text)
    )
    assert len(re.findall(r"outputs\s+will\s+differ|yours\s+will\s+differ", text)) == 1


@every_page
def test_cells_compile_and_none_is_hidden(page: Path) -> None:
    assert all(compiled(source).body for source in cells(page))
    # on GitHub nothing is hidden, so that a reader there would see it
    assert "remove-" not in page.read_text(encoding="utf-8")


@every_page
def test_claims_have_a_test(page: Path) -> None:
    claims = (Path(__file__).parent / "test_tutorial_claims.py").read_text(encoding="utf-8")
    assert f"def test_{page.stem.replace('-', '_')}(tutorial" in claims


@every_page
def test_names_and_models_exist(page: Path) -> None:
    for node in code(page):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "unmask":
            assert hasattr(unmask, node.attr), node.attr
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "unmask.load":
            assert ast.literal_eval(node.args[0]) in MODELS


@pytest.mark.parametrize("stem", ["quick-start", "evaluate-your-model"])
def test_commands_are_understood(stem: str) -> None:
    (page,) = (page for page in PAGES if page.stem == stem)
    found = list(commands(page))
    assert found
    for words in found:
        # an option that does not exist ends the test with argparse's own line
        assert _parser().parse_args(words).command == words[0]


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target
