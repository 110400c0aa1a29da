"""The documentation's frame: what a build needs, and the check of what it wrote."""

import ast
import json
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from reading_pages import pages as all_pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "runs"))

import check_site  # noqa: E402

PAGE = '<html><head><link rel="stylesheet" href="a.css"></head><body id="top">{}</body></html>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.css").write_text("p { background: url(data:image/png;base64,AA) }", "utf-8")
    (tmp_path / "some data.csv").write_text("1", "utf-8")
    write(tmp_path, "<a href='deep/b.html#part'>b</a> <a href='https://example.org/'>away</a>")
    deep = PAGE.replace('"a.css"', '"../a.css"')
    inner = "<h2 id='part'>b</h2><a href='../some%20data.csv'>data</a><a href='../index.html'>i</a>"
    (tmp_path / "deep" / "b.html").write_text(deep.format(inner), "utf-8")
    return tmp_path


def write(site: Path, body: str) -> None:
    (site / "index.html").write_text(PAGE.format(body), "utf-8")


def test_a_sound_site_has_no_fault(site: Path) -> None:
    assert check_site.faults(site) == []
    assert check_site.main([str(site)]) == 0


@pytest.mark.parametrize(
    "body",
    [
        "<script src='https://cdn.example.org/x.js'></script>",
        "<script src='//cdn.example.org/x.js'></script>",
        "<img src='http://example.org/x.png'>",
        "<link rel='preload stylesheet' href='https://fonts.example.org/x.css'>",
        "<style>@import 'https://example.org/x.css';</style>",
        "<style>@font-face { src: url(https://example.org/x.woff2) }</style>",
        "<p style='background: url(\"https://example.org/x.png\")'>x</p>",
        "<svg><image xlink:href='https://example.org/x.png'/></svg>",
    ],
)
def test_what_is_fetched_from_elsewhere_is_a_fault(site: Path, body: str) -> None:
    write(site, body)
    (fault,) = check_site.faults(site)
    assert re.fullmatch(r"index\.html: fetches .*example\.org/x\.\w+", fault)


def test_style_sheets_fetch_nothing_either(site: Path) -> None:
    (site / "a.css").write_text("@font-face { src: url('https://example.org/x.woff') }", "utf-8")
    assert check_site.faults(site) == ["a.css fetches https://example.org/x.woff"]


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("deep/c.html", "which is not there"),
        ("deep", "which is not there"),
        ("deep/b.html#other", "where there is no such anchor"),
        ("#bottom", "where there is no such anchor"),
    ],
)
def test_broken_links_are_faults(
    site: Path, link: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(site, f"<a href='#top'>sound</a><a href='{link}'>broken</a>")
    assert check_site.main([str(site)]) == 1
    assert capsys.readouterr().err == f"index.html: links to {link}, {fault}\n"


def test_pages_with_cells_need_outputs(site: Path) -> None:
    write(site, "<div class='cell docutils'><div class='cell_input'>1 + 1</div></div>")
    (fault,) = check_site.faults(site)
    assert fault == "index.html: has cells, and none has an output"
    write(site, "<div class='cell_input'>1 + 1</div><div class='cell_output'>2</div>")
    assert check_site.faults(site) == []


def test_a_folder_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert check_site.faults(tmp_path) != []


def page_of(address: Path) -> Path:
    """The page, Markdown or a notebook, that is shown under an address."""
    paths = [address.parent / f"{address.name}{end}" for end in (".md", ".ipynb")]
    (path,) = (path for path in paths if path.exists())
    return path


def entries(page: str) -> list[str]:
    """The pages that a page lists in its trees."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = []
    for tree in re.findall(r"^```{toctree}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in tree.splitlines():
            entry = line.partition("<")[2].rstrip(">") or line.strip()
            if entry and not entry.startswith(":"):
                path = page_of(((DOCS / page).parent / entry).resolve())
                found.append(path.relative_to(DOCS).as_posix())
    return found


def test_every_page_is_in_the_index() -> None:
    first = entries("index.md")
    nested = {page: entries(page) for page in first if page.endswith(".md")}
    # what the sidebar shows: the first level, and what is below the page that is read
    assert len(first) + max(map(len, nested.values())) <= 60
    listed = {*first, *chain(*nested.values())}
    pages = {path.relative_to(DOCS).as_posix() for path in all_pages()}
    decisions = {f"decisions/{path.name}" for path in (DOCS / "decisions").glob("0*.md")}
    assert pages - listed == {"index.md", *decisions}
    overview = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    assert all(f"]({Path(name).name})" in overview for name in decisions)


def test_every_page_of_results_is_in_their_overview() -> None:
    overview = (DOCS / "results" / "README.md").read_text(encoding="utf-8")
    for page in (DOCS / "results").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in overview, page.name


def test_folders_that_are_shown_exist() -> None:
    settings = (DOCS / "conf.py").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^folders_shown = (\[.*?\])$", settings, re.M | re.S)
    for name in ast.literal_eval(shown):
        assert (DOCS / name).is_dir()


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Other"},
        {
            "cell_type": "code",
            "execution_count": 1,
            "id": "b",
            "metadata": {},
            "outputs": [{"name": "stdout", "output_type": "stream", "text": "printed before"}],
            "source": "1 / 0",
        },
    ],
    "metadata": {"kernelspec": {"name": "python3"}, "language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
INDEX = """\
# A page

Its [rows](results/table1-caption-bert/rows/), and [another page](other.ipynb).

```{toctree}
other
```
"""


@pytest.mark.slow
def test_a_notebook_is_shown_and_a_folder_listed(tmp_path: Path) -> None:
    pytest.importorskip("myst_nb")
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("conf.py", "_sphinx", "_static"):
        (docs / name).symlink_to(DOCS / name)
    (tmp_path / "src").symlink_to(ROOT / "src")
    (docs / "index.md").write_text(INDEX, "utf-8")
    (docs / "other.ipynb").write_text(json.dumps(NOTEBOOK), "utf-8")
    for name in (
        "how-to/kubernetes/a.yaml",
        "results/table1-caption-bert/rows/b & c.csv",
        "results/table1-tiny-english/d.csv",
        "results/table1-english-distil/e.csv",
        "results/tables/g.csv",
    ):
        (docs / name).parent.mkdir(parents=True)
        (docs / name).write_text("1", "utf-8")
    out = tmp_path / "site"
    build = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html"]
    done = subprocess.run(
        [*build, str(docs), str(out)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert check_site.faults(out) == []
    # as it is, without being run
    assert "printed before" in (out / "other.html").read_text(encoding="utf-8")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert 'href="other.html"' in page
    # a folder that is linked to is a page, and its files are there
    assert 'href="results/table1-caption-bert/rows/index.html"' in page
    listed = (out / "results" / "table1-caption-bert" / "rows" / "index.html").read_text(
        encoding="utf-8"
    )
    assert "b &amp; c.csv</a>" in listed
    assert (out / "results" / "table1-caption-bert" / "rows" / "b & c.csv").read_text(
        "utf-8"
    ) == "1"
