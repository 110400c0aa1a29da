"""The lines of a file: numbered, decoded, and each with the reason if it cannot be used.

A line is UTF-8, holds no NUL and is not absurdly long.
"""

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from unmask.printable import readable_bytes

# no text is as long; a file without line ends must not fill the memory
LONGEST = 1_000_000


class Line(NamedTuple):
    """A line without its end, and why it cannot be used; `end` is the byte behind it."""

    number: int
    text: str
    end: int
    file: str
    reason: str | None = None

    @property
    def where(self) -> str:
        """The place of the line, for errors."""
        return f"line {self.number} of {self.file}"


def read_lines(
    blocks: Iterable[bytes], file: str, *, start: int = 0, number: int = 1
) -> Iterator[Line]:
    r"""Lines that end in `\n`, `\r\n` or `\r` alone; `blocks` of bytes may end anywhere.

    The first begins at the byte `start` of what errors call `file`, and has this `number`.
    """
    end, rest = start, b""
    for block in chain(blocks, [b""]):
        pieces = (rest + block).splitlines(keepends=True)
        # a return may be half of a line end
        is_open = block and pieces and not pieces[-1].endswith(b"\n")
        rest = pieces.pop() if is_open else b""
        for piece in pieces:
            # some editors put a mark before UTF-8
            raw = piece.removeprefix(codecs.BOM_UTF8) if end == 0 else piece
            raw, end = raw.rstrip(b"\r\n"), end + len(piece)
            # also where it is wrong: its quotation marks and commas count in CSV
            line = Line(number, raw.decode("utf-8", "replace"), end, file)
            if len(raw) > LONGEST or "\0" in line.text or "\ufffd" in line.text:
                line = line._replace(reason=_fault(raw, line))
            yield line
            number += 1
        if len(rest) > LONGEST + 2:
            # its beginning is enough to reject it
            end += len(rest) - LONGEST - 2
            rest = rest[: LONGEST + 1] + rest[-1:]


def _fault(raw: bytes, line: Line) -> str | None:
    """The reason why a line cannot be used; None where U+FFFD was written as such."""
    if len(raw) > LONGEST:
        size = readable_bytes(LONGEST)
        return f"{line.where} is longer than {size}; write each text on its own line"
    if "\0" in line.text:
        nul = f"a NUL at its byte {raw.index(0) + 1}"
        return f"{line.where} holds {nul}, so it is not text; give a UTF-8 text file"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        byte = f"its byte {error.start + 1} is 0x{raw[error.start]:02x}"
        return f"{line.where} is not UTF-8: {byte}; save the file as UTF-8"
    return None
