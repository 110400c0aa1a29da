"""Constructions of a user's own: what a function must be like, and how it becomes a joint."""

import inspect
import os
import re
import sys
from collections.abc import Callable
from functools import partial, update_wrapper
from importlib import import_module

from unmask.arguments import real_number, whole_number
from unmask.constructions.construction import Construction
from unmask.constructions.needs import Needs, every_table
from unmask.errors import MethodError
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Form, Product, Sum
from unmask.joints.joint import Joint
from unmask.printable import quoted
from unmask.tables.pair_tables import PairTables

Function = Callable[..., Joint | Form]

# "package.module:function", which every process can import for itself
SPEC = re.compile(r"\w+(\.\w+)*:\w+")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

# of this process only: other processes, such as workers, do not know them
REGISTERED: dict[str, Construction] = {}


def add(name: str, value: object, needs: object) -> None:
    """Make a function a construction; the same function once more, as in a cell, replaces it."""
    function = _checked_function(name, value)
    if needs is not None and not isinstance(needs, Needs):
        raise MethodError(f"needs of {name} is an unmask.Needs, not {quoted(needs)}")
    existing = getattr(REGISTERED.get(name), "build", function)
    homes = {(builder.__module__, builder.__qualname__) for builder in (existing, function)}
    if len(homes) > 1:
        raise MethodError(f"there is a construction {quoted(name)} already; take another name")
    table_needs = needs or every_table(2)
    REGISTERED[name] = Construction(
        # with the signature of the function, whose options are those of the construction
        update_wrapper(partial(_joint, name, function, table_needs), function),
        (inspect.getdoc(function) or name).splitlines()[0],
        needs=lambda shape, options: table_needs,
        check=partial(_reject_more, name),
    )


def _reject_more(name: str, _: object, blanks: int) -> None:
    if blanks > 2:
        raise MethodError(f"{name} takes two blanks; the library's own constructions take more")


def imported(spec: str) -> None:
    """Register the function that "package.module:function" names, under that name."""
    if spec in REGISTERED:
        return
    module, _, attribute = spec.partition(":")
    # as `python -m` does: what lies in the folder that a command is started in is found
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise MethodError(
            f"{quoted(spec)} is not a function that can be imported: {error}"
        ) from None
    add(spec, function, getattr(function, "needs", None))


def check_name(name: object) -> str:
    """A name that a construction may have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "all":
        raise MethodError(
            f"a construction's name is of small letters, digits and hyphens, not {quoted(name)}"
        )
    return name


def _checked_function(name: str, function: object) -> Function:
    """The function, if it can be a construction; raises with the reason."""
    example = f"as in def {re.sub('[^a-z0-9]', '_', name)}(tables, *, weight=0.5)"
    if not inspect.isfunction(function):
        raise MethodError(f"{name} is a function from tables to a joint, not {quoted(function)}")
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in _BY_PLACE:
        raise MethodError(f"{name} takes tables as its first argument, {example}")
    for option in parameters[1:]:
        if option.kind is not option.KEYWORD_ONLY or option.default is option.empty:
            raise MethodError(
                f"{quoted(option.name)} of {name} must be keyword-only with a default, {example}"
            )
    return function


def check_value(name: str, option: str, value: object, default: object) -> None:
    """Reject a value that is not of the same kind as the default."""
    kind, fits = {
        bool: ("True or False", isinstance(value, bool)),
        int: ("a whole number", whole_number(value) is not None),
        float: ("a number", real_number(value) is not None),
        str: ("a string", isinstance(value, str)),
    }.get(type(default), ("", True))
    if not fits:
        raise MethodError(f"{option} of {name} is {kind}, not {quoted(value)}")


def _joint(
    name: str, function: Function, parts: Needs, tables: PairTables, **options: object
) -> Joint:
    """The joint that the function builds from these tables, under its own name."""
    # first, so that it may reject its options before anything runs
    built = function(tables, **options)
    # what was declared, so that a cost that was estimated is the cost
    tables.elicit(parts.whole, masked=parts.masked)
    settings = {**REGISTERED[name].options, **options}
    if isinstance(built, Product | Sum):
        powers = built.powers if isinstance(built, Product) else (1, 1)
        for blank, (table, power) in enumerate(zip(("q(a | b)", "q(b | a)"), powers, strict=False)):
            if power and blank not in parts.whole:
                raise MethodError(
                    f"{name} returned a {type(built).__name__} with {table}, which its needs= "
                    f"leaves out; name blank {blank} in whole="
                )
        return form_joint(built, tables, method=name, diagnostics=settings)
    if not isinstance(built, Joint):
        raise MethodError(f"{name} returns a Product, a Sum or a Joint, not {quoted(built)}")
    pairs = zip(built.supports, tables.supports, strict=False)
    if built.shape != tables.shape or not all(a.ids.equal(b.ids) for a, b in pairs):
        raise MethodError(f"{name} returned a joint over other tokens than those of its tables")
    facts = {**built.made_by, **tables.diagnostics(), **settings}
    return Joint(built.engine, built.supports, method=name, diagnostics=facts)
