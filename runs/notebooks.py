"""Run the tutorials and keep their outputs: `python runs/notebooks.py [NOTEBOOK ...]`.

Tutorials are notebooks with the outputs of their code, which GitHub and the site show as they are.
Run this after a change to a tutorial, or to what one prints; tests/docs/test_tutorial_outputs.py
runs the same cells and compares. In the folder where a notebook runs, the name of each model is a
link to its folder. The project's own model is in the checkout; others are in UNMASK_TEST_ASSETS.
"""

import argparse
import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
IN_CHECKOUT = "tiny-english"
# what tutorials load, and the folder of each
MODELS = {
    "models/tiny-english": IN_CHECKOUT,
    "ckiplab/albert-tiny-chinese": "albert-tiny-chinese",
    "antiberty": "antiberty",
}
# run before the first cell, and leaving no name behind
_STARTUP = """\
def _link_models(models):
    from pathlib import Path

    for name, folder in models.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).symlink_to(folder, target_is_directory=True)


_link_models({models!r})
del _link_models
"""
# IPython runs `!command` in a terminal of its own, where progress bars would be drawn
_LAUNCHER = """\
import subprocess
import sys

command = [sys.executable, "-m", "unmask", *sys.argv[1:]]
with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
    for line in process.stderr:
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
sys.exit(process.returncode)
"""


def tutorials() -> list[Path]:
    """Every notebook of the documentation."""
    return [DOCS / "quick-start.ipynb", *sorted((DOCS / "tutorials").glob("*.ipynb"))]


def available(root: Path = ROOT) -> dict[str, str]:
    """The folder of every model that is here, by the name that tutorials load it by."""
    places = [root / "models"]
    if assets := os.environ.get("UNMASK_TEST_ASSETS"):
        places += [Path(assets) / "models", Path(os.environ.get("UNMASK_TEST_MODELS", assets))]
    return {
        name: str((place / model).resolve())
        for name, model in MODELS.items()
        for place in places
        if (place / model / "config.json").exists()
    }


def lacking(text: str, models: Collection[str]) -> list[str]:
    """The models that a text loads and that are not here."""
    loaded = re.findall(r'\bload\(\\?"([^"\\]+)\\?"|-m ([\w./-]+)', text)
    names = dict.fromkeys(first or second for first, second in loaded)
    return [name for name in names if name in MODELS and name not in models]


def make_kernel(folder: Path, models: Mapping[str, str]) -> Path:
    """Write the kernel `python3` into a folder; as JUPYTER_PATH it comes before any other."""
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-models.py").write_text(_STARTUP.format(models=dict(models)), "utf-8")
    _write_command(folder / "bin" / "unmask")
    kernel = folder / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
        "env": environment(folder),
    }
    (kernel / "kernel.json").write_text(json.dumps(spec), "utf-8")
    return folder


def _write_command(path: Path) -> None:
    """`!unmask` is the command of this checkout, installed or not."""
    path.parent.mkdir()
    launcher = path.with_name("launcher.py")
    launcher.write_text(_LAUNCHER, "utf-8")
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{launcher}" "$@"\n', "utf-8")
    path.chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    """What a kernel's process is given."""
    return {
        # also keeps out the configuration of whoever runs it
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": str(ROOT / "src"),
        "PATH": os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", "")]),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def execute(path: Path, models: Mapping[str, str]) -> None:
    """Run a notebook in an empty folder and write it with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as kernel:
        os.environ["JUPYTER_PATH"] = str(make_kernel(Path(kernel), models))
        NotebookClient(
            notebook, timeout=600, coalesce_streams=True, resources={"metadata": {"path": place}}
        ).execute()
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = list(_kept(cell.outputs))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _kept(outputs: Sequence[Any]) -> Iterator[Any]:
    """What is shown: stderr is for progress and times, another on every machine."""
    for one in outputs:
        if one.get("name") == "stderr":
            continue
        if "text" in one:
            # commands write to a terminal
            one["text"] = one["text"].replace("\r\n", "\n")
        if picture := one.get("data", {}).get("image/png"):
            one["data"]["image/png"] = _with_few_colours(picture)
        yield one


def _with_few_colours(picture: str) -> str:
    """The picture in a quarter of the bytes."""
    smaller = BytesIO()
    with Image.open(BytesIO(base64.b64decode(picture))) as read:
        read.convert("RGB").quantize(128).save(smaller, "PNG", optimize=True)
    return base64.b64encode(smaller.getvalue()).decode()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, default=tutorials())
    models = available()
    for path in parser.parse_args(arguments).notebooks:
        if missing := lacking(path.read_text(encoding="utf-8"), models):
            sys.exit(f"{path} loads {', '.join(missing)}, which is not here")
        print(path, file=sys.stderr)
        execute(path, models)


if __name__ == "__main__":
    main()
