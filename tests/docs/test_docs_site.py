"""The documentation's frame: what a build needs, and the check of what it wrote."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    assert check_site.faults(site, executed=False) == []
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
    (fault,) = check_site.faults(site, executed=False)
    assert re.fullmatch(r"index\.html: fetches .*example\.org/x\.\w+", fault)


def test_style_sheets_fetch_nothing_either(site: Path) -> None:
    (site / "a.css").write_text("@font-face { src: url('https://example.org/x.woff') }", "utf-8")
    assert check_site.faults(site, executed=False) == ["a.css fetches https://example.org/x.woff"]


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
    assert len(check_site.faults(site, executed=True)) == 1
    write(site, "<div class='cell docutils'><div class='cell_input'>1 + 1</div></div>")
    assert check_site.faults(site, executed=False) == []
    (fault,) = check_site.faults(site, executed=True)
    assert fault == "index.html: has cells, and none has an output"
    write(site, "<div class='cell_input'>1 + 1</div><div class='cell_output'>2</div>")
    assert check_site.faults(site, executed=True) == []
    # a page that says why it was not run
    write(site, "<div class='warning not-run'>Why</div><div class='cell_input'>1 + 1</div>")
    assert check_site.faults(site, executed=True) == []


def test_a_folder_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert check_site.faults(tmp_path, executed=False) != []


def entries(page: str) -> list[str]:
    """The pages that a page lists in its trees."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = []
    for tree in re.findall(r"^```{toctree}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in tree.splitlines():
            entry = line.partition("<")[2].rstrip(">") or line.strip()
            if entry and not entry.startswith(":"):
                path = (DOCS / page).parent / f"{entry}.md"
                assert path.exists(), f"{page} lists {entry}, which is not there"
                found.append(path.relative_to(DOCS).as_posix())
    return found


def test_addresses_of_merged_pages_lead_to_pages() -> None:
    settings = (DOCS / "conf.py").read_text(encoding="utf-8")
    (redirects,) = re.findall(r"^redirects = (\{.*?^\})$", settings, re.M | re.S)
    for old, new in ast.literal_eval(redirects).items():
        assert not (DOCS / f"{old}.md").exists()
        assert (DOCS / old).parent.joinpath(new).with_suffix(".md").exists(), new


def test_every_page_is_in_the_index() -> None:
    first = entries("index.md")
    # what the sidebar shows before a reader opens a part of it
    assert len(first) <= 60
    listed = {*first, *entries("results/README.md"), *entries("reference/README.md")}
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
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


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS))
    from _sphinx import kernels

    return kernels


