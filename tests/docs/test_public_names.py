"""Public names are listed twice, for type checkers and for the import on first use."""

import ast
import inspect
from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["unmask", "unmask.plots"])
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
