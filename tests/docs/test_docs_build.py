"""The documentation builds without a warning, its tutorials run, and what it wrote is sound."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import check_site  # noqa: E402


def build(folder: Path, *options: str) -> Path:
    """The site, in a folder; a warning is an error."""
    pytest.importorskip("myst_nb")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", *options]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / "site")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return folder / "site"


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    site = build(tmp_path, "-D", "nb_execution_mode=off")
    assert check_site.faults(site, executed=False) == []


@pytest.mark.slow
@pytest.mark.long
def test_the_site_builds_and_its_tutorials_run(tmp_path: Path) -> None:
    site = build(tmp_path)
    assert check_site.faults(site, executed=True) == []
    pages = {page: check_site.read(page) for page in site.rglob("*.html")}
    not_run = [page.stem for page, read in pages.items() if "not-run" in read.classes]
    # without other models than the project's own, pages that load them are shown without outputs
    assert not (not_run and os.environ.get("UNMASK_TEST_ASSETS")), not_run
