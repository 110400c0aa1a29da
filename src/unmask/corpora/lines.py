"""The lines of a text file, numbered from 1 and checked: UTF-8, no NUL, none of absurd length."""

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO

from unmask.errors import CorpusError
from unmask.printable import readable_bytes

# no sentence is as long; a file without line ends must not fill the memory
LONGEST = 1_000_000

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def checked_lines(file: BinaryIO, shown: str) -> Iterator[tuple[int, str]]:
    """Every line with its number and without its line end; `shown` names the file in errors."""
    for number, raw in enumerate(raw_lines(_blocks(file, shown), LONGEST), start=1):
        where = f"line {number} of {shown}"
        if number == 1:
            raw = without_mark(raw, shown)
        if len(raw) > LONGEST:
            raise CorpusError(
                f"{where} is longer than {readable_bytes(LONGEST)}; "
                "write each sentence on its own line"
            )
        yield number, decoded(raw, where)


def raw_lines(read: Callable[[int], bytes], longest: int) -> Iterator[bytes]:
    r"""Lines without their ends, which are `\n`, `\r\n` or `\r` alone.

    `read` is a file's `readline`. Of a line that is longer than `longest`, only its beginning is
    given, which is longer too: the caller rejects it, or goes on with the next.
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


def _blocks(file: BinaryIO, shown: str) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        try:
            return file.readline(most)
        except OSError as error:
            raise CorpusError(f"cannot read {shown}: {error.strerror}") from None

    return read


def without_mark(raw: bytes, shown: str) -> bytes:
    """The first line without the mark that some editors put before UTF-8."""
    if raw.startswith(_UTF_16):
        raise CorpusError(f"{shown} is UTF-16; save it as UTF-8")
    return raw.removeprefix(codecs.BOM_UTF8)


def decoded(raw: bytes, where: str) -> str:
    """The text of a line, which is UTF-8 and holds no NUL."""
    nul = raw.find(0)
    if nul >= 0:
        raise CorpusError(
            f"{where} holds a NUL at its byte {nul + 1}, so it is not text; give a UTF-8 text file"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{where} is not UTF-8: its byte {error.start + 1} is 0x{raw[error.start]:02x}; "
            "save the file as UTF-8"
        ) from None
