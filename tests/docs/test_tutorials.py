"""Tutorials are notebooks of one run, for the browser too; test_tutorial_outputs.py runs them."""

import json
import re
import tomllib
from pathlib import Path

import notebooks
import pytest
from reading_pages import ROOT, notebook

PAGES = notebooks.tutorials()
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


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
