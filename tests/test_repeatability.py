"""The same run gives the same bits; another number of threads or rows, or storage, nearly so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assets import real_model

SCRIPT = Path(__file__).parent / "repeated_run.py"
DENSE, STREAMED = 4 * 10**9, 0
# what float32 forward passes differ by when their products are summed in another order
TOLERANCE = 5e-5


def run(threads: int = 2, batch_size: int = 128, memory_limit: int = DENSE) -> dict[str, Any]:
    arguments = [str(real_model("caption-bert")), *map(str, (threads, batch_size, memory_limit))]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.real
def test_two_processes_give_the_same_bits_and_others_nearly_the_same() -> None:
    first = run()
    assert run() == first
    others = {
        "one thread, another batch size": run(threads=1, batch_size=37),
        "streamed tables": run(memory_limit=STREAMED),
    }
    for what, other in others.items():
        for name, value in first["numbers"].items():
            assert other["numbers"][name] == pytest.approx(value, abs=TOLERANCE), (what, name)
