"""The documentation builds without a warning, its tutorials run, and what it wrote is sound."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import check_site  # noqa: E402


@pytest.mark.slow
def test_the_site_builds_and_its_tutorials_run(tmp_path: Path) -> None:
    pytest.importorskip("myst_nb")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert check_site.faults(tmp_path / "site", executed=True) == []
    pages = {page: check_site.read(page) for page in (tmp_path / "site").rglob("*.html")}
    not_run = [page.stem for page, read in pages.items() if "not-run" in read.classes]
    # without other models than the project's own, pages that load them are shown without outputs
    assert not (not_run and os.environ.get("UNMASK_TEST_ASSETS")), not_run
