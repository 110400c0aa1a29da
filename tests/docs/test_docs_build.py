"""The documentation builds without a warning, and what it wrote is sound."""

import os
import sys
from pathlib import Path

import killable
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import check_site  # noqa: E402


def build(folder: Path) -> Path:
    """The site, in a folder; a warning is an error."""
    pytest.importorskip("myst_nb")
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
