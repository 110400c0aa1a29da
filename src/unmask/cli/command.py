"""Commands as values: a frozen dataclass each, whose fields are its options and arguments.

From the fields come the parser, with it the page docs/reference/commands.md, and the value that a
command line stands for. A field that is itself such a dataclass is a group of options: commands
share it, each with defaults of its own. A field that is none of these is no option.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from inspect import get_annotations
from types import NoneType
from typing import Any, NamedTuple, Protocol, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


@dataclass(frozen=True)
class Option:
    """What is said of an option besides its name, type and default.

    `{default}` in the help is the default. An option stands in the group that it names, or in that
    of its dataclass (`GROUP`), or among the common ones.
    """

    help: str
    metavar: str | None = None
    short: str | None = None
    group: str | None = None
    choices: tuple[object, ...] | None = None
    nargs: str | None = None
    is_positional: bool = False


class Declared(NamedTuple):
    """An option of a command, from a field or from `declared_by`."""

    name: str
    type: Any
    default: Any
    option: Option


class Command(Protocol):
    """What a command has besides its options."""

    SUMMARY: str
    DESCRIPTION: str
    EXAMPLE: str

    def run(self) -> int:
        """Do the work; returns the exit code."""


def option(help: str, metavar: str | None = None, *, default: object = None, **rest: Any) -> Any:
    """A field that is the option `--name`; a field of type bool takes no value."""
    return field(default=default, metadata={"option": Option(help, metavar, **rest)})


def required(help: str, metavar: str | None = None, **rest: Any) -> Any:
    """The same, without a default: it has to be given."""
    return field(metadata={"option": Option(help, metavar, **rest)})


def argument(help: str, metavar: str, *, default: Any = MISSING) -> Any:
    """A field that is given by its place; with a default it may be left out."""
    return field(default=default, metadata={"option": Option(help, metavar, is_positional=True)})


def group(default: Value, *, without: tuple[str, ...] = ()) -> Value:
    """A field that is a group of options; those `without` keep the group's default."""
    made: Value = field(default=default, metadata={"without": without})
    return made


def declared_by(source: Callable[[], Mapping[str, tuple[type, Option]]]) -> Any:
    """A field with those options that were given, by name, of some that others declare."""
    return field(default_factory=dict, metadata={"source": source})


def add_options(parser: argparse.ArgumentParser, command: type) -> None:
    """Add the options of a command to its parser, in the order of the fields."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for one in declared(command):
        title = one.option.group or ""
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        flags, how = _as_argparse(one)
        groups[title].add_argument(*flags, **how)


def declared(command: type, defaults: object = None) -> Iterator[Declared]:
    """The options of a command and of its groups; `defaults` is a group's own value."""
    for one, hint in _fields(command):
        if "without" in one.metadata:
            inner = declared(hint, one.default)
            options = [each for each in inner if each.name not in one.metadata["without"]]
        elif "source" in one.metadata:
            others = one.metadata["source"]().items()
            options = [Declared(name, kind, None, option) for name, (kind, option) in others]
        else:
            default = one.default if defaults is None else getattr(defaults, one.name)
            options = [Declared(one.name, hint, default, one.metadata["option"])]
        title = getattr(command, "GROUP", None)
        for each in options:
            own = each.option if each.option.group else replace(each.option, group=title)
            yield each._replace(option=own)


def value(command: type[Value], given: Mapping[str, Any], defaults: object = None) -> Value:
    """The command that a namespace of its parser stands for."""
    values: dict[str, object] = {}
    for one, hint in _fields(command):
        content = given.get(one.name)
        if "without" in one.metadata:
            kept = {name: getattr(one.default, name) for name in one.metadata["without"]}
            content = value(hint, {**given, **kept}, one.default)
        elif "source" in one.metadata:
            names = (name for name in one.metadata["source"]() if given.get(name) is not None)
            content = {name: given[name] for name in names}
        elif content is None and one.default is not MISSING:
            content = one.default if defaults is None else getattr(defaults, one.name)
        values[one.name] = tuple(content) if isinstance(content, list) else content
    return command(**values)


def _fields(command: type) -> Iterator[tuple[Field[Any], Any]]:
    hints = get_type_hints(command)
    # those of a base class come last
    names = dict.fromkeys(name for one in command.__mro__ for name in get_annotations(one))
    by_name = {one.name: one for one in fields(command)}
    every = (by_name[name] for name in names if name in by_name)
    return ((one, hints[one.name]) for one in every if one.metadata)


def _as_argparse(one: Declared) -> tuple[list[str], dict[str, Any]]:
    """The flags and keywords of `add_argument`."""
    name, hint, default, option = one
    is_list, is_optional = get_origin(hint) is tuple, default is not MISSING
    help_text = option.help.replace("{default}", _written(default))
    # argparse would expand what follows a percent sign
    how: dict[str, Any] = {"help": help_text.replace("%", "%%"), "nargs": option.nargs}
    if option.is_positional:
        how["nargs"] = ("*" if is_optional else "+") if is_list else "?" if is_optional else None
    elif not is_optional:
        how["required"] = True
    if hint is bool:
        how = {"help": how["help"], "action": "store_true"}
    else:
        kind = next((kind for kind in get_args(hint) if kind is not NoneType), hint)
        # a list that is appended to would begin with the default
        how |= {"type": kind, "default": default if is_optional and not is_list else None}
        how |= {"metavar": option.metavar, "choices": option.choices}
    if is_list and how["nargs"] is None:
        how["action"] = "append"
    short = [] if option.short is None else [option.short]
    return [name] if option.is_positional else [*short, f"--{name.replace('_', '-')}"], how


def _written(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)
