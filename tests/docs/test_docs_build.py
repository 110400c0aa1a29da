"""The documentation builds without a warning and is sound; the check of that finds every fault."""

import json
import os
import re
import sys
from pathlib import Path

import check_site
import killable
import pytest
from _sphinx.index import ENTRIES
from reading_pages import ROOT


def build(folder: Path) -> Path:
    """The site, in a folder; a warning is an error."""
    command = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / "doctrees")]
    command += [str(ROOT / "docs"), str(folder / "site")]
    log = folder / "log"
    code = killable.call(_sphinx, command, str(log), dict(os.environ), timeout=1200)
    assert code == 0, log.read_text(encoding="utf-8")[-6000:]
    return folder / "site"


def _sphinx(command: list[str], log: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    os.chdir(ROOT)
    killable.write_to(log)
    from sphinx.cmd.build import main

    sys.exit(main(command))


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    site = build(tmp_path)
    assert check_site.faults(site) == []
    assert_main_entries(site)


def assert_main_entries(site: Path) -> None:
    """The search ranks a main index entry before titles, objects and words of pages."""
    script = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(script.removeprefix("Search.setIndex(").removesuffix(")"))
    for page, terms in ENTRIES.items():
        for term in terms:
            entries = index["indexentries"][term.lower()]
            main = [index["docnames"][number] for number, _, is_main in entries if is_main]
            assert main == [page], term


# --- the check of a built site ----------------------------------------------------------------

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