def save(place: Path, *models: str) -> None:
    for model in models:
        (place / model).mkdir(parents=True)
        (place / model / "config.json").write_text("{}", "utf-8")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with its model, and no other named by the environment."""
    monkeypatch.delenv("UNMASK_TEST_ASSETS", raising=False)
    monkeypatch.delenv("UNMASK_TEST_MODELS", raising=False)
    save(tmp_path / "models", "tiny-english")
    return tmp_path


def test_the_checkout_has_the_model_of_most_pages(kernels: Any, checkout: Path) -> None:
    own = str(checkout / "models" / "tiny-english")
    assert kernels.available(checkout) == {"models/tiny-english": own}
    with pytest.raises(kernels.ConfigError, match="model tiny-english, which a tutorial loads, is"):
        kernels.available(checkout / "elsewhere")


def test_other_models_are_those_of_the_environment(
    kernels: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkout / "assets" / "models", "albert-tiny-chinese")
    save(checkout / "fetched", "antiberty")
    monkeypatch.setenv("UNMASK_TEST_ASSETS", str(checkout / "assets"))
    with pytest.raises(kernels.ConfigError, match="model antiberty, which a tutorial loads, is in"):
        kernels.available(checkout)
    monkeypatch.setenv("UNMASK_TEST_MODELS", str(checkout / "fetched"))
    found = kernels.available(checkout)
    assert found.keys() == kernels.MODELS.keys()
    assert found["antiberty"] == str(checkout / "fetched" / "antiberty")


def test_what_a_page_lacks_is_known(kernels: Any) -> None:
    text = 'lm = unmask.load("antiberty")\n!unmask fill x -m ckiplab/albert-tiny-chinese\n'
    assert kernels.lacking(text, {"antiberty"}) == ["ckiplab/albert-tiny-chinese"]
    assert kernels.lacking(text, kernels.MODELS) == []
    assert kernels.lacking("antiberty", {}) == []


def test_the_kernel_is_this_python_with_this_checkout(kernels: Any, tmp_path: Path) -> None:
    folder = kernels.make_kernel(tmp_path / "kernel", {"a/b": str(tmp_path)}, ROOT / "src")
    spec = json.loads((folder / "kernels" / "python3" / "kernel.json").read_text("utf-8"))
    assert spec["argv"][0] == sys.executable
    given = spec["env"]
    assert given["PYTHONPATH"] == str(ROOT / "src")
    assert (given["OMP_NUM_THREADS"], given["HF_HUB_OFFLINE"]) == ("1", "1")
    assert given["RAY_USAGE_STATS_ENABLED"] == "0"
    start = next(Path(given["IPYTHONDIR"]).rglob("startup/*.py")).read_text("utf-8")
    names: dict[str, object] = {}
    here = Path.cwd()
    (tmp_path / "page").mkdir()
    os.chdir(tmp_path / "page")
    try:
        exec(compile(start, "startup", "exec"), names)
    finally:
        os.chdir(here)
    assert (tmp_path / "page" / "a" / "b").resolve() == tmp_path.resolve()
    assert names.keys() == {"__builtins__"}


TUTORIAL = """\
---
file_format: mystnb
kernelspec:
  name: python3
  display_name: Python 3
---

# A page

```{code-cell}
import os, sys
print(sys.executable, *sorted(os.listdir()))
print("not shown", file=sys.stderr)
```

```{code-cell}
!unmask --version
!unmask nothing
print(_exit_code)
```

Its [rows](results/table1-caption-bert/rows/), and [another page](other.md).

```{toctree}
other
```
"""
LACKING = (
    TUTORIAL.partition("```{code-cell}")[0]
    + """
```{code-cell}
import unmask
lm = unmask.load("antiberty")
```
"""
)


@pytest.mark.slow
def test_a_page_is_run_and_a_folder_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("myst_nb")
    monkeypatch.delenv("UNMASK_TEST_ASSETS", raising=False)
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("conf.py", "_sphinx", "_static"):
        (docs / name).symlink_to(DOCS / name)
    for name in ("src", "models"):
        (tmp_path / name).symlink_to(ROOT / name)
    (docs / "index.md").write_text(TUTORIAL, "utf-8")
    (docs / "other.md").write_text(LACKING, "utf-8")
    for name in (
        "how-to/kubernetes/a.yaml",
        "results/table1-caption-bert/rows/b & c.csv",
        "results/table1-tiny-english/d.csv",
        "results/table1-english-distil/e.csv",
        "results/tables/g.csv",
        "results/tuning/f.csv",
    ):
        (docs / name).parent.mkdir(parents=True)
        (docs / name).write_text("1", "utf-8")
    out = tmp_path / "site"
    build = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html"]
    done = subprocess.run(
        [*build, str(docs), str(out)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    page = (out / "index.html").read_text(encoding="utf-8")
    assert f"{sys.executable} models\n" in page
    assert re.search(r"unmask \d+\.\d+\.\d+\n", page)
    assert "no command" in page
    assert "\n2\n" in page
    assert "not shown</span>" not in page
    assert check_site.faults(out, executed=True) == []
    # what needs a model that is not here is not run, and says so
    other = (out / "other.html").read_text(encoding="utf-8")
    assert re.search(r"built where .*antiberty.* is missing, so its code was not run", other)
    assert "cell_output" not in other
    # a folder that is linked to is a page, and its files are there
    assert 'href="results/table1-caption-bert/rows/index.html"' in page
    listed = (out / "results" / "table1-caption-bert" / "rows" / "index.html").read_text(
        encoding="utf-8"
    )
    assert "b &amp; c.csv</a>" in listed
    assert (out / "results" / "table1-caption-bert" / "rows" / "b & c.csv").read_text(
        "utf-8"
    ) == "1"
