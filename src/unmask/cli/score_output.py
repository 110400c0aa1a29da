"""Where `score` and `pairs` write rows: as they are scored, so that an interruption leaves them.

A file is written beside its place, under the name of `partial_of`, and renamed when it is whole.
"""

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from unmask.cli import options
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.sequences.outputs import Row


def check_names(theirs: Collection[str], own: Iterable[str]) -> None:
    """Raise where a column of the input would be lost under one of the output's own."""
    for name in own:
        if name in theirs:
            raise UnmaskError(
                f"the input has a column {quoted(name)}, and so has the output; rename it, or give "
                "--prefix NAME for what new columns begin with"
            )


class RowWriter:
    """Writes rows in one of the formats, a part at a time, and counts the texts they are of."""

    def __init__(self, file: IO[str], names: Sequence[str], format: str) -> None:
        self._file, self._names, self._format = file, names, format
        self.texts = 0

    def write(self, rows: "Sequence[Row]", texts: int) -> None:
        """Write the rows of so many further texts; they are in the file when this returns."""
        from unmask.sequences.outputs import written

        self._file.write(written(rows, self._names, self._format, header=not self.texts))
        self._file.flush()
        self.texts += texts


def partial_of(output: str) -> Path:
    """Where rows are until all are written; beside what a link points to, not beside the link."""
    target = Path(os.path.realpath(output))
    return target.with_name(f"{target.name}.partial")


@contextmanager
def row_writer(output: str | None, names: Sequence[str], format: str) -> Iterator[RowWriter]:
    """Rows into a file that is complete or absent; a pipe or a device gets them at once."""
    if output is None:
        yield RowWriter(sys.stdout, names, format)
        return
    target = Path(os.path.realpath(output))
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", newline="") as file:
            yield RowWriter(file, names, format)
    else:
        yield from _partial(target, partial_of(output), names, format)


def _partial(target: Path, part: Path, names: Sequence[str], format: str) -> Iterator[RowWriter]:
    from unmask.durable import explained, put_in_place

    with explained(part):
        # never over the rows of another run; line ends as they are written, on Windows too
        file = part.open("x", encoding="utf-8", newline="")
    writer = RowWriter(file, names, format)
    try:
        with file:
            yield writer
        with explained(target):
            put_in_place(part, target)
    except BaseException as error:
        if not writer.texts:
            part.unlink(missing_ok=True)
            raise
        said = f"{quoted(str(part), limit=200)} holds the first {writer.texts:,} texts"
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(said) from None
        options.say(said)
        raise
