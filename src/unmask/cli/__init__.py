"""The command line: one command per file, data on stdout, everything else on stderr.

Bad input ends in one line and exit code 2; an interrupt in exit code 130.
"""

import argparse
import difflib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from unmask import __version__
from unmask.cli import (
    consistency,
    decode,
    demo,
    dependence,
    evaluate,
    fill,
    head,
    merge,
    options,
    pairs,
    report,
    score,
)
from unmask.cli.command import Command, add_options, declared, value
from unmask.errors import UnmaskError
from unmask.printable import quoted

_COMMANDS: dict[str, type[Command]] = {
    "fill": fill.FillCommand,
    "decode": decode.DecodeCommand,
    "pairs": pairs.PairsCommand,
    "score": score.ScoreCommand,
    "merge": merge.MergeCommand,
    "dependence": dependence.DependenceCommand,
    "consistency": consistency.ConsistencyCommand,
    "demo": demo.DemoCommand,
    "evaluate": evaluate.EvaluateCommand,
    "report": report.ReportCommand,
    "head": head.HeadCommand,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    warnings.showwarning = partial(_warn, set())
    if isinstance(sys.stdout, io.TextIOWrapper):
        # tokens of scripts that the terminal's encoding lacks are escaped, instead of failing
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser(words[0] if words else "")
    if not words:
        parser.print_help()
        return 0
    try:
        if words[0] not in _COMMANDS and not words[0].startswith("-"):
            near = difflib.get_close_matches(words[0], _COMMANDS, n=1)
            hint = f"did you mean {quoted(near[0])}? Commands" if near else "commands"
            raise UnmaskError(f"no command {quoted(words[0])}; {hint}: {', '.join(_COMMANDS)}")
        namespace, unknown = parser.parse_known_args(words)
        if unknown:
            raise UnmaskError(_hint(namespace.command, unknown[0]))
        code = value(_COMMANDS[namespace.command], vars(namespace)).run()
        if sys.stdout is not None:
            # here, where a closed pipe is caught below; at exit it would be a traceback
            sys.stdout.flush()
        return code
    except UnmaskError as error:
        for line in (*getattr(error, "__notes__", []), str(error)):
            options.say(line)
        return 2
    except KeyboardInterrupt as error:
        notes = [str(error), *getattr(error, "__notes__", [])]
        options.say("; ".join(["interrupted", *filter(None, notes)]))
        return 130
    except BrokenPipeError:
        # nobody reads our output any more; nothing can be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # a disk or a network may fail anywhere: name the file
        where = f" {quoted(str(error.filename), limit=150)}" if error.filename else ""
        options.say(f"{error.strerror or error}{where}")
        return 2


def _hint(command: str, unknown: str) -> str:
    """The thing to give in place of an argument that a command does not take."""
    if not unknown.startswith("-"):
        return f"{command} takes no further argument {quoted(unknown)}"
    name, entries = unknown.partition("=")[0], declared(_COMMANDS[command])
    # without dashes, which would make all of them alike
    flags = {entry.flag.lstrip("-"): entry.flag for entry in entries if not entry.is_positional}
    near = difflib.get_close_matches(name.lstrip("-"), flags, n=1)
    listed = f"unmask {command} --help lists its options"
    hint = f"did you mean {flags[near[0]]}?" if near else listed
    return f"{command} has no option {quoted(name)}: {hint}"


class _Help(argparse.HelpFormatter):
    """Help in paragraphs, in which a command and its purpose stand on one line."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # argparse forgets that commands are indented
        self._action_max_length = max(map(len, _COMMANDS)) + 4

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(part, width, indent) for part in text.split("\n\n"))


class _Parser(argparse.ArgumentParser):
    """A parser that rejects in one line, as commands do."""

    def error(self, message: str) -> NoReturn:
        """Raise for words that cannot be parsed."""
        raise UnmaskError(f"{message}; see {self.prog} --help")


def _parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser, with the options of every command or `only` of one: of the rest the summary."""
    parser = _Parser(
        prog="unmask",
        description=(
            "Joint probabilities of what fills several blanks of a text, from masked language "
            "models such as BERT."
        ),
        epilog=f"unmask COMMAND --help lists its options.\n\nexample: {fill.FillCommand.EXAMPLE}",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.usage = "unmask COMMAND [OPTION ...]"
    parser.add_argument("--version", action="version", version=f"unmask {__version__}")
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND", prog="unmask"
    )
    for name, command in _COMMANDS.items():
        purpose = command.SUMMARY
        subparser = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.\n\n{command.DESCRIPTION}",
            epilog=f"example: {command.EXAMPLE}",
            formatter_class=_Help,
            allow_abbrev=False,
        )
        if only in (None, name):
            add_options(subparser, declared(command))
    return parser


def _warn(sentences: set[str], message: Warning | str, *_: object, **__: object) -> None:
    """Say each sentence once: Python forgets what it showed when a library changes its filters."""
    if str(message) not in sentences:
        sentences.add(str(message))
        options.say(str(message))
