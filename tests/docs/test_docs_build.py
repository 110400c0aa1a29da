"""The documentation builds without a warning, its tutorials run, and what it wrote is sound."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import check_site  # noqa: E402


@pytest.mark.real
@pytest.mark.slow
def test_the_site_builds_and_its_tutorials_run(tmp_path: Path) -> None:
    if not os.environ.get("UNMASK_TEST_ASSETS"):
        pytest.skip("UNMASK_TEST_ASSETS is not set: tutorials have no models")
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
