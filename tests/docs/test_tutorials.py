"""Tutorials are notebooks with their outputs: code that compiles, all of it shown, sound links.

test_tutorial_outputs.py runs them, and compares; here nothing is run.
"""

import ast
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from reading_pages import ROOT, notebook, text_of

pytest.importorskip("nbformat")

from IPython.core.inputtransformer2 import TransformerManager

import unmask
from unmask.cli import _parser

sys.path.insert(0, str(ROOT / "runs"))

import notebooks

PAGES = notebooks.tutorials()
SHOWN = re.compile(r"^```python\n(?:(?!```).*\n)*```\n\n```text\n", re.MULTILINE)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


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
        "dependence",
        "several-blanks",
    }


@every_page
def test_a_notebook_has_the_outputs_of_one_run(page: Path) -> None:
    book = notebook(page)
    assert book.metadata.kernelspec.name == "python3"
    code_cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert len(code_cells) >= 5
    # run in order, by a kernel that had just started
    assert [cell.execution_count for cell in code_cells] == list(range(1, len(code_cells) + 1))
    outputs = [output for cell in code_cells for output in cell.outputs]
    assert len(outputs) >= 4
    assert {output.output_type for output in outputs} <= {"stream", "execute_result"}
    # progress is not shown, nor is where it ran
    assert all(output.get("name") != "stderr" for output in outputs)
    assert not re.search(r"/(?:tmp|root|home|work)/", json.dumps(outputs))


@every_page
def test_what_is_shown_was_run(page: Path) -> None:
    text = text_of(page)
    # outputs that are no cell's stand under their code, and are held by another test
    assert len(re.findall(r"^```(?:python|console)", text, re.MULTILINE)) == len(
        SHOWN.findall(text)
    )
    assert len(re.findall(r"outputs\s+will\s+differ|yours\s+will\s+differ", text)) == 1


@every_page
def test_a_page_opens_in_the_browser(page: Path) -> None:
    first, prepare, *others = notebook(page).cells
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = project["urls"]["Repository"].removeprefix("https://github.com")
    link = f"https://colab.research.google.com/github{address}/blob/main/"
    assert f"[Open in Colab]({link}{page.relative_to(ROOT).as_posix()})" in first.source
    # the package and its model, there and nowhere else
    assert prepare.source == notebook(PAGES[0]).cells[1].source
    assert f"git clone -q {project['urls']['Repository']}" in prepare.source
    (extras,) = re.findall(r"unmask\[([\w,]+)\]", prepare.source)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    assert prepare.metadata.tags == ["remove-cell"]
    # a reader of the site sees all other code
    assert not any(cell.metadata.get("tags") for cell in [first, *others])


@every_page
def test_cells_compile(page: Path) -> None:
    assert all(compiled(source).body for source in cells(page))


@every_page
def test_names_and_models_exist(page: Path) -> None:
    for node in code(page):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "unmask":
            assert hasattr(unmask, node.attr), node.attr
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "unmask.load":
            assert ast.literal_eval(node.args[0]) in notebooks.MODELS


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
    for target in re.findall(r"\]\(([^)#]+)", text_of(page)):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_what_a_page_lacks_is_known() -> None:
    text = 'lm = unmask.load("antiberty")\n!unmask fill x -m ckiplab/albert-tiny-chinese\n'
    assert notebooks.lacking(text, {"antiberty"}) == ["ckiplab/albert-tiny-chinese"]
    assert notebooks.lacking(json.dumps(text), {}) == ["antiberty", "ckiplab/albert-tiny-chinese"]
    assert notebooks.lacking(text, notebooks.MODELS) == []
    assert notebooks.lacking("antiberty", {}) == []


def test_models_are_those_of_the_checkout_and_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"tiny-english": "models", "antiberty": "fetched", "albert-tiny-chinese": "a/models"}
    for model, place in places.items():
        (tmp_path / place / model).mkdir(parents=True)
        (tmp_path / place / model / "config.json").write_text("{}", "utf-8")
    monkeypatch.delenv("UNMASK_TEST_ASSETS", raising=False)
    own = {"models/tiny-english": str(tmp_path / "models" / "tiny-english")}
    assert notebooks.available(tmp_path) == own
    monkeypatch.setenv("UNMASK_TEST_ASSETS", str(tmp_path / "a"))
    monkeypatch.setenv("UNMASK_TEST_MODELS", str(tmp_path / "fetched"))
    assert notebooks.available(tmp_path).keys() == notebooks.MODELS.keys()


def test_the_kernel_is_this_python_with_this_checkout(tmp_path: Path) -> None:
    folder = notebooks.make_kernel(tmp_path / "kernel", {"a/b": str(tmp_path)})
    spec = json.loads((folder / "kernels" / "python3" / "kernel.json").read_text("utf-8"))
    assert spec["argv"][0] == sys.executable
    start = next(Path(spec["env"]["IPYTHONDIR"]).rglob("startup/*.py")).read_text("utf-8")
    names: dict[str, object] = {}
    (tmp_path / "page").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path / "page")
        exec(compile(start, "startup", "exec"), names)
    assert (tmp_path / "page" / "a" / "b").resolve() == tmp_path.resolve()
    assert names.keys() == {"__builtins__"}
