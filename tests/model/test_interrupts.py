"""An interrupt anywhere leaves a model as it was: tried in a process of its own.

An exception at any line also comes between a lock of the standard library and its `try`: what logs
or draws a bar in another thread would then wait for ever.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1] / "helpers" / "interrupted.py"


@pytest.mark.slow
@pytest.mark.long
def test_interrupts_leave_nothing_behind() -> None:
    # shapes are checked elsewhere: a checked function has more lines to be interrupted at
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", TESTS],
        env={**os.environ, "UNMASK_TEST_SHAPES": "0"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]
    assert "18 passed" in found.stdout
