"""One construction per file, each a function from tables to a joint; here they get their names.

To add one here: write its file, give it an entry in `unmask.names.METHODS`, and its definition to
`tests/helpers/reference.py`. To add one from outside: `register`, or "package.module:function" as
its name.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TypeVar

from unmask.constructions import registered
from unmask.constructions.construction import Construction, Given, unknown_option
from unmask.constructions.incompatibility import agreement
from unmask.constructions.needs import Needs
from unmask.errors import MethodError
from unmask.joints.agreement import Agreement
from unmask.joints.joint import Joint
from unmask.names import DEFAULT_METHOD as DEFAULT_METHOD
from unmask.names import METHOD_WITHOUT_TABLES as METHOD_WITHOUT_TABLES
from unmask.names import METHODS
from unmask.printable import quoted
from unmask.tables.protocol import Tables

Function = TypeVar("Function", bound=registered.Function)


CONSTRUCTIONS: dict[str, Construction] = {}
for _name, _method in METHODS.items():
    _module, _, _attribute = _method.home.rpartition(".")
    CONSTRUCTIONS[_name] = getattr(import_module(_module, __name__), _attribute)


def method_name(name: object) -> str:
    """The short name of a construction, in any case."""
    if not isinstance(name, str):
        hint = "; give a function a name with unmask.register" if callable(name) else ""
        raise MethodError(f"a method is one of {', '.join(_names())}, not {quoted(name)}{hint}")
    plain = name.strip().lower().replace("_", "-")
    if plain in CONSTRUCTIONS or plain in registered.REGISTERED:
        return plain
    if not is_importable(name.strip()):
        near = difflib.get_close_matches(plain, _names(), n=1, cutoff=0.5)
        hint = f"; did you mean {quoted(near[0])}? Methods" if near else "; methods"
        raise MethodError(f"no method {quoted(name)}{hint}: {', '.join(_names())}")
    registered.imported(name.strip())
    return name.strip()


def is_importable(name: str) -> bool:
    """True if a name tells where its function can be imported from."""
    return registered.SPEC.fullmatch(name) is not None


def construction(name: str) -> Construction:
    """The construction of a short name, the library's or a registered one."""
    return CONSTRUCTIONS.get(name) or registered.REGISTERED[name]


def _names() -> list[str]:
    return [*CONSTRUCTIONS, *registered.REGISTERED]


def register(name: str, *, needs: Needs | None = None) -> Callable[[Function], Function]:
    """Make a function of tables a construction of this process, under a name: a decorator.

    Args:
        name: Name of the construction; the same function may come again under it.
        needs: Which parts of the tables it reads, which `LanguageModel.cost` counts. Default: both
            tables and the doubly masked distributions.
    Returns:
        A decorator. The function takes `PairTables`, and options by keyword with a default each; it
        returns a `Product` or `Sum` (of `unmask.joints.forms`) of the two tables, or a `Joint`.
    Raises:
        MethodError: The name is taken, or the function cannot be called so.
    Examples:
        >>> @unmask.register("like-log-pool")
        ... def like_log_pool(tables):
        ...     return unmask.construct("log-pool", tables)
        >>> lm.joint("Two [MASK] are [MASK].", method="like-log-pool", support=20).method
        'like-log-pool'
    """

    def add(function: Function) -> Function:
        if registered.check_name(name) in CONSTRUCTIONS:
            raise MethodError(f"there is a construction {quoted(name)} already; take another name")
        registered.add(name, function, needs)
        return function

    return add


def check_options(method: str, options: Given, blanks: int = 2) -> None:
    """Raise for options that a construction does not take, or not so, before anything runs."""
    recipe = construction(method)
    allowed = recipe.options
    for option, value in options.items():
        if option not in allowed:
            raise MethodError(f"{method} has no {unknown_option(option, allowed)}")
        if method not in CONSTRUCTIONS:
            registered.check_value(method, option, value, allowed[option])
        elif option in METHODS[method].options:
            METHODS[method].options[option].check(value)
    recipe.check(options, blanks)


def check_methods(
    methods: object, options: Mapping[str, Given] | None, blanks: int = 2
) -> tuple[list[str], dict[str, dict[str, object]]]:
    """Short names, each once, and the options of each; raises for what does not go together."""
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise MethodError(f"methods is a list of names, not {quoted(methods)}")
    names = list(dict.fromkeys(map(method_name, methods)))
    by_method: dict[str, dict[str, object]] = {name: {} for name in names}
    for method, of_method in (options or {}).items():
        name = method_name(method)
        if of_method and name not in names:
            raise MethodError(f"options are given for {name}, which is not among the methods")
        if name in names:
            by_method[name] = dict(of_method)
    for name in names:
        check_options(name, by_method[name], blanks)
    return names, by_method


def construct(method: object, tables: Tables, **options: object) -> Joint:
    """Build a joint from tables by the name of its construction.

    Args:
        method: Name of a construction.
        tables: What `LanguageModel.tables` gives.
        **options: Options of the construction: `pivot=`, `steps=`, `mean=`.
    Returns:
        The joint, with one axis per blank.
    Raises:
        MethodError: There is no such construction or option.
    Examples:
        >>> tables = lm.tables("Two [MASK] are [MASK].", support=20)
        >>> unmask.construct("hcb", tables).method
        'hcb'
    """
    name = method_name(method)
    check_options(name, options, len(tables.shape))
    return build(name, tables, options)


def build(name: str, tables: Tables, options: Given) -> Joint:
    """Like `construct`, for the short name of a construction and options that were checked."""
    recipe = construction(name)
    if name in CONSTRUCTIONS:
        needed = recipe.needs(tables.shape, options)
        tables.elicit(needed.whole, masked=needed.masked)
    joint = recipe.build(tables, **options)
    # measured when it is read, and only where all tables are there by then
    agreed = partial(_agreement_if_elicited, tables)
    facts = joint.made_by
    return Joint(joint.engine, joint.supports, method=name, diagnostics=facts, agreement=agreed)


def _agreement_if_elicited(tables: Tables) -> Agreement | None:
    return agreement(tables) if tables.holds_all() else None
