"""What a fresh process imports and prints, asked step by step of a single one.

A process that imports torch takes seconds: whatever else asks for a fresh one is asked here.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HARNESS = "this needs lm-evaluation-harness: pip install 'unmask[harness]'"
CODE = """
import runpy
import sys
from contextlib import redirect_stderr
from io import StringIO


def assert_absent(*names):
    assert not set(names) & sys.modules.keys(), set(names) & sys.modules.keys()


before = list(sys.meta_path)
import unmask

assert_absent("torch", "transformers", "numpy", "jaxtyping")
assert sys.meta_path == before
from unmask.cli import _parser, main

for command in _parser()._subparsers._group_actions[0].choices.values():
    command.format_help()
assert_absent("torch", "numpy")
# each is told in one line that the table has no such column
for command in ("score", "pairs", "dependence", "fill"):
    assert main([command, "a.csv", "-m", "none"]) == 2
assert_absent("torch")
import unmask.cli.fill
import unmask.plots

unmask.plots.STYLES, unmask.plots.save_figure
assert_absent("matplotlib", "torch")
import unmask.language_model

assert_absent("transformers", "scipy.stats")
assert callable(unmask.plots.compare)
import unmask.loading

assert unmask.load(sys.argv[1]).fill("the [MASK] [MASK].")
# from the hub, progress is shown
with redirect_stderr(StringIO()):
    lm, rounded = (unmask.load("someone/toy", dtype=name) for name in ("float32", "bfloat16"))
joint = lm.joint("the [MASK] sat.")
print(lm.revision, rounded.revision, joint.diagnostics["revision"])
joint.plot()
assert_absent("matplotlib.pyplot", "lm_eval")
# a pipeline is registered by its name, and not by a hook
from transformers.pipelines import PIPELINE_REGISTRY as registry

assert "joint-fill-mask" not in registry.supported_tasks
unmask.pipelines.JointFillMaskPipeline
assert registry.supported_tasks["joint-fill-mask"]["impl"] is unmask.pipelines.JointFillMaskPipeline
sys.modules["lm_eval"] = None
try:
    import unmask.harness
except unmask.UnmaskError as error:
    print(error)
runpy.run_module("unmask.harness", run_name="__main__")
"""


@pytest.mark.slow
def test_a_fresh_process_imports_and_prints_what_it_needs(folder: str, tmp_path: Path) -> None:
    """The model is read from the hub's cache as it lies on disk; each answer names its commit."""
    place = tmp_path / "models--someone--toy"
    shutil.copytree(folder, place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    (tmp_path / "a.csv").write_text("Item;Satz\n1;der Hund, er bellt.\n")
    source = str(Path(__file__).parents[2] / "src")
    environment = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", CODE, folder],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    *columns, last = done.stderr.splitlines() or [""]
    assert (done.returncode, last) == (1, f"unmask: {HARNESS}"), done.stderr
    assert len(columns) == 4
    assert all("it has 'Item', 'Satz'" in line for line in columns), columns
    assert done.stdout.splitlines() == [" ".join([COMMIT] * 3), HARNESS]
