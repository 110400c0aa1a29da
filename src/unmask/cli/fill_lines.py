"""`unmask fill --input`: many texts, a line each, into JSON lines as they are answered."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unmask.cli import options
from unmask.cli.fill_request import ASKED, Request
from unmask.errors import ClozeError, UnmaskError
from unmask.printable import quoted, readable_bytes

if TYPE_CHECKING:
    from unmask.cloze import Cloze
    from unmask.language_model import LanguageModel
    from unmask.settings import Settings

FORMATS = ("txt", "jsonl")
# what an answer adds; a field of these names would be lost
ADDED = ("fills", "J", "diagnostics", "error")
# of what was done and found, what a reader of many lines needs
_TOLD = (
    *("forward_passes", "candidates", "captured_mass", "captured_mass_given_others"),
    *("search", "searched", "searched_mass", "converged", "pieces", "unknown_tokens"),
)

Row = dict[str, Any]
How = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Answerer:
    """A model, and what is asked of every text that does not say otherwise."""

    lm: "LanguageModel"
    asked: Request
    how: How
    top: int
    settings: "Settings"

    def row(self, raw: bytes, format: str, *, skip_bad: bool) -> Row:
        """A line's answer with what else stood on it, or what is wrong with it."""
        kept: Row = {}
        try:
            fields = _fields(raw, format)
            kept = {name: value for name, value in fields.items() if name not in ASKED}
            _check_fields(kept)
            return kept | self.answer(kept["text"], self.asked.with_fields(fields))
        except UnmaskError as error:
            if not skip_bad:
                raise
            rest = {name: value for name, value in kept.items() if name not in ADDED}
            return rest | {"error": str(error)}

    def answer(self, text: str, asked: Request) -> Row:
        """The likeliest fills of a text, and how they were come by."""
        cloze = self.lm.cloze(text, blanks=asked.blanks)
        if asked.targets is not None:
            return self._words(cloze, asked)
        from unmask.asking import default_method

        name = asked.method or default_method(len(cloze.positions), asked.support)
        given = self.how.get(name, {})
        joint = self.lm.joint(
            cloze, method=name, support=asked.support, settings=self.settings, **given
        )
        fills, agreement = self.lm.ranked(cloze, joint, self.top), joint.agreement()
        done = joint.diagnostics
        return {
            "fills": fills,
            "method": done["method"],
            "J": None if agreement is None else agreement.bits,
            "diagnostics": {key: done[key] for key in _TOLD if key in done},
        }

    def _words(self, cloze: "Cloze", asked: Request) -> Row:
        name = asked.method or "orders"
        fills = self.lm.fill(
            cloze,
            top=self.top,
            method=name,
            targets=asked.targets,
            piece_prior=asked.piece_prior,
            settings=self.settings,
            **self.how.get(name, {}),
        )
        prior = {} if asked.piece_prior is None else {"piece_prior": asked.piece_prior}
        told = {**prior, "unknown_tokens": list(cloze.unknown)}
        return {"fills": fills, "method": name, "J": None, "diagnostics": told}


def run(chosen: argparse.Namespace, asked: Request, how: How, settings: "Settings") -> int:
    """Answer every line; 1 if some could not be and were skipped."""
    format = _format(chosen)
    _check_output(chosen)
    with _source(chosen.input) as read:
        answerer = Answerer(options.load_model(chosen), asked, how, chosen.top, settings)
        with _sink(chosen.output) as write:
            lines, bad = _answer_all(answerer, read, write, format, chosen)
    if bad:
        said = f"{bad} of {lines} lines could not be answered; their field error says why"
        print(f"unmask: {said}", file=sys.stderr)
    return 1 if bad else 0


def _answer_all(
    answerer: Answerer,
    read: Callable[[int], bytes],
    write: Callable[[str], None],
    format: str,
    chosen: argparse.Namespace,
) -> tuple[int, int]:
    shown = "stdin" if chosen.input == "-" else quoted(chosen.input, limit=150)
    lines, bad = 0, 0
    for number, raw in enumerate(_lines(read, shown), start=1):
        if not raw.strip():
            continue
        try:
            row = answerer.row(raw, format, skip_bad=chosen.skip_bad)
        except UnmaskError as error:
            raise type(error)(f"line {number} of {shown}: {error}") from None
        if "error" in row:
            row["error"] = f"line {number} of {shown}: {row['error']}"
        # ASCII escapes keep every control character inert, whatever reads this next
        write(json.dumps(row, allow_nan=False))
        lines, bad = lines + 1, bad + ("error" in row)
    if not lines:
        raise ClozeError(f"{shown} holds no text; give at least one line")
    return lines, bad


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
        fields = json.loads(line, parse_constant=_refuse_constant)
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


def _refuse_constant(name: str) -> None:
    raise ClozeError(f"it holds {name}, which JSON has not; write null")


def _check_fields(kept: Row) -> None:
    if not isinstance(kept.get("text"), str):
        raise ClozeError(f"its field 'text' is a string, not {quoted(kept.get('text'))}")
    for name in ADDED:
        if name in kept:
            raise ClozeError(f"it has a field {quoted(name)}, and so has the answer; rename it")


# --- where lines come from and go to -----------------------------------------------------------


def _format(chosen: argparse.Namespace) -> str:
    asked: str | None = chosen.input_format
    if asked is not None and asked not in FORMATS:
        raise UnmaskError(f"--input-format is {' or '.join(FORMATS)}, not {quoted(asked)}")
    return asked or ("jsonl" if chosen.input.lower().endswith(".jsonl") else "txt")


def _check_output(chosen: argparse.Namespace) -> None:
    if chosen.output in (None, "-"):
        return
    shown = quoted(chosen.output, limit=150)
    if os.path.isdir(chosen.output) or not os.path.isdir(os.path.dirname(chosen.output) or "."):
        raise UnmaskError(f"cannot write {shown}: give a file in a folder that exists")
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


@contextmanager
def _sink(place: str | None) -> Iterator[Callable[[str], None]]:
    """Writes a line at once: what was answered stays, whatever comes after it."""
    if place in (None, "-"):
        yield lambda line: print(line, flush=True)
    else:
        with open(str(place), "w", encoding="ascii", newline="\n") as file:
            yield lambda line: print(line, file=file, flush=True)


def _lines(read: Callable[[int], bytes], shown: str) -> Iterator[bytes]:
    from unmask.evaluation.corpora.lines import LONGEST, raw_lines

    for raw in raw_lines(read, LONGEST):
        if len(raw) > LONGEST:
            raise ClozeError(
                f"{shown} has a line longer than {readable_bytes(LONGEST)}; a text stands on a "
                "line of its own"
            )
        yield raw
