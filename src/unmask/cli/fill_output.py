"""Where `unmask fill --input` writes its answers: never over those that a file holds already.

A file that was begun by the same request is continued. Every answer carries a digest of itself and
of what it answers, so that a file of anything else, or one that was changed, is recognised, and
rejected.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unmask.durable import closed, explained
from unmask.errors import StoreError
from unmask.printable import quoted

# the field of an answer that says what it answers
REQUEST = "request"

Row = dict[str, Any]
Write = Callable[[Row], None]


def signed(row: Row, request: Mapping[str, object], raw: bytes) -> Row:
    """An answer with the digest of it, of its line of the input and the options, in 16 digits."""
    own = {name: value for name, value in row.items() if name != REQUEST}
    options = json.dumps(request, sort_keys=True, default=str)
    parts = (options.encode(), raw.strip(), json.dumps(own).encode())
    return {**own, REQUEST: hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]}


class Answers:
    """The answers of a file, read in turn; `end` is where the last that was read ends."""

    def __init__(self, place: str | None) -> None:
        self.place = place
        self.count, self.errors, self.end = 0, 0, 0
        self.is_read, self._is_torn = False, False
        self.shown = "stdout" if place is None else quoted(place, limit=150)

    def __iter__(self) -> Iterator[Row]:
        """Each in turn; a last line that was cut off is left out, and written over."""
        held = self.place is not None and os.path.isfile(self.place)
        with open(str(self.place) if held else os.devnull, "rb") as file:
            for line in file:
                row = self._read(line)
                if self._is_torn:
                    break
                self.count, self.end = self.count + 1, self.end + len(line)
                self.errors += "error" in row
                yield row
        self.is_read = True

    def _read(self, line: bytes) -> Row:
        try:
            row = json.loads(line)
        except ValueError:
            is_begun = b'{"'.startswith(line[:2]) and not line.endswith(b"\n")
            row = {REQUEST: None} if is_begun else None
        if not isinstance(row, dict) or REQUEST not in row:
            raise self.rejected(f"its line {self.count + 1} is not an answer of this command")
        self._is_torn = not line.endswith(b"\n")
        return row

    def rejected(self, why: str) -> StoreError:
        """The error of a file that is not continued, and what to do about it."""
        return StoreError(
            f"{self.shown} would be continued, but {why}; give another --output, or move it away"
        )

    @contextmanager
    def writer(self) -> Iterator[Write]:
        """Write a line at once, after what was read: it stays, whatever comes after it."""
        if self.place is None:
            yield self._print
            return
        whole = not os.path.exists(self.place) or os.path.isfile(self.place)
        # to append: nothing is lost by opening it
        place = Path(self.place)
        with closed(place.open("ab" if whole else "wb"), place) as file:

            def write(row: Row) -> None:
                with explained(place):
                    if self._is_torn:
                        # not before there is an answer to put in its place
                        file.truncate(self.end)
                        self._is_torn = False
                    file.write(self._counted(row).encode("ascii") + b"\n")
                    file.flush()

            yield write

    def _print(self, row: Row) -> None:
        print(self._counted(row), flush=True)

    def _counted(self, row: Row) -> str:
        self.count, self.errors = self.count + 1, self.errors + ("error" in row)
        # ASCII escapes keep every control character inert, whatever reads this next
        return json.dumps(row, allow_nan=False)

    def interrupted(self) -> KeyboardInterrupt:
        """An interruption that says what is kept."""
        if self.place is None or not os.path.isfile(self.place):
            return KeyboardInterrupt()
        return KeyboardInterrupt(
            f"{self.shown} holds {self.count:,} of the answers; repeat the command to continue"
        )
