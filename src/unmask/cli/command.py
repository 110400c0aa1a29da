"""Commands as values: a frozen dataclass each, whose fields are its options and arguments.

A field becomes an `Option`, with the field's name, type and default. From options come the parser
and the page docs/reference/commands.md; `value` turns what was typed into the command, and rejects
what an option does not take. Commands inherit the options that they share.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from inspect import get_annotations
from types import NoneType
from typing import Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

from unmask.errors import UnmaskError
from unmask.printable import quoted

Value = TypeVar("Value")
_NUMBERS = {int: "a whole number", float: "a number"}
# the titles of help in their order; each is over what fits a screen
_TITLES: tuple[str | None, ...] = (
    *(None, "input", "model", "blanks", "construction", "estimate", "pairs", "output", "running"),
    *("folder of parts", "Ray"),
)


@dataclass(frozen=True)
class Option:
    """An option or argument; its name, type and default are those of its field.

    `{default}` in the help is the default. Help lists it in its `group`, by default the `GROUP` of
    the class that declares it. What is typed is one of the `choices`, if there are any, in any
    case; with `commas` it is several values. It is a value of the field `into`, if that is a
    mapping of options by name.
    """

    help: str
    metavar: str | None = None
    short: str | None = None
    group: str | None = None
    choices: tuple[object, ...] | None = None
    nargs: str | None = None
    commas: bool = False
    is_positional: bool = False
    name: str = ""
    flag: str = ""
    type: Any = str
    is_list: bool = False
    default: Any = None
    into: str | None = None


class Command(Protocol):
    """A command: what it has besides its options."""

    SUMMARY: str
    DESCRIPTION: str
    EXAMPLE: str

    def run(self) -> int:
        """Do the work; returns the exit code."""


def option(help: str, metavar: str | None = None, *, default: Any = None, **rest: Any) -> Any:
    """A field that is the option `--name`; a field of type bool takes no value."""
    return field(default=default, metadata={"option": Option(help, metavar, **rest)})


# without a default it has to be given
required = partial(option, default=MISSING)
# given by its place
argument = partial(option, default=MISSING, is_positional=True)


def declared_by(source: Callable[[], list[Option]]) -> Any:
    """A field that maps options to their values, by name; the options are declared elsewhere."""
    return field(default_factory=dict, metadata={"source": source})


def declared(command: type) -> list[Option]:
    """The options of a command, those that it inherits last."""
    hints, members = get_type_hints(command), {member.name: member for member in fields(command)}
    entries: list[Option] = []
    for base in command.__mro__:
        for name in get_annotations(base):
            # the most derived class declares it
            member = members.pop(name, None)
            metadata, group = member.metadata if member else {}, base.__dict__.get("GROUP")
            if "source" in metadata:
                entries += (replace(each, into=name) for each in metadata["source"]())
            elif member and "option" in metadata:
                entry = metadata["option"]
                changes = {"name": name, "type": hints[name], "default": member.default}
                entries.append(replace(entry, group=entry.group or group, **changes))
    for number, entry in enumerate(entries):
        plain = next((kind for kind in get_args(entry.type) if kind is not NoneType), entry.type)
        default = entry.default
        if isinstance(default, tuple):
            default = ",".join(map(str, default))
        text = f"{default:g}" if isinstance(default, float) else str(default)
        entries[number] = replace(
            entry,
            flag=entry.name if entry.is_positional else f"--{entry.name.replace('_', '-')}",
            help=entry.help.replace("{default}", text),
            type=plain,
            is_list=get_origin(entry.type) is tuple,
        )
    return entries


def add_options(parser: argparse.ArgumentParser, entries: Iterable[Option]) -> None:
    """Add options to the parser of a command; `value` reads what it parses."""
    groups: dict[str | None, argparse._ActionsContainer] = {None: parser}
    usage = [parser.prog, "[OPTION ...]"]
    # a title that is not among them comes last
    for entry in sorted(entries, key=lambda entry: (*_TITLES, entry.group).index(entry.group)):
        if entry.group not in groups:
            groups[entry.group] = parser.add_argument_group(entry.group)
        # argparse would expand what follows a percent sign
        keywords: dict[str, Any] = {"help": entry.help.replace("%", "%%")}
        is_optional = entry.default is not MISSING
        if entry.type is bool:
            keywords["action"] = "store_true"
        else:
            keywords |= {"metavar": entry.metavar, "nargs": entry.nargs}
        if entry.is_positional:
            many = "*" if is_optional else "+"
            keywords["nargs"] = many if entry.is_list else "?" if is_optional else None
            place = f"{entry.metavar} ..." if entry.is_list else str(entry.metavar)
            usage.append(f"[{place}]" if is_optional else place)
        elif not is_optional:
            keywords["required"] = True
            usage.insert(1, f"{entry.short or entry.flag} {entry.metavar or entry.name.upper()}")
        if entry.is_list and keywords["nargs"] is None:
            keywords["action"] = "append"
        short = [] if entry.short is None else [entry.short]
        groups[entry.group].add_argument(*short, entry.flag, **keywords)
    # a line: every option is listed below it
    parser.usage = " ".join(usage)


def value(command: type[Value], typed: Mapping[str, Any]) -> Value:
    """The command of what was typed, by option; raises where an option does not take it."""
    values: dict[str, Any] = {}
    for entry in declared(command):
        content = typed.get(entry.name)
        # a list without values is an argument that was left out
        if content is None or content == []:
            continue
        if entry.type is not bool:
            words = content if isinstance(content, list) else [content]
            if entry.commas:
                parts = (part.strip() for word in words for part in word.split(","))
                words = [*dict.fromkeys(parts)]
            if entry.choices is not None and entry.type is str:
                words = [word.strip().lower().replace("_", "-") for word in words]
            try:
                content = tuple(map(entry.type, words))
            except ValueError:
                wrong = f"takes {_NUMBERS[entry.type]}, not {', '.join(map(quoted, words))}"
                raise UnmaskError(f"{entry.flag} {wrong}") from None
            for part in content:
                if part not in (entry.choices or (part,)):
                    allowed = ", ".join(map(str, entry.choices or ()))
                    raise UnmaskError(f"{entry.flag} is one of {allowed}, not {quoted(part)}")
            content = content if entry.is_list else content[0]
        if entry.into is None:
            values[entry.name] = content
        else:
            values.setdefault(entry.into, {})[entry.name] = content
    return command(**values)
