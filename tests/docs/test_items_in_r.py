"""The scripts of the page on R print what it shows, where R is installed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reading_pages import ROOT

FOLDER = ROOT / "docs" / "how-to"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def has_packages(*names: str) -> bool:
    program = shutil.which("Rscript")
    if program is None:
        return False
    needed = " && ".join(f"requireNamespace('{name}', quietly = TRUE)" for name in names)
    return subprocess.run([program, "-e", f"quit(status = !({needed}))"]).returncode == 0


@pytest.mark.parametrize(
    ("script", "package", "page"),
    [("items_in_r.R", "lme4", "items-to-r.md"), ("joint_in_r.R", "reticulate", "from-r.md")],
)
def test_a_script_prints_what_the_page_shows(
    script: str, package: str, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_packages(package):
        pytest.skip(f"R with {package} is not installed")
    monkeypatch.setenv("RETICULATE_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    printed = subprocess.run(
        ["Rscript", f"runs/{script}"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    text = (FOLDER / page).read_text(encoding="utf-8")
    block = text.partition(f"<!-- {script} -->\n```text\n")[2].partition("```")[0]
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", block).split()
    numbers, shown = ([float(n) for n in NUMBER.findall(text)] for text in (printed, block))
    assert numbers == pytest.approx(shown, rel=2e-3, abs=2e-3)
