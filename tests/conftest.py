"""Shapes in annotations are checked while tests run; real models are loaded once."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

# --quick checks no shapes, which lets tests start seconds sooner, and --long those of every call;
# also in the processes that share the tests, which get the environment alone
for option, shapes in (("--quick", "0"), ("--long", "all")):
    if option in sys.argv:
        os.environ["UNMASK_TEST_SHAPES"] = shapes
from shape_checks import checks_of_shapes  # noqa: E402

# before the first import of any module of the package
unchecked = os.environ.get("UNMASK_TEST_SHAPES") == "0"
with nullcontext() if unchecked else checks_of_shapes("unmask"):
    import unmask
    import unmask.cli
    import unmask.joints.metrics
    import unmask.loading

from assets import real_model  # noqa: E402
from read_once import reading_once  # noqa: E402
from tiny_tokenizers import ODD, save_bert  # noqa: E402

# many cases of what other files reach as well: to count their lines takes a quarter of their time
REACHED_ELSEWHERE = {
    "test_constructions.py",
    "test_laws.py",
    "test_real_models.py",
}

# files that take more than forty seconds begin first: processes that share the files then end at
# about one time
LONGEST = {
    "test_all_architectures.py",
    "test_checkpoint_files.py",
    "test_consistency.py",
    "test_constructions.py",
    "test_damaged_inputs.py",
    "test_demo.py",
    "test_docs_build.py",
    "test_every_kind.py",
    "test_every_path_on_a_second_device.py",
    "test_folder_jobs.py",
    "test_golden.py",
    "test_laws.py",
    "test_minicons.py",
    "test_plots.py",
    "test_ray_jobs.py",
    "test_sketch.py",
    "test_snippets.py",
    "test_tutorial_outputs.py",
}
NOT_QUICK = ("slow", "long", "real", "assets")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked `long` as well")
    parser.addoption(
        "--quick", action="store_true", help="the first case of each test that has no mark"
    )
    parser.addoption(
        "--update-golden", action="store_true", help="write what tests/golden holds anew"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files that take longest come first.

    Tests marked `long` are left out, and counted as deselected, unless --long asks for them.
    """
    if not config.getoption("--long"):
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
    if config.getoption("--quick"):
        chosen = quick(items)
        left_out = {one.path.parent for one in items} - {one.path.parent for one in chosen}
        # of all tests: a file or a folder that was named may be slow as a whole
        if left_out and config.args == ["tests"]:
            folders = ", ".join(map(str, sorted(left_out)))
            raise pytest.UsageError(f"--quick has no test of {folders}")
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        # what has become slow is shown at the end
        config.option.durations, config.option.durations_min = 10, 2.0
        items[:] = [item for item in items if item in chosen]
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        for mark in item.iter_markers("assets"):
            if not (mark.args and str(mark.args[0]).strip()):
                raise pytest.UsageError(f"{item.nodeid}: give the reason, assets('...')")
        if item.path.name in REACHED_ELSEWHERE:
            item.add_marker("no_cover")


def quick(items: list[pytest.Item]) -> set[pytest.Item]:
    """The first case of every test without mark."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in NOT_QUICK):
            first.setdefault(item.nodeid.split("[")[0], item)
    return set(first.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny BERT; tokens that are shown escaped are never likely."""
    return str(
        save_bert(tmp_path_factory.mktemp("models") / "tiny-bert", dict.fromkeys(ODD, -30.0))
    )


@pytest.fixture(scope="module")
def model(folder: str) -> str:
    """The same, as the value of --model."""
    return folder


@pytest.fixture(scope="module")
def lm(folder: str) -> "unmask.LanguageModel":
    """The model in `folder`, which a test module may have of its own."""
    return unmask.load(folder)


@pytest.fixture
def fill(folder: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Run `unmask fill`, which must succeed, and return what it printed on stdout and stderr."""

    def run(*arguments: str) -> tuple[str, str]:
        assert unmask.cli.main(["fill", *arguments, "-m", folder]) == 0
        return capsys.readouterr()

    return run


@pytest.fixture
def results(fill: Callable[..., tuple[str, str]]) -> Callable[..., Any]:
    """What `unmask fill --json` printed."""
    return lambda *arguments: json.loads(fill(*arguments, "--json", "--quiet")[0])


@pytest.fixture(scope="module")
def read_once() -> Iterator[None]:
    """For files of tests that change no network: a test would find it as the last has left it."""
    with reading_once():
        yield


@pytest.fixture(scope="session")
def tiny_english() -> "unmask.LanguageModel":
    return unmask.load(real_model("tiny-english"))
