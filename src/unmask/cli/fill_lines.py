"""`unmask fill --input`: many texts, one per line, into JSON lines as they are answered."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from unmask.cli import options
from unmask.cli.fill_output import REQUEST, Answers, digest, place_of
from unmask.cli.fill_request import FIELDS, How, Request
from unmask.errors import ClozeError, UnmaskError
from unmask.printable import quoted, readable_bytes, readable_seconds

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.settings import Settings
    from unmask.text.cloze import Cloze

FORMATS = ("txt", "jsonl")
# what an answer adds; a field of these names would be lost
ADDED = ("fills", "J", "diagnostics", "error", REQUEST)
# the diagnostics that a reader of many lines needs
_DIAGNOSTICS = (
    *("forward_passes", "candidates", "captured_mass", "captured_mass_given_others"),
    *("search", "searched", "searched_mass", "converged", "pieces", "unknown_tokens"),
)
# fewer forward passes are over sooner than their time would be measured
_FEW_PASSES = 512
# a run longer than this announces its cost first
_LONG_SECONDS = 10.0

Row = dict[str, Any]
# its number, its bytes, and the digest of its request
Line = tuple[int, bytes, str]


@dataclass(frozen=True)
class Answerer:
    """A model, and the request for every text that has none of its own."""

    lm: "LanguageModel"
    request: Request
    how: How
    top: int
    settings: "Settings"

    def row(self, raw: bytes, format: str, *, skip_bad: bool) -> Row:
        """A line's answer with its other fields, or with its error."""
        kept: Row = {}
        try:
            fields = _fields(raw, format)
            kept = {name: value for name, value in fields.items() if name not in FIELDS}
            _check_fields(kept)
            return kept | self.answer(kept["text"], self.request.with_fields(fields))
        except UnmaskError as error:
            if not skip_bad:
                raise
            rest = {name: value for name, value in kept.items() if name not in ADDED}
            return rest | {"error": str(error)}

    def answer(self, text: str, request: Request) -> Row:
        """The likeliest fills of a text, and how they were computed."""
        cloze = self.lm.cloze(text, blanks=request.blanks)
        if request.targets is not None:
            return self._words(cloze, request)
        from unmask.queries.joints import default_method
        from unmask.text.pieces import one_blank_for_each

        cloze, _ = one_blank_for_each(cloze)
        name = request.method or default_method(len(cloze.positions), request.support)
        given = self.how.get(name, {})
        joint = self.lm.joint(
            cloze, method=name, support=request.support, settings=self.settings, **given
        )
        fills, agreement = self.lm.ranked(cloze, joint, self.top), joint.agreement()
        done = joint.diagnostics
        return {
            "fills": fills,
            "method": done["method"],
            "J": None if agreement is None else agreement.bits,
            "diagnostics": {key: done[key] for key in _DIAGNOSTICS if key in done},
        }

    def announce(self, raw: bytes, format: str, texts: int | None) -> None:
        """Print what so many texts like this one cost, if it is much; words have no estimate."""
        try:
            fields = _fields(raw, format)
            request = self.request.with_fields(fields)
            cloze = self.lm.cloze(fields["text"], blanks=request.blanks).one_token_each()
            if request.targets is None:
                self._announce(cloze, request, texts)
        except (UnmaskError, KeyError):
            # a bad line raises when it is answered
            return

    def _announce(self, cloze: "Cloze", request: Request, texts: int | None) -> None:
        from unmask.queries.joints import default_method

        name = request.method or default_method(len(cloze.positions), request.support)
        given: Any = {
            "methods": [name],
            "support": request.support,
            "settings": self.settings,
            "options": {name: self.how.get(name, {})},
            "examples": texts or 1,
        }
        if self.lm.cost(cloze, timed=False, **given).forward_passes * (texts or 1) <= _FEW_PASSES:
            return
        cost = self.lm.cost(cloze, **given)
        seconds = (cost.seconds or 0.0) * (texts or 1)
        if seconds > _LONG_SECONDS:
            passes = f"{cost.forward_passes * (texts or 1):,} forward passes"
            total = f"; {texts:,} texts: {passes}, about {readable_seconds(seconds)}"
            said = f"{name}: {cost} per text like the first"
            print(said + (total if texts else ""), file=sys.stderr)

    def _words(self, cloze: "Cloze", request: Request) -> Row:
        name = request.method or "orders"
        fills = request.ranked_words(
            self.lm, cloze, name, top=self.top, settings=self.settings, how=self.how
        )
        prior = {} if request.piece_prior is None else {"piece_prior": request.piece_prior}
        did = {**prior, "unknown_tokens": list(cloze.unknown)}
        return {"fills": fills, "method": name, "J": None, "diagnostics": did}


