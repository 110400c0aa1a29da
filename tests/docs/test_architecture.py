"""The architecture page is the contract that the gate holds, and the folder as it is."""

import re
import tomllib

from reading_pages import ROOT

PACKAGE = ROOT / "src" / "unmask"
PAGE = (ROOT / "docs" / "dev" / "architecture.md").read_text(encoding="utf-8")


def _layers_on_the_page() -> list[set[str]]:
    table = PAGE.split("| layer |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [{name.removesuffix(".py").rstrip("/") for name in _names(cell)} for cell in cells]


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_lists_the_layers_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"
    )
    assert _layers_on_the_page() == [set(layer.split(" | ")) for layer in contract["layers"]]


def test_the_folder_is_as_listed() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    listed = set().union(*_layers_on_the_page())
    assert modules | folders == listed | {"__init__", "__main__"}
    assert len(modules) <= 18
    assert len(folders) <= 14


def test_every_file_that_the_page_names_is_there() -> None:
    for name in re.findall(r"`([\w/]+\.py)`", PAGE):
        places = [PACKAGE / name, PACKAGE / "constructions" / name]
        assert any(place.is_file() for place in places), name
    for name in re.findall(r"`((?:tests/)?\w+/)`", PAGE):
        assert (ROOT / name).is_dir() or (PACKAGE / name).is_dir(), name


def test_tests_mirror_the_package() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py"))}
    own = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert own <= folders
    assert folders - own == {"docs", "end_to_end", "golden", "laws"}
