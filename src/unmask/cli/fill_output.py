"""Where `unmask fill --input` writes its answers: never over those that a file holds already.

A file that was begun by the same request is continued. Every answer carries a digest of what it
answers, so that a file of anything else is recognised, and rejected.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from unmask.errors import StoreError
from unmask.printable import quoted

# the field of an answer that says what it answers
REQUEST = "request"

Write = Callable[[Mapping[str, object]], None]


def digest(request: Mapping[str, object], raw: bytes) -> str:
    """What identifies a line of the input and its options: 16 hexadecimal digits."""
    options = json.dumps(request, sort_keys=True, default=str)
    return hashlib.sha256(options.encode() + b"\0" + raw.strip()).hexdigest()[:16]


class Answers:
    """The answers of a file, read in turn; `end` is where the last that was read ends."""

    def __init__(self, place: str | None) -> None:
        self.place = place
        self.count, self.errors, self.end = 0, 0, 0
        self.is_read, self._is_torn = False, False
        self.shown = "stdout" if place is None else quoted(place, limit=150)

    def __iter__(self) -> Iterator[object]:
        """The digest of each; a last line that was cut off is left out, and written over."""
        held = self.place is not None and os.path.isfile(self.place)
        with open(str(self.place) if held else os.devnull, "rb") as file:
            for line in file:
                row = self._read(line)
                if self._is_torn:
                    break
                self.count, self.end = self.count + 1, self.end + len(line)
                self.errors += "error" in row
                yield row[REQUEST]
        self.is_read = True

    def _read(self, line: bytes) -> dict[str, object]:
        try:
            row = json.loads(line)
        except ValueError:
            row = {REQUEST: None} if line.startswith(b'{"') and not line.endswith(b"\n") else None
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
        with open(self.place, "ab" if whole else "wb") as file:

            def write(row: Mapping[str, object]) -> None:
                if self._is_torn:
                    # not before there is an answer to put in its place
                    file.truncate(self.end)
                    self._is_torn = False
                file.write(self._counted(row).encode("ascii") + b"\n")
                file.flush()

            yield write

    def _print(self, row: Mapping[str, object]) -> None:
        print(self._counted(row), flush=True)

    def _counted(self, row: Mapping[str, object]) -> str:
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
