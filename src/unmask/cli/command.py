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
from typing import Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


@dataclass(frozen=True)
class Option:
    """An option or argument; its name, type and default are those of its field.

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
    name: str = ""
    type: Any = str
    default: Any = None

    @property
    def flag(self) -> str:
        """Its name on a command line."""
        return self.name if self.is_positional else f"--{self.name.replace('_', '-')}"

    @property
    def full_help(self) -> str:
        """The help with the default in it."""
        default = self.default
        if isinstance(default, tuple):
            default = ",".join(map(str, default))
        text = f"{default:g}" if isinstance(default, float) else str(default)
        return self.help.replace("{default}", text)


class Command(Protocol):
    """A command: what it has besides its options."""

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


def declared_by(source: Callable[[], list[Option]]) -> Any:
    """A field with those options that were given, by name, of some that others declare."""
    return field(default_factory=dict, metadata={"source": source})


def declared(command: type, defaults: object = None) -> Iterator[Option]:
    """The options of a command and of its groups; `defaults` is a group's own value."""
    title = getattr(command, "GROUP", None)
    for member, hint in _fields(command):
        if "without" in member.metadata:
            inner = declared(hint, member.default)
            options = [each for each in inner if each.name not in member.metadata["without"]]
        elif "source" in member.metadata:
            options = member.metadata["source"]()
        else:
            default = member.default if defaults is None else getattr(defaults, member.name)
            named = {"name": member.name, "type": hint, "default": default}
            options = [replace(member.metadata["option"], **named)]
        for each in options:
            yield replace(each, group=each.group or title)


def value(command: type[Value], namespace: Mapping[str, Any], defaults: object = None) -> Value:
    """The command that a namespace of its parser stands for."""
    values: dict[str, object] = {}
    for member, hint in _fields(command):
        content = namespace.get(member.name)
        if "without" in member.metadata:
            defaulted = {name: getattr(member.default, name) for name in member.metadata["without"]}
            content = value(hint, {**namespace, **defaulted}, member.default)
        elif "source" in member.metadata:
            names = [each.name for each in member.metadata["source"]()]
            content = {name: namespace[name] for name in names if namespace.get(name) is not None}
        elif content is None and member.default is not MISSING:
            content = member.default if defaults is None else getattr(defaults, member.name)
        values[member.name] = tuple(content) if isinstance(content, list) else content
    return command(**values)


def _fields(command: type) -> Iterator[tuple[Field[Any], Any]]:
    hints = get_type_hints(command)
    # those of a base class come last
    names = dict.fromkeys(name for base in command.__mro__ for name in get_annotations(base))
    by_name = {member.name: member for member in fields(command)}
    every = (by_name[name] for name in names if name in by_name)
    return ((member, hints[member.name]) for member in every if member.metadata)


def add_options(parser: argparse.ArgumentParser, command: type) -> None:
    """Add the options of a command to its parser, in the order of the fields."""
    groups: dict[str | None, argparse._ActionsContainer] = {None: parser}
    for entry in declared(command):
        if entry.group not in groups:
            groups[entry.group] = parser.add_argument_group(entry.group)
        is_list, is_optional = get_origin(entry.type) is tuple, entry.default is not MISSING
        # argparse would expand what follows a percent sign
        how: dict[str, Any] = {"help": entry.full_help.replace("%", "%%")}
        if entry.type is bool:
            how["action"] = "store_true"
        else:
            kind = next((kind for kind in get_args(entry.type) if kind is not NoneType), entry.type)
            # a list that is appended to would begin with the default
            how |= {"type": kind, "default": entry.default if is_optional and not is_list else None}
            how |= {"metavar": entry.metavar, "choices": entry.choices, "nargs": entry.nargs}
        if entry.is_positional:
            how["nargs"] = (
                ("*" if is_optional else "+") if is_list else "?" if is_optional else None
            )
        elif not is_optional:
            how["required"] = True
        if is_list and how["nargs"] is None:
            how["action"] = "append"
        short = [] if entry.short is None else [entry.short]
        groups[entry.group].add_argument(*short, entry.flag, **how)
