"""A Jupyter kernel for the tutorials: this Python, this checkout, and models under their hub names.

In the folder where a page's kernel starts, the name of each model is a link to its folder. The
project's own model is in the checkout. Others are where the environment says; a page that loads one
of those is run only where it is.
"""

import json
import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from sphinx.errors import ConfigError

ROOT = Path(__file__).parents[2]
IN_CHECKOUT = "tiny-english"
# what pages load, and the folder of each
MODELS = {
    "models/tiny-english": IN_CHECKOUT,
    "ckiplab/albert-tiny-chinese": "albert-tiny-chinese",
    "antiberty": "antiberty",
}
# run in the page's own folder before its first cell, and leaving no name behind
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
# pictures that stay sharp; they are shown once a page says `%matplotlib inline`
_CONFIG = 'c = get_config()\nc.InlineBackend.figure_formats = {"svg"}\n'
# the kernel says of every page that it talks over TCP, to this machine
_QUIET = ["--log-level=ERROR"]


def available(root: Path = ROOT) -> dict[str, str]:
    """The folder of every model that is here, by the name that pages load it by."""
    own = _found(IN_CHECKOUT, [root / "models"])
    places = _outside()
    return {
        name: str(own if model == IN_CHECKOUT else _found(model, places))
        for name, model in MODELS.items()
        if model == IN_CHECKOUT or places
    }


def _outside() -> list[Path]:
    """Where models that are not in the checkout may be; nowhere without UNMASK_TEST_ASSETS."""
    assets = os.environ.get("UNMASK_TEST_ASSETS")
    fetched = os.environ.get("UNMASK_TEST_MODELS")
    if not assets:
        return []
    return [Path(assets) / "models", *([Path(fetched)] if fetched else [])]


def _found(model: str, places: list[Path]) -> Path:
    for place in places:
        if (place / model / "config.json").exists():
            return (place / model).resolve()
    raise ConfigError(
        f"model {model}, which a tutorial loads, is in none of {', '.join(map(str, places))}: "
        "fetch it, or unset UNMASK_TEST_ASSETS to build without pages that load other models than "
        f"{IN_CHECKOUT}"
    )


def lacking(text: str, models: Collection[str]) -> list[str]:
    """The models that a page loads and that are not here."""
    loaded = re.findall(r'\bload\("([^"]+)"|-m (\S+)', text)
    names = dict.fromkeys(first or second for first, second in loaded)
    return [name for name in names if name in MODELS and name not in models]


def make_kernel(folder: Path, models: Mapping[str, str], source: Path) -> Path:
    """Write the kernel `python3` into a folder; as JUPYTER_PATH it comes before any other."""
    profile = folder / "ipython" / "profile_default"
    startup = profile / "startup"
    startup.mkdir(parents=True)
    (startup / "00-models.py").write_text(_STARTUP.format(models=dict(models)), "utf-8")
    (profile / "ipython_kernel_config.py").write_text(_CONFIG, "utf-8")
    _write_command(folder / "bin" / "unmask")
    kernel = folder / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", *_QUIET],
        "display_name": "Python 3",
        "language": "python",
        "env": _environment(folder, source),
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


def _environment(folder: Path, source: Path) -> dict[str, str]:
    return {
        # also keeps out the configuration of whoever builds
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": str(source),
        "PATH": os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", "")]),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
