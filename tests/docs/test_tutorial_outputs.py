"""Tutorials show what their cells do: each is run here once, in an empty folder.

Outputs are compared with those that the notebook has: words alike, numbers to a twentieth, pictures
nearly. Durations that a command announces may be others.
"""

import base64
import io
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import notebooks
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from PIL import Image
from read_once import reading_once
from reading_pages import ROOT, alike, notebook
from traitlets.config import Config

import unmask
from unmask.cli import main

pytestmark = pytest.mark.slow

# of what it will cost, where a machine is so slow that a command announces it
NOTICE = re.compile(r"^.*forward passes of .* of tables\n", re.MULTILINE)
# a duration that a command announces, which is measured on this machine in this run
DURATION = re.compile(r"\babout [\d.]+ (?:s|min|h|days)\b")
# of an object, where it has no other description
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def run(page: Path) -> None:
    """Run the cells of a page, and compare what each shows with what the page has."""
    book = notebook(page)
    models = notebooks.available()
    if missing := notebooks.lacking("\n".join(code_of(book)), models):
        pytest.skip(f"{page.stem} loads {', '.join(missing)}, which is not here")
    for name, folder in models.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).symlink_to(folder, target_is_directory=True)
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.reset(new_session=False)
    shell.system = commands_of(shell)
    results: list[dict[str, Any]] = []
    shell.displayhook.write_output_prompt = lambda: None
    shell.displayhook.write_format_data = lambda data, about=None: results.append(data)
    try:
        for cell in book.cells:
            if cell.cell_type != "code":
                continue
            results.clear()
            with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as printed:
                shell.run_cell(cell.source).raise_error()
            # a command that fails does not stop a notebook
            assert shell.user_ns.get("_exit_code", 0) == 0, cell.source
            printed.seek(0)
            compare(cell, printed.read(), results)
    finally:
        # a shell takes the place of __main__, which tests that start processes ask
        shell.restore_sys_module_state()


def code_of(book: Any) -> list[str]:
    return [cell.source for cell in book.cells if cell.cell_type == "code"]


def compare(cell: Any, printed: str, results: list[dict[str, Any]]) -> None:
    """What a cell printed and returned, with what the notebook shows under it."""
    shown = {"stream": "", "execute_result": []}
    for output in cell.outputs:
        if output.output_type == "stream":
            shown["stream"] += output.text
        else:
            shown["execute_result"].append(output.data)
    if not NOTICE.search(shown["stream"]):
        printed = NOTICE.sub("", printed)
    alike(DURATION.sub("about T", printed), DURATION.sub("about T", shown["stream"]))
    assert len(results) == len(shown["execute_result"]), cell.source
    for one, other in zip(results, shown["execute_result"], strict=True):
        assert one.keys() == other.keys(), cell.source
        alike(ADDRESS.sub("", one["text/plain"]), ADDRESS.sub("", other["text/plain"]))
        if "image/png" in one:
            alike_pictures(one["image/png"], other["image/png"])


def alike_pictures(one: Any, other: str) -> None:
    """The same size but for a few pixels, and hardly a pixel of another colour."""
    pictures = []
    for data in (one, other):
        content = base64.b64decode(data) if isinstance(data, str) else data
        with Image.open(io.BytesIO(content)) as picture:
            pictures.append(np.asarray(picture.convert("L").resize((200, 200)), float))
    assert np.abs(pictures[0] - pictures[1]).mean() < 2


def commands_of(shell: InteractiveShell) -> Callable[[str], None]:
    """What `!` runs: `unmask` in this process, for to start it takes longer than what it does."""
    outside = shell.system_piped

    def run_command(line: str) -> None:
        words = shlex.split(shell.var_expand(line, depth=1))
        if words[0] != "unmask":
            outside(line)
            return
        # a notebook shows both streams as one
        words, log = (words[:-2], words[-1]) if words[-2] == "2>" else (words, None)
        with (
            nullcontext(sys.stdout) if log is None else Path(log).open("w") as errors,
            redirect_stderr(errors),
        ):
            shell.user_ns["_exit_code"] = main(words[1:])

    return run_command


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The environment that a tutorial runs in."""
    with reading_once(), pytest.MonkeyPatch.context() as patch:
        commands = tmp_path_factory.mktemp("kernel") / "kernel"
        notebooks.make_kernel(commands, {})
        for name, value in notebooks.environment(commands).items():
            patch.setenv(name, value)
        yield


@pytest.mark.parametrize("page", notebooks.tutorials(), ids=lambda page: page.stem)
def test_cells_print_return_and_draw_what_the_page_shows(
    page: Path, kernel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.real
@pytest.mark.long
def test_quick_start_over_the_whole_vocabulary() -> None:
    lm = unmask.load(ROOT / "models" / "tiny-english")
    joint = lm.joint("A woman is [MASK] a [MASK] in the kitchen.")
    assert 1_500 < joint.diagnostics["forward_passes"] <= 2_000
    assert f"{math.exp(joint.log_prob('reading', 'book')):.2f}" == "0.07"
