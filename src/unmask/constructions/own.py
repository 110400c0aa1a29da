"""Constructions of a user's own: what a function must be like, and how it becomes a joint."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from unmask.arguments import real_number, whole_number
from unmask.constructions.needs import Needs
from unmask.constructions.options import unknown_option
from unmask.errors import MethodError
from unmask.joints.forms import Form, Product, Sum
from unmask.joints.joint import Joint
from unmask.joints.pair_joint import PairJoint
from unmask.printable import quoted
from unmask.tables.pair_tables import PairTables

Construction = Callable[..., Joint | Form]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Own:
    """A user's function under its name; without `needs` it takes both tables and what is masked."""

    name: str
    function: Construction
    needs: Needs | None = None

    @property
    def options(self) -> dict[str, object]:
        """Its options and what they are when not given."""
        _, *rest = inspect.signature(self.function).parameters.values()
        return {one.name: one.default for one in rest}

    def is_redefined_by(self, function: Construction) -> bool:
        """Whether this is the same function once more, as when a cell is run again."""
        return _home(self.function) == _home(function)

    def parts(self) -> Needs:
        """The parts of the tables that it asks for."""
        return self.needs or Needs(masked=True, whole_a=True, whole_b=True)


# in this process only: another one, a worker for example, does not know them
OWN: dict[str, Own] = {}


def checked(name: object, function: object, needs: object) -> Own:
    """A function that can be a construction; anything else is refused, with the reason."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "all":
        raise MethodError(
            f"a construction's name is of small letters, digits and hyphens, not {quoted(name)}"
        )
    if not inspect.isfunction(function):
        raise MethodError(f"{name} is a function from tables to a joint, not {quoted(function)}")
    if needs is not None and not isinstance(needs, Needs):
        raise MethodError(
            f"needs of {name} is an unmask.constructions.needs.Needs, not {quoted(needs)}"
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in _BY_PLACE:
        raise MethodError(f"{name} takes tables as its first argument, as in def {_example(name)}")
    for option in parameters[1:]:
        if option.kind is not option.KEYWORD_ONLY or option.default is option.empty:
            raise MethodError(
                f"{quoted(option.name)} of {name} must be keyword-only with a default, as in "
                f"def {_example(name)}"
            )
    return Own(name, function, needs)


def check_own_options(own: Own, options: Mapping[str, object]) -> None:
    """Refuse options that it does not take, and values that are not like their defaults."""
    defaults = own.options
    for option, value in options.items():
        if option not in defaults:
            raise MethodError(f"{own.name} has no {unknown_option(option, defaults)}")
        wanted = _mismatch(value, defaults[option])
        if wanted:
            raise MethodError(f"{option} of {own.name} is {wanted}, not {quoted(value)}")


def own_joint(own: Own, tables: PairTables, options: Mapping[str, object]) -> Joint:
    """What the function says of these tables, under its own name."""
    # first, so that it may refuse its options before anything is paid
    built = own.function(tables, **options)
    _elicit(own.parts(), tables)
    if isinstance(built, Product | Sum):
        _check_parts(own, built)
        form = _fitted(own.name, built, tables)
        told = {**own.options, **options}
        return PairJoint(form, tables, method=own.name, diagnostics=told)
    if not isinstance(built, Joint):
        raise MethodError(f"{own.name} returns a Product, a Sum or a Joint, not {quoted(built)}")
    pairs = zip(built.supports, tables.supports, strict=False)
    if built.shape != tables.shape or not all(a.ids.equal(b.ids) for a, b in pairs):
        raise MethodError(f"{own.name} returned a joint over other tokens than those of its tables")
    return _renamed(built, own, tables, options)


def _renamed(built: Joint, own: Own, tables: PairTables, options: Mapping[str, object]) -> Joint:
    # the name decides what metrics and pictures make of a joint, and it may have been built by
    # another construction
    built.method = own.name
    built._diagnostics = {
        **built._diagnostics,
        **tables.diagnostics(),
        **own.options,
        **options,
    }
    return built


def _elicit(parts: Needs, tables: PairTables) -> None:
    """Ask for what was declared, so that a cost told before is the cost that is paid."""
    if parts.whole_a:
        tables.a_given_b  # noqa: B018
    if parts.whole_b:
        tables.b_given_a  # noqa: B018
    if parts.masked and tables.has_masked():
        tables.masked  # noqa: B018


def _check_parts(own: Own, form: Form) -> None:
    parts = own.parts()
    powers = (form.power_a_given_b, form.power_b_given_a) if isinstance(form, Product) else (1, 1)
    for table, power, declared, how in (
        ("q(a | b)", powers[0], parts.whole_a, "whole_a"),
        ("q(b | a)", powers[1], parts.whole_b, "whole_b"),
    ):
        if power and not declared:
            raise MethodError(
                f"{own.name} returned a {type(form).__name__} with {table}, which its needs= "
                f"leaves out; add {how}=True"
            )


def _fitted(name: str, form: Form, tables: PairTables) -> Form:
    """The same form in float64, if it has a number a token."""
    given = {field: value for field, value in vars(form).items() if field.startswith("log_")}
    doubled: dict[str, Any] = {}
    for field, value in given.items():
        size = tables.shape[field.endswith("_b")]
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.shape != (size,):
            found = tuple(value.shape) if isinstance(value, Tensor) else value
            raise MethodError(
                f"{field} of what {name} returned is a tensor of {size} numbers, one a token, "
                f"not {quoted(found)}"
            )
        doubled[field] = value.double()
    return replace(form, **doubled)


def _mismatch(value: object, default: object) -> str | None:
    """What the value should be, if it is not of the kind of its default."""
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "True or False"
    if isinstance(default, int):
        return None if whole_number(value) is not None else "a whole number"
    if isinstance(default, float):
        return None if real_number(value) is not None else "a number"
    if isinstance(default, str):
        return None if isinstance(value, str) else "a string"
    return None


def _home(function: Construction) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


def _example(name: str) -> str:
    return f"{name.replace('-', '_')}(tables, *, weight=0.5)"
