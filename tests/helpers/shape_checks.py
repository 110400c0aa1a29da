"""How annotations are checked under pytest: shapes by jaxtyping, with beartype for the rest.

jaxtyping has an import hook of its own. It wraps every function, also those that name no shape and
those made anew at each call of another, and checks arguments twice: tests took twice as long.
"""

import ast
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from jaxtyping import TypeCheckError, jaxtyped

# calls of a function that are checked in a process; after these, one whenever their number has
# grown by an eighth. To check them all takes a quarter of the time of tests of tables and joints:
# only --long does
FIRST_CALLS = math.inf if os.environ.get("UNMASK_TEST_SHAPES") == "all" else 20


@contextmanager
def checks_of_shapes(package: str) -> Iterator[None]:
    """Modules of the package that are imported meanwhile check the shapes that they name."""
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def checked(what: Any) -> Any:
    """Check a function or a dataclass that names shapes: mypy has checked all others."""
    if isinstance(what, type):
        if is_dataclass(what) and "__init__" in vars(what):
            what.__init__ = checked(what.__init__)
        return what
    if "jaxtyping." not in repr(getattr(what, "__annotations__", {})):
        return what
    # made at the first call: most functions are not called by most processes
    typed: Any = None
    calls, due = 0, 0

    @wraps(what)
    def within_its_own_sizes(*arguments: Any, **options: Any) -> Any:
        nonlocal typed, calls, due
        calls += 1
        if calls < due:
            return what(*arguments, **options)
        due = calls + 1 if calls < FIRST_CALLS else calls * 9 // 8
        if typed is None:
            typed = _typed()(what)
        with jaxtyped("context"):
            return typed(*arguments, **options)

    return within_its_own_sizes


@cache
def _typed() -> Any:
    """What checks a function's annotations, imported where shapes are checked alone."""
    from beartype import BeartypeConf, beartype

    # an int may stand where a float is asked for, as everywhere else in Python
    return beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeCheckError))


class _Decorations(ast.NodeTransformer):
    """Functions and classes of a module; not functions inside others, made anew at each call."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        # innermost: other decorators hide annotations
        node.decorator_list.append(_decorator(node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # outermost: a dataclass gets its `__init__` from a decorator
        node.decorator_list.insert(0, _decorator(node))
        return self.generic_visit(node)


def _decorator(node: ast.stmt) -> ast.expr:
    call = ast.parse("__import__('shape_checks').checked", mode="eval").body
    return ast.fix_missing_locations(ast.copy_location(call, node))


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        # neither from nor into the cache of compiled modules, which holds them as they are written
        tree = ast.parse(self.get_data(self.path), self.path)
        return compile(_Decorations().visit(tree), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.package:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec
