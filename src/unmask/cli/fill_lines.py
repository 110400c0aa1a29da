"""`unmask fill --input`: many texts, one per line, into JSON lines as they are answered."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

from unmask.cli import options
from unmask.cli.announce import announce_many
from unmask.cli.fill_output import Answers, Row, signed
from unmask.errors import ClozeError, UnmaskError
from unmask.printable import quoted, readable_bytes

if TYPE_CHECKING:
    from unmask.jobs.kinds.fill import Answerer, How, Request
    from unmask.settings import Settings

FORMATS = ("txt", "jsonl")

# its number and its bytes
Line = tuple[int, bytes]


def _row(answerer: "Answerer", raw: bytes, format: str, *, skip_bad: bool) -> Row:
    """A line's answer with its other fields, or with its error."""
    from unmask.jobs.kinds.fill import ADDED, FIELDS

    kept: Row = {}
    try:
        fields = _fields(raw, format)
        kept = {name: value for name, value in fields.items() if name not in FIELDS}
        for name in ADDED:
            if name in kept:
                raise ClozeError(f"it has a field '{name}', and so has the answer; rename it")
        return kept | answerer.answer(*answerer.read(fields))
    except UnmaskError as error:
        if not skip_bad:
            raise
        rest = {name: value for name, value in kept.items() if name not in ADDED}
        return rest | {"error": str(error)}


def _announce(
    chosen: argparse.Namespace, answerer: "Answerer", raw: bytes, format: str, texts: int | None
) -> None:
    """Print what so many texts like this one cost, if it is much; words have no estimate."""
    # a bad line raises when it is answered
    with suppress(UnmaskError):
        cloze, request = answerer.read(_fields(raw, format))
        if request.targets is not None:
            return
        cloze = cloze.one_token_each()
        name, lm, settings = answerer.method(cloze, request), answerer.lm, answerer.settings
        cost = lm.cost(
            cloze,
            methods=[name],
            support=request.support,
            settings=settings,
            options={name: answerer.how.get(name, {})},
            timed=False,
        )
        announce_many(chosen, name, lm, cloze, cost, settings, texts)


def run(chosen: argparse.Namespace, request: "Request", how: "How", settings: "Settings") -> int:
    """Answer every line that the output does not answer yet; 1 if some are rejected."""
    from unmask.jobs.kinds.fill import Answerer

    place = None if chosen.output == "-" else chosen.output
    options.check_file("--output", place, source=chosen.input)
    format, answers = _format(chosen), Answers(place)
    shown = "stdin" if chosen.input == "-" else quoted(chosen.input, limit=150)
    identity = _identity(chosen, request, how, format)
    try:
        with _source(chosen.input) as read:
            lines = _unanswered(_lines(read, shown), answers, identity, shown)
            first = next(lines, None)
            if first is not None:
                if answers.count and not chosen.quiet:
                    held = f"{answers.shown} holds {answers.count:,} of the answers"
                    options.say(f"{held}; continuing after them")
                total = _number_of_lines(chosen.input, shown)
                left = None if total is None else total - answers.count
                lm = options.load_model(chosen)
                answerer = Answerer(lm, request, how, chosen.top, settings)
                if not chosen.quiet:
                    _announce(chosen, answerer, first[1], format, left)
                every = _answered(answerer, chain([first], lines), format, shown, chosen.skip_bad)
                rows = (signed(row, identity, raw) for row, raw in every)
                _write(answers, rows, left, settings)
    except KeyboardInterrupt:
        raise answers.interrupted() from None
    if not answers.count:
        raise ClozeError(f"{shown} holds no text; give at least one line")
    if answers.errors or not chosen.quiet:
        good = answers.count - answers.errors
        said = f"{good:,} text{'s' * (good != 1)} answered, {answers.errors:,} rejected"
        where = "all of them already in" if first is None else "written to"
        why = "; the field error of a line gives the reason" if answers.errors else ""
        options.say(f"{said}, {where} {answers.shown}{why}")
    return 1 if answers.errors else 0


def _identity(
    chosen: argparse.Namespace, request: "Request", how: "How", format: str
) -> Mapping[str, object]:
    """What an answer depends on besides its line; not on how the model is run."""
    named = ("model", "revision", "dtype", "half_tables", "top")
    given = {name: getattr(chosen, name) for name in named}
    return {**given, **asdict(request), "options": how, "format": format}


def _unanswered(
    lines: Iterable[Line],
    answers: Answers,
    identity: Mapping[str, object],
    shown: str,
) -> Iterator[Line]:
    """The lines after those that are answered, which must be the first of the same request."""
    kept = iter(answers)
    for number, raw in lines:
        row = next(kept, None)
        if row is not None and row != signed(row, identity, raw):
            raise answers.rejected(
                f"its line {answers.count} answers another text, or by another model or other "
                f"options, than line {number} of {shown} now requests, or it has been changed"
            )
        if answers.is_read:
            yield number, raw
    if next(kept, None) is not None:
        raise answers.rejected(f"it has more answers than {shown} has texts")


def _answered(
    answerer: "Answerer", lines: Iterable[Line], format: str, shown: str, skip_bad: bool
) -> Iterator[tuple[Row, bytes]]:
    for number, raw in lines:
        try:
            row = _row(answerer, raw, format, skip_bad=skip_bad)
        except UnmaskError as error:
            raise type(error)(f"line {number} of {shown}: {error}") from None
        if "error" in row:
            row["error"] = f"line {number} of {shown}: {row['error']}"
        yield row, raw


def _write(answers: Answers, rows: Iterable[Row], count: int | None, settings: "Settings") -> None:
    from unmask import progress

    counted = progress.bar("texts", unit="text", total=count, shown=settings.progress)
    with answers.writer() as write, counted:
        for row in rows:
            write(row)
            counted.update()


# --- what a line says --------------------------------------------------------------------------


def _fields(raw: bytes, format: str) -> Row:
    from unmask.sequences.inputs import json_row

    try:
        line = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClozeError(
            f"it is not UTF-8: its byte {error.start + 1} is 0x{raw[error.start]:02x}"
        ) from None
    return {"text": line} if format == "txt" else dict(json_row(line, "it"))


# --- where lines come from ---------------------------------------------------------------------


def _format(chosen: argparse.Namespace) -> str:
    named: str | None = chosen.input_format
    if named is not None:
        options.check_choice("--input-format", named, FORMATS)
    return named or ("jsonl" if chosen.input.lower().endswith(".jsonl") else "txt")


@contextmanager
def _source(place: str) -> Iterator[Callable[[int], bytes]]:
    """Reads a line, up to so many bytes of it."""
    if place != "-":
        with open(place, "rb") as file:
            yield file.readline
    elif sys.stdin is None:
        raise ClozeError("there is no stdin to read texts from")
    else:
        yield sys.stdin.buffer.readline


def _number_of_lines(place: str, shown: str) -> int | None:
    """The number of texts, or None where it cannot be known before."""
    from unmask.sequences.inputs import can_be_read_again

    if not can_be_read_again(place):
        return None
    with open(place, "rb") as file:
        return sum(1 for _ in _lines(file.readline, shown))


def _lines(read: Callable[[int], bytes], shown: str) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1."""
    from unmask.corpora.lines import LONGEST, raw_lines

    for number, raw in enumerate(raw_lines(read, LONGEST), start=1):
        if len(raw) > LONGEST:
            raise ClozeError(
                f"{shown} has a line longer than {readable_bytes(LONGEST)}; write each text on "
                "its own line"
            )
        if raw.strip():
            yield number, raw
