"""The lines of a text file, numbered from 1, each with a reason if it cannot be used.

A line is UTF-8, holds no NUL and is not absurdly long.
"""

import codecs
from collections.abc import Callable, Iterator
from typing import Protocol

from unmask.errors import CorpusError
from unmask.printable import readable_bytes

# no text is as long; a file without line ends must not fill the memory
LONGEST = 1_000_000
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# its number, its text, and why it cannot be used
Line = tuple[int, str, str | None]


class Where(Protocol):
    """How errors name a line by its number."""

    def __call__(self, line: int) -> str: ...


def line_of(shown: str) -> Where:
    """The lines of a file that is read from its beginning."""
    return lambda line: f"line {line} of {shown}"


def decoded_lines(
    read: Callable[[int], bytes], shown: str, where: Where | None = None, *, first: bool = True
) -> Iterator[Line]:
    """Every line without its end; `read` is a file's `readline`.

    A mark of UTF-8 is removed if this is the `first` line of the file.
    """
    where = where or line_of(shown)
    for number, raw in enumerate(raw_lines(read, LONGEST), start=1):
        try:
            if number == 1 and first:
                raw = _without_mark(raw, shown)
            line, reason = _decoded(raw, where, number), None
        except CorpusError as error:
            # its quotation marks and commas count in CSV
            line, reason = raw.decode("utf-8", "replace"), str(error)
        yield number, line, reason


def raw_lines(read: Callable[[int], bytes], longest: int) -> Iterator[bytes]:
    r"""Lines without their ends, which are `\n`, `\r\n` or `\r` alone.

    Of a line that is longer than `longest`, only its beginning is given, which is longer too: the
    caller rejects it, or goes on with the next.
    """
    rest = b""
    while block := read(longest + 1):
        if block.endswith(b"\r"):
            # whether a line feed belongs to it is known only from the next byte
            block += read(1)
        *lines, rest = [*(rest + block).splitlines(keepends=True), b""]
        if lines and not lines[-1].endswith((b"\r", b"\n")):
            rest = lines.pop()
        yield from (line.rstrip(b"\r\n") for line in lines)
        if len(rest) > longest:
            yield rest
            while (block := read(longest)) and not block.endswith((b"\r", b"\n")):
                pass
            rest = b""
    if rest:
        yield rest


def _without_mark(raw: bytes, shown: str) -> bytes:
    """The first line without the mark that some editors put before UTF-8."""
    if raw.startswith(_UTF_16):
        raise CorpusError(f"{shown} is UTF-16; save it as UTF-8")
    return raw.removeprefix(codecs.BOM_UTF8)


def _decoded(raw: bytes, where: Where, number: int) -> str:
    if len(raw) > LONGEST:
        raise CorpusError(
            f"{where(number)} is longer than {readable_bytes(LONGEST)}; write each text on its own "
            "line"
        )
    nul = raw.find(0)
    if nul >= 0:
        raise CorpusError(
            f"{where(number)} holds a NUL at its byte {nul + 1}, so it is not text; give a UTF-8 "
            "text file"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{where(number)} is not UTF-8: its byte {error.start + 1} is 0x{raw[error.start]:02x};"
            " save the file as UTF-8"
        ) from None
