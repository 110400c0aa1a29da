"""The same run gives the same bits; another number of threads or rows, or storage, nearly so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from assets import real_model

SCRIPT = Path(__file__).parents[1] / "helpers" / "repeated_run.py"
DENSE, STREAMED = 4 * 10**9, 0
THREADS = 2
# threads, rows per forward pass and memory limit
USUAL = (THREADS, 128, DENSE)
OTHERS = {
    "one thread, another batch size": (1, 37, DENSE),
    "streamed tables": (THREADS, 128, STREAMED),
}
# what float32 forward passes differ by when their products are summed in another order
TOLERANCE = 5e-5


def run(*settings: tuple[int, int, int]) -> list[dict[str, Any]]:
    """What one new process finds, with each of the settings in turn."""
    triples = [",".join(map(str, one)) for one in settings]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(real_model("tiny-english")), *triples],
        capture_output=True,
        text=True,
        check=True,
        # threads that wait for each other give way to whatever else runs
        env={**os.environ, "OMP_NUM_THREADS": str(THREADS), "OMP_WAIT_POLICY": "PASSIVE"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.long
def test_two_processes_give_the_same_bits_and_others_nearly_the_same() -> None:
    (first,) = run(USUAL)
    again, *others = run(USUAL, *OTHERS.values())
    assert again == first
    for what, other in zip(OTHERS, others, strict=True):
        for name, value in first["numbers"].items():
            assert other["numbers"][name] == pytest.approx(value, abs=TOLERANCE), (what, name)
