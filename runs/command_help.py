"""Write docs/reference/commands.md, the help of every command.

    python runs/command_help.py          # write it
    python runs/command_help.py --check  # say whether it is up to date: exit code 1 where not

Python versions lay help out differently, so that pages are compared word by word.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from unmask import cli
from unmask.cli.command import Option, declared

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
text that looks like a file, or several texts. An option has the same meaning, help and default in
every command, as the [table of all options](#all-options) shows; [Columns](columns.md) lists what
commands write.
"""


def page() -> str:
    """The whole page."""
    parser = _parser()
    commands = _commands(parser)
    links = " · ".join(f"[`unmask {name}`](#unmask-{name})" for name in commands)
    parts = [_ABOUT, f"{links}\n", *_section("unmask", parser)]
    for name, command in commands.items():
        parts += _section(f"unmask {name}", command)
    return "\n".join([*parts, _options()])


def _options() -> str:
    """A table of all options: one row for each name and help."""
    rows: dict[tuple[str, str], tuple[Option, list[str]]] = {}
    for name, command in cli._COMMANDS.items():
        for one in declared(command):
            if not one.is_positional:
                rows.setdefault((one.name, one.full_help), (one, []))[1].append(name)
    lines = ["## All options\n", "| option | what it does | commands |\n|---|---|---|"]
    for (name, text), (one, commands) in sorted(rows.items()):
        short = f"`{one.short}`, " if one.short else ""
        value = "" if one.type is bool else f" {one.metavar or name.upper()}"
        shown = f"{short}`{one.flag}{value}`".replace("|", "\\|")
        lines.append(f"| {shown} | {text.replace('|', chr(92) + '|')} | {', '.join(commands)} |")
    return "\n".join(lines) + "\n"


def words(text: str) -> list[str]:
    """What of a page is the same by every Python.

    From 3.13 on `-m MODEL, --model MODEL` is `-m, --model MODEL`, lines break elsewhere, and words
    with hyphens too.
    """
    once = re.sub(r"^( +-\w) ([^\s,]+)(, --[\w-]+ \2)(?!\S)", r"\1\3", text, flags=re.MULTILINE)
    return re.sub(r"-\s+", "-", once).split()


def _section(title: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"```text\n{_help(parser)}```\n"


def _parser() -> argparse.ArgumentParser:
    return cli._parser()


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    (action,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return dict(action.choices)


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
