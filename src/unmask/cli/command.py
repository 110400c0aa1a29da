"""Commands as values: a frozen dataclass each, whose fields are its options and arguments.

From the fields come the parser, with it the page docs/reference/commands.md, and the value that a
command line stands for. A field that is itself such a dataclass is a group of options: commands
share it, each with defaults of its own.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from types import NoneType
from typing import Any, NamedTuple, Protocol, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


@dataclass(frozen=True)
class Option:
    """What is said of an option besides its name, type and default.

    `{default}` in the help is the default. An option stands in the `group` of its dataclass unless
    it names another; "" is the common one.
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
    group_field: Value = field(default=default, metadata={"without": without})
    return group_field


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
    own = getattr(command, "GROUP", "")
    for one, hint in _fields(command):
        if is_dataclass(hint):
            assert isinstance(hint, type)
            inner = declared(hint, one.default)
            yield from (each for each in inner if each.name not in one.metadata["without"])
        elif "source" in one.metadata:
            for name, (kind, option) in one.metadata["source"]().items():
                yield Declared(name, kind, None, _in_group(option, own))
        else:
            default = one.default if defaults is None else getattr(defaults, one.name)
            yield Declared(one.name, hint, default, _in_group(one.metadata["option"], own))


def value(command: type[Value], given: Mapping[str, Any], defaults: object = None) -> Value:
    """The command that a namespace of its parser stands for."""
    values: dict[str, object] = {}
    for one, hint in _fields(command):
        if is_dataclass(hint):
            assert isinstance(hint, type)
            kept = {name: getattr(one.default, name) for name in one.metadata["without"]}
            values[one.name] = value(hint, {**given, **kept}, one.default)
        elif "source" in one.metadata:
            names = (name for name in one.metadata["source"]() if given.get(name) is not None)
            values[one.name] = {name: given[name] for name in names}
        else:
            content = given.get(one.name)
            if content is None and one.default is not MISSING:
                content = one.default if defaults is None else getattr(defaults, one.name)
            values[one.name] = tuple(content) if isinstance(content, list) else content
    return command(**values)


def _fields(command: type) -> Iterator[tuple[Field[Any], Any]]:
    hints = get_type_hints(command)
    return ((one, hints[one.name]) for one in fields(command))


def _in_group(option: Option, own: str) -> Option:
    return option if option.group is not None else replace(option, group=own)


def _as_argparse(one: Declared) -> tuple[list[str], dict[str, Any]]:
    """The flags and keywords of `add_argument`."""
    name, hint, default, option = one
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] or [hint]
    is_list = get_origin(hint) is tuple
    help_text = option.help.replace("{default}", _written(default))
    # argparse would expand what follows a percent sign
    how: dict[str, Any] = {"help": help_text.replace("%", "%%")}
    if hint is bool:
        how |= {"action": "store_true"}
    else:
        how |= {"type": kinds[0], "metavar": option.metavar, "choices": option.choices}
        # a list that is appended to would begin with the default
        how |= {"default": None if default is MISSING or is_list else default}
    if option.is_positional:
        optional = default is not MISSING
        nargs = ("*" if optional else "+") if is_list else "?" if optional else None
        return [name], how | ({} if nargs is None else {"nargs": nargs})
    if option.nargs is not None:
        how |= {"nargs": option.nargs}
    elif is_list:
        how |= {"action": "append"}
    if default is MISSING:
        how |= {"required": True}
    return [*filter(None, [option.short]), f"--{name.replace('_', '-')}"], how


def _written(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)