def run(chosen: argparse.Namespace, request: Request, how: How, settings: "Settings") -> int:
    """Answer every line that the output does not answer yet; 1 if some are rejected."""
    format, shown = _format(chosen), _shown(chosen)
    _check_output(chosen)
    answers = Answers(place_of(chosen.output))
    identity = _identity(chosen, request, how, format)
    try:
        with _source(chosen.input) as read:
            lines = _unanswered(_filled(_lines(read, shown)), answers, identity, shown)
            first = next(lines, None)
            if first is not None:
                left = _lines_left(chosen, answers)
                lm = options.load_model(chosen)
                quiet = replace(settings, announce=False)
                answerer = Answerer(lm, request, how, chosen.top, quiet)
                if not chosen.quiet:
                    answerer.announce(first[1], format, left)
                _answer_all(answerer, chain([first], lines), answers, format, chosen, left)
    except KeyboardInterrupt:
        raise answers.interrupted() from None
    if not answers.count:
        raise ClozeError(f"{shown} holds no text; give at least one line")
    _close(answers, something_new=first is not None, quiet=chosen.quiet)
    return 1 if answers.errors else 0


def _lines_left(chosen: argparse.Namespace, answers: Answers) -> int | None:
    """How many lines are left to answer, or None where that is not known."""
    if answers.count and not chosen.quiet:
        _say(f"{answers.shown} holds {answers.count:,} of the answers; going on after them")
    total = _number_of_lines(chosen.input)
    return None if total is None else total - answers.count


def _identity(
    chosen: argparse.Namespace, request: Request, how: How, format: str
) -> Mapping[str, object]:
    """What an answer depends on besides its line; not on how the model is run."""
    named = ("model", "revision", "dtype", "half_tables", "top")
    given = {name: getattr(chosen, name) for name in named}
    return {**given, **asdict(request), "options": how, "format": format}


def _unanswered(
    lines: Iterator[tuple[int, bytes]],
    answers: Answers,
    identity: Mapping[str, object],
    shown: str,
) -> Iterator[Line]:
    """The lines after those that are answered, which must be the first of the same request."""
    kept = iter(answers)
    for number, raw in lines:
        mark = digest(identity, raw)
        found = next(kept, mark)
        if found != mark:
            raise answers.rejected(
                f"its line {answers.count} answers another text, or by another model or other "
                f"options, than line {number} of {shown} now requests"
            )
        if answers.is_read:
            yield number, raw, mark
    if next(kept, None) is not None:
        raise answers.rejected(f"it has more answers than {shown} has texts")


def _answer_all(
    answerer: Answerer,
    lines: Iterable[Line],
    answers: Answers,
    format: str,
    chosen: argparse.Namespace,
    left: int | None,
) -> None:
    from unmask.progress import bar

    shown = _shown(chosen)
    counted = bar("texts", unit="text", total=left, shown=answerer.settings.progress)
    with answers.writer() as write, counted:
        for number, raw, mark in lines:
            try:
                row = answerer.row(raw, format, skip_bad=chosen.skip_bad)
            except UnmaskError as error:
                raise type(error)(f"line {number} of {shown}: {error}") from None
            if "error" in row:
                row["error"] = f"line {number} of {shown}: {row['error']}"
            write({**row, REQUEST: mark})
            counted.update()


