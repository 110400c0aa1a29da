"""An interrupt anywhere leaves a model as it was, and nobody waiting.

Most is tried in a process of its own: an exception at any line also comes between a lock of the
standard library and its `try`, and what logs in another thread would then wait for ever.
"""

import os
import subprocess
import sys
import threading
from contextlib import redirect_stderr
from pathlib import Path

import pytest
import tqdm.std
from interrupted import (
    SHOWN,
    SHOWN_IDS,
    Terminal,
    alarm,  # noqa: F401 (a fixture)
    bars_at_once,  # noqa: F401 (a fixture)
    interrupt_beside_threads,
    interrupted_at,
)

from unmask import progress

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
    assert "8 passed" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN, ids=SHOWN_IDS)
def test_other_threads_answer_after_interrupts(alarm, bars_at_once, shown):  # noqa: F811
    with redirect_stderr(Terminal()):
        interrupt_beside_threads(alarm, shown, 15)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("shown", SHOWN, ids=SHOWN_IDS)
def test_an_interrupt_at_any_line_of_a_bar_leaves_no_thread_waiting(bars_at_once, shown):  # noqa: F811
    def count() -> None:
        with progress.bar("rows", unit="row", total=2, shown=shown) as counted:
            counted.update(2)
            if shown is True:
                counted.refresh()

    line, watched = 1, {progress.__file__, tqdm.std.__file__}
    with redirect_stderr(Terminal()) as terminal:
        while interrupted_at(line, count, watched):
            other = threading.Thread(target=count, daemon=True)
            other.start()
            other.join(10)
            assert not other.is_alive(), line
            line += 1
    assert line > (100 if shown is True else 3)
    assert ("100%" in terminal.getvalue()) == (shown is True)
