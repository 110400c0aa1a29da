"""Write docs/reference/commands.md, the help of every command.

    python runs/command_help.py          # write it
    python runs/command_help.py --check  # say whether it is up to date: exit code 1 where not

Python versions lay help out differently, so that pages are compared word by word.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence, Set
from pathlib import Path

from unmask import cli
from unmask.cli.command import Option, add_options, declared

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"
COMMAND = "python runs/command_help.py"
WIDTH = 100
_ABOUT = f"""\
<!-- written by `{COMMAND}` -->
# Commands

What `unmask --help` and the help of each command print. Data goes to stdout, everything else to
stderr; bad input ends with a one-line message and exit code 2.

INPUT is files or one text. Files are what exists, what ends like a file (`.csv`, `.txt.gz`), and
without a space also URLs, paths with a slash and patterns; `-` is rows of standard input, one text
per line unless `--input-format` names another format. Anything else is a text. `--text` gives a
text that looks like a file, or several texts. An option has the same meaning in every command:
those of several commands are listed once, under [shared options](#shared-options).
[Columns](columns.md) lists what commands write.
"""
_SHARED = """\
## Shared options

Each has the same help and default in all commands that take it.
"""


def page() -> str:
    """The whole page."""
    parser = cli._parser()
    (action,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    links = " · ".join(f"[`unmask {name}`](#unmask-{name})" for name in action.choices)
    parts = [_ABOUT, f"{links}\n", "## unmask\n", _block(parser)]
    takers: dict[tuple[object, ...], list[str]] = {}
    for name, command in cli._COMMANDS.items():
        for entry in declared(command):
            takers.setdefault(_key(entry), []).append(name)
    shared = {key for key, names in takers.items() if len(names) > 1}
    for name, command in cli._COMMANDS.items():
        every = declared(command)
        parts += [f"## unmask {name}\n", _block(_of(action.choices[name], every, shared))]
        if flags := [
            entry.flag for entry in every if _key(entry) in shared and not entry.is_positional
        ]:
            parts.append(f"Shared: {' '.join(f'`{flag}`' for flag in flags)}.\n")
    parts += [_SHARED, _block(_shared_parser(shared))]
    return "\n".join(parts)


def _key(entry: Option) -> tuple[object, ...]:
    return entry.name, entry.help, entry.metavar, repr(entry.default)


def _of(
    parser: argparse.ArgumentParser, every: Sequence[Option], shared: Set[tuple[object, ...]]
) -> argparse.ArgumentParser:
    """The parser of a command with the options that no other has."""
    own = argparse.ArgumentParser(
        prog=parser.prog,
        description=parser.description,
        epilog=parser.epilog,
        formatter_class=parser.formatter_class,
        add_help=False,
    )
    add_options(own, [entry for entry in every if _key(entry) not in shared])
    own.usage = parser.usage
    return own


def _shared_parser(shared: Set[tuple[object, ...]]) -> argparse.ArgumentParser:
    """A parser with all shared options."""
    parser = argparse.ArgumentParser(add_help=False)
    every = (entry for command in cli._COMMANDS.values() for entry in declared(command))
    entries = {_key(entry): entry for entry in every if _key(entry) in shared}
    add_options(parser, entries.values())
    parser.usage = argparse.SUPPRESS
    return parser


def words(text: str) -> list[str]:
    """What of a page is the same by every Python.

    From 3.13 on `-m MODEL, --model MODEL` is `-m, --model MODEL`, lines break elsewhere, and words
    with hyphens too.
    """
    once = re.sub(r"^( +-\w) ([^\s,]+)(, --[\w-]+ \2)(?!\S)", r"\1\3", text, flags=re.MULTILINE)
    return re.sub(r"-\s+", "-", once).split()


def _block(parser: argparse.ArgumentParser) -> str:
    return f"```text\n{_help(parser).lstrip()}```\n"


def _help(parser: argparse.ArgumentParser) -> str:
    """Without colours, which 3.14 has, and at one width, whatever the terminal's."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    os.environ.update(COLUMNS=str(WIDTH), NO_COLOR="1")
    os.environ.pop("FORCE_COLOR", None)
    try:
        return parser.format_help()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if stale")
    chosen = parser.parse_args(arguments)
    if not chosen.check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.is_file() and words(PAGE.read_text(encoding="utf-8")) == words(page()):
        return 0
    print(f"{PAGE.name} is not what the code says: run {COMMAND}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