def _close(answers: Answers, *, something_new: bool, quiet: bool) -> None:
    """Print how many lines were answered."""
    if quiet and not answers.errors:
        return
    good = answers.count - answers.errors
    said = f"{good:,} text{'s' * (good != 1)} answered, {answers.errors:,} rejected"
    why = "; the field error of a line says why" if answers.errors else ""
    where = "written to" if something_new else "all of them already in"
    _say(f"{said}, {where} {answers.shown}{why}")


def _say(text: str) -> None:
    print(f"unmask: {text}", file=sys.stderr)


def _shown(chosen: argparse.Namespace) -> str:
    return "stdin" if chosen.input == "-" else quoted(chosen.input, limit=150)


def _filled(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1."""
    return ((number, raw) for number, raw in enumerate(lines, start=1) if raw.strip())


# --- what a line says --------------------------------------------------------------------------


def _fields(raw: bytes, format: str) -> Row:
    try:
        line = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClozeError(
            f"it is not UTF-8: its byte {error.start + 1} is 0x{raw[error.start]:02x}"
        ) from None
    if format == "txt":
        return {"text": line}
    try:
        fields = json.loads(line, parse_constant=_reject_constant)
        # 1e999 is read as infinite, and could not be written again
        json.dumps(fields, allow_nan=False)
    except json.JSONDecodeError as error:
        raise ClozeError(f"it is not JSON: {error.msg} at its character {error.pos + 1}") from None
    except UnmaskError:
        raise
    except (ValueError, RecursionError) as error:
        # numbers of thousands of digits, and brackets without end
        raise ClozeError(f"it is JSON that cannot be read: {quoted(str(error))}") from None
    if not isinstance(fields, dict):
        raise ClozeError(
            f'it is not an object with a text, as {{"text": "..."}}, but {quoted(fields)}'
        )
    return fields


def _reject_constant(name: str) -> None:
    raise ClozeError(f"it holds {name}, which is not JSON; write null")


def _check_fields(kept: Row) -> None:
    if not isinstance(kept.get("text"), str):
        raise ClozeError(f"its field 'text' is a string, not {quoted(kept.get('text'))}")
    for name in ADDED:
        if name in kept:
            raise ClozeError(f"it has a field {quoted(name)}, and so has the answer; rename it")


# --- where lines come from and go to -----------------------------------------------------------


def _format(chosen: argparse.Namespace) -> str:
    named: str | None = chosen.input_format
    if named is not None:
        options.check_choice("--input-format", named, FORMATS)
    return named or ("jsonl" if chosen.input.lower().endswith(".jsonl") else "txt")


def _check_output(chosen: argparse.Namespace) -> None:
    if chosen.output in (None, "-"):
        return
    shown = quoted(chosen.output, limit=150)
    if os.path.isdir(chosen.output) or not os.path.isdir(os.path.dirname(chosen.output) or "."):
        raise UnmaskError(f"cannot write {shown}: give a file in a folder that exists")
    options.check_output("--output", chosen.output)
    exist = os.path.exists(chosen.output) and os.path.exists(chosen.input)
    if exist and os.path.samefile(chosen.input, chosen.output):
        raise UnmaskError(f"{shown} is the input too, which would be lost; give another file")


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


def _number_of_lines(place: str) -> int | None:
    """The number of texts, or None where it cannot be known before."""
    from unmask.corpora.lines import LONGEST, raw_lines
    from unmask.sequences.inputs import can_be_read_again

    if not can_be_read_again(place):
        return None
    with open(place, "rb") as file:
        return sum(1 for raw in raw_lines(file.readline, LONGEST) if raw.strip())


def _lines(read: Callable[[int], bytes], shown: str) -> Iterator[bytes]:
    from unmask.corpora.lines import LONGEST, raw_lines

    for raw in raw_lines(read, LONGEST):
        if len(raw) > LONGEST:
            raise ClozeError(
                f"{shown} has a line longer than {readable_bytes(LONGEST)}; a text stands on a "
                "line of its own"
            )
        yield raw
