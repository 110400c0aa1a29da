"""The reference has every public name and every command, and says what they say."""

import ast
import inspect
import re
from importlib import import_module

import command_help
import pytest
from reading_pages import ROOT

import unmask
from unmask import CONSTRUCTIONS

FOLDER = ROOT / "docs" / "reference"
PACKAGES = ("unmask", "unmask.plots")


def documented() -> list[str]:
    pages = (page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md")))
    return re.findall(r"^\.\. (?:auto\w+|py:data):: (unmask\S+)$", "\n".join(pages), re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package: str) -> None:
    names = {f"{package}.{name}" for name in import_module(package).__all__}
    missing = names - set(documented())
    assert not missing, f"no page of docs/reference documents {', '.join(sorted(missing))}"


def test_what_is_documented_exists_and_is_documented_once() -> None:
    names = documented()
    assert sorted(set(names)) == sorted(names)
    for name in names:
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), name


def test_every_construction_is_documented() -> None:
    functions = {f"{one.build.__module__}.{one.build.__name__}" for one in CONSTRUCTIONS.values()}
    assert functions <= set(documented())


def test_types_of_signatures_are_explained() -> None:
    from _sphinx import names

    page = (FOLDER / "types.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\.\. py:type:: (\w+)$", page, re.MULTILINE)) == set(names.ALIASES)
    # each must still be what its module calls so, and none be written like another
    assert len({long for long, _ in names.spelled_out()}) == len(names.ALIASES)


def test_a_signature_names_its_types() -> None:
    from _sphinx import names

    stringify = pytest.importorskip("sphinx.util.inspect")
    signature = stringify.stringify_signature(
        stringify.signature(unmask.LanguageModel.joint), unqualified_typehints=True
    )
    short, _ = names.shorten(None, "", "", None, None, signature, None)
    assert "support: Axes = 'auto'" in short
    assert "blanks: ~collections.abc.Sequence[Blank] | None" in short


def test_the_width_of_the_terminal_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    before = command_help.page()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert command_help.page() == before
    assert "\x1b" not in before


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_that_are_imported_on_first_use(package: str) -> None:
    module = import_module(package)
    blocks = [
        node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If)
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {(node.module, alias.name) for node in imports for alias in node.names}
    assert seen == {(home, name) for home, names in module._HOMES.items() for name in names}
    for home in module._HOMES:
        import_module(home)
    # a file that is named like its function would hide it
    assert not any(inspect.ismodule(getattr(module, name)) for name in module.__all__)
