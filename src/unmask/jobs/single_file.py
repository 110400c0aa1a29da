"""Rows in one file, in the order of the input, as they are made: CSV, TSV or JSON lines.

Until all rows are there the file is called FILE.partial, and FILE.partial.json next to it, written
before the first row, says whose rows they are, how many bytes of them are whole, and their hash.
The same job goes on after those bytes, if they are still the same; another one is refused. Rows
that no job can go on with, as those of a pipe, are replaced by the next. Both files are gone, and
FILE is there, when the job is done.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from filelock import FileLock, Timeout

from unmask.durable import add_bytes, closed, explained, put_in_place, remove_unfinished, write_text
from unmask.errors import StoreError
from unmask.jobs.canonical import canonical, sha256
from unmask.jobs.plan import JobPlan, check_same, read_plan
from unmask.jobs.tally import Tally
from unmask.jobs.work import UnitRows
from unmask.printable import quoted
from unmask.records.rows import Row
from unmask.records.writing import written

# what a power cut may cost
_SECONDS_PER_NOTE = 0.5


class FileLayout(NamedTuple):
    """What a file looks like: the names of its columns, and csv, tsv or jsonl."""

    names: Sequence[str]
    format: str
    dropped_columns: Sequence[str] = ()
    wait_for: Sequence[str] = ()


class RowWriter:
    """Writes the rows of units in one of the formats; remembers how far they are whole.

    Rows wait for the first number of one of the methods in `wait_for`: a job that has none leaves
    nothing.
    """

    def __init__(
        self,
        file: IO[str],
        layout: FileLayout,
        note: Callable[["RowWriter"], object] = lambda _: None,
        place: Path | None = None,
    ) -> None:
        self.file, self._layout, self._note, self._place = file, layout, note, place
        # of what is in the file
        self.units, self.bytes, self.tally = 0, 0, Tally()
        self.hash = hashlib.sha256()
        # which comes next: it runs ahead of `units` while rows wait
        self._next = 0
        # of what waits for a number
        self._waiting: list[Row] = []
        self._counted = Tally()

    def resume(self, progress: "_Written") -> None:
        """Begin after what an earlier run has written."""
        self.units = self._next = progress.units
        self.bytes, self.hash, self.tally = progress.bytes, progress.hash, progress.tally

    def write(self, number: int, rows: UnitRows) -> None:
        """The rows of the next unit; after one that failed no other is written."""
        if number == self._next:
            self._next += 1
            self.append(rows_of(rows, self._layout.dropped_columns), rows.tally, units=number + 1)

    def append(self, rows: Sequence[Row], tally: Tally, *, units: int = 0) -> None:
        """Rows that no unit was read for, or those that make it so many units."""
        self._counted.add(tally)
        self._waiting += rows
        if not self.bytes and self._counted.has_none(self._layout.wait_for):
            return
        names, format = self._layout.names, self._layout.format
        fitting = _fitting(self._waiting, names, format)
        text = written(self._waiting[:fitting], names, format, header=not self.bytes)
        # of stdout, whoever started the command knows what it is
        with nullcontext() if self._place is None else explained(self._place):
            self.file.write(text)
            self.file.flush()
        _check_columns(self._waiting[fitting:], names)
        content = text.encode("utf-8", "surrogatepass")
        self.bytes += len(content)
        self.hash.update(content)
        self.units = units
        self.tally.add(self._counted)
        self._waiting, self._counted = [], Tally()
        self._note(self)


def rows_of(unit: UnitRows, dropped_columns: Sequence[str] = ()) -> list[Row]:
    """The columns of the input except the dropped ones, with the new ones."""
    return [
        {**{name: value for name, value in source.items() if name not in dropped_columns}, **own}
        for source, rows in zip(unit.batch.whole_rows, unit.rows, strict=True)
        for own in rows
    ]


def _fitting(rows: Sequence[Row], names: Sequence[str], format: str) -> int:
    """How many rows come before one that a table has no column for."""
    if format == "jsonl":
        return len(rows)
    columns = set(names)
    return next((n for n, row in enumerate(rows) if not row.keys() <= columns), len(rows))


def _check_columns(rows: Sequence[Row], names: Sequence[str]) -> None:
    for name in (name for row in rows[:1] for name in row if name not in names):
        raise StoreError(
            f"a row has {quoted(name)}, which the first does not have; write JSON lines, "
            "or give a file instead of a pipe"
        )


def partial_of(output: str) -> Path:
    """Where rows are until all are written; beside what a link points to, not beside the link."""
    target = Path(os.path.realpath(output))
    return target.with_name(f"{target.name}.partial")


@contextmanager
def growing(
    output: str | None, layout: FileLayout, plan: JobPlan | None = None
) -> Iterator[RowWriter]:
    """A file that is complete or absent, or stdout; a run without a plan cannot be resumed.

    A pipe or a device gets its rows at once.
    """
    if output is None:
        yield RowWriter(sys.stdout, layout)
        return
    target = Path(os.path.realpath(output))
    if target.exists() and not target.is_file():
        with closed(target.open("w", encoding="utf-8", newline=""), target) as file:
            yield RowWriter(file, layout, place=target)
        return
    part = partial_of(output)
    # the lock until it is in place: nobody else may begin before
    with _lock(part):
        partial = _Partial(part, plan)
        with partial.opened(layout) as writer:
            yield writer
        with explained(target):
            put_in_place(part, target)
        partial.note.unlink(missing_ok=True)


@contextmanager
def _lock(part: Path) -> Iterator[None]:
    place = part.with_name(f".{part.name}.lock")
    with explained(part):
        lock = FileLock(place, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(
                f"{_shown(part)} is being written by another process; let it finish, or give "
                "another output"
            ) from None
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        lock.release()


class _Written(NamedTuple):
    """What an earlier run has written: the number of units and bytes, and their hash."""

    units: int
    bytes: int
    hash: Any
    tally: Tally


class _Partial:
    """The file that grows, and the note about it."""

    def __init__(self, part: Path, plan: JobPlan | None) -> None:
        self._part, self._plan = part, plan
        self.note = part.with_name(f"{part.name}.json")
        self._noted_at, self._noted_texts = 0.0, 0

    @contextmanager
    def opened(self, layout: FileLayout) -> Iterator[RowWriter]:
        """Open it where the last whole unit ends."""
        remove_unfinished(self.note.parent, self.note.name)
        progress = self._resumable()
        with explained(self._part):
            file = self._part.open("r+" if progress else "x", encoding="utf-8", newline="")
        writer = RowWriter(file, layout, self._write_note, self._part)
        try:
            with closed(file, self._part):
                if progress:
                    writer.resume(progress)
                    file.truncate(progress.bytes)
                    file.seek(0, os.SEEK_END)
                self._write_note(writer, now=True)
                yield writer
        except BaseException as error:
            self._keep_whole_rows(writer, error)
            raise

    def _resumable(self) -> _Written | None:
        """What can be resumed; None after an unusable file is removed."""
        # a file without rows is one that was killed before the first
        noted = self._noted() if self._part.exists() and self._part.stat().st_size else None
        if noted is None or noted["plan"] is None:
            with explained(self._part):
                self._part.unlink(missing_ok=True)
                self.note.unlink(missing_ok=True)
            return None
        stored = read_plan(json.dumps(noted["plan"]), _shown(self.note))
        if self._plan is None:
            raise self._other_run()
        check_same(stored, self._plan, _shown(self._part))
        written_hash, size = hashlib.sha256(), noted["bytes"]
        with self._part.open("rb") as file:
            add_bytes(written_hash, file, 0, size)
        if written_hash.hexdigest() != noted["sha256"]:
            raise StoreError(
                f"{_shown(self._part)} is damaged: its first {size:,} bytes are not those that "
                "were written; rename or remove it, and repeat the command to begin anew"
            )
        return _Written(noted["units"], size, written_hash, Tally.from_dict(noted["tally"]))

    def _noted(self) -> dict[str, Any]:
        """The content of the note, if it is as it was written."""
        try:
            note = json.loads(self.note.read_bytes())
            facts: dict[str, Any] = note["facts"]
            if note["sha256"] != sha256([facts]):
                raise ValueError("it has changed")
        except FileNotFoundError:
            raise self._other_run() from None
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"{_shown(self.note)} is damaged, or of another version of unmask; rename or "
                f"remove {_shown(self._part)}, and repeat the command to begin anew"
            ) from None
        return facts

    def _other_run(self) -> StoreError:
        return StoreError(
            f"{_shown(self._part)} holds rows of another run, which cannot be continued; "
            "rename or remove it, or give another output"
        )

    def _write_note(self, writer: RowWriter, *, now: bool = False) -> None:
        """Write down how far the file is whole."""
        is_due = self._plan and time.monotonic() - self._noted_at > _SECONDS_PER_NOTE
        if not (now or is_due):
            return
        with explained(self._part):
            os.fsync(writer.file.fileno())
        facts = {
            "plan": None if self._plan is None else self._plan.to_dict(),
            "units": writer.units,
            "bytes": writer.bytes,
            "sha256": writer.hash.hexdigest(),
            "tally": writer.tally.to_dict(),
        }
        write_text(self.note, canonical({"facts": facts, "sha256": sha256([facts])}))
        self._noted_at, self._noted_texts = time.monotonic(), writer.tally.texts

    def _keep_whole_rows(self, writer: RowWriter, error: BaseException) -> None:
        """Leave whole rows; after an interruption, report how many are left."""
        if not writer.bytes:
            self._part.unlink(missing_ok=True)
            self.note.unlink(missing_ok=True)
            return
        # on a full disk the note may be an earlier one
        with suppress(StoreError, OSError), self._part.open("r+", encoding="utf-8") as writer.file:
            writer.file.truncate(writer.bytes)
            self._write_note(writer, now=True)
        going = "to begin anew" if self._plan is None else "to go on after them"
        error.add_note(
            f"{_shown(self._part)} holds the first {self._noted_texts:,} texts; repeat the command "
            f"{going}"
        )


def _shown(path: Path) -> str:
    return quoted(str(path), limit=200)
