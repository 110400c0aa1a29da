"""Rows in one file, in the order of the input, as they are made: CSV, TSV or JSON lines.

Until all rows are there the file is called FILE.partial, and FILE.partial.json next to it says
whose rows they are and how many bytes of them are whole. The same job goes on after those; another
one is refused. Both are gone, and FILE is there, when the job is done.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from filelock import FileLock, Timeout

from unmask.durable import explained, put_in_place, write_text
from unmask.errors import StoreError
from unmask.jobs.inputs import Batch
from unmask.jobs.plan import JobPlan, check_same, read_plan
from unmask.jobs.tally import Tally
from unmask.jobs.work import Answered
from unmask.printable import quoted
from unmask.sequences.outputs import Row, written

# what a power cut may cost
_SECONDS_PER_NOTE = 0.5


class Layout(NamedTuple):
    """What a file looks like: the names of its columns, and csv, tsv or jsonl."""

    names: Sequence[str]
    format: str
    leaves_out: Sequence[str] = ()
    wait_for: Sequence[str] = ()


class RowWriter:
    """Writes the rows of units in one of the formats; remembers how far they are whole.

    Rows wait for the first number of one of the methods in `wait_for`: a job that has none leaves
    nothing.
    """

    def __init__(
        self,
        file: IO[str],
        layout: "Layout",
        note: Callable[["RowWriter"], object] = lambda _: None,
    ) -> None:
        self.file, self._layout, self._note = file, layout, note
        # of what is in the file
        self.units, self.bytes, self.tally = 0, 0, Tally()
        # which comes next: it runs ahead of `units` while rows wait
        self._next = 0
        # of what waits for a number
        self._waiting: list[Row] = []
        self._counted = Tally()

    def go_on(self, units: int, bytes: int) -> None:
        """Begin after what an earlier run has written."""
        self.units = self._next = units
        self.bytes = bytes

    def write(self, number: int, answered: Answered) -> None:
        """The rows of the next unit; after one that failed no other is written."""
        if number == self._next:
            self._next += 1
            rows = rows_of(answered, self._layout.leaves_out)
            self.append(rows, answered.tally, units=number + 1)

    def append(self, rows: Sequence[Row], tally: Tally, *, units: int = 0) -> None:
        """Rows that no unit was read for, or those that make it so many units."""
        self._counted.add(tally)
        self._waiting += rows
        if not self.bytes and self._counted.has_none(self._layout.wait_for):
            return
        names, format = self._layout.names, self._layout.format
        fitting = _fitting(self._waiting, names, format)
        text = written(self._waiting[:fitting], names, format, header=not self.bytes)
        self.file.write(text)
        self.file.flush()
        _check_columns(self._waiting[fitting:], names)
        self.bytes += len(text.encode("utf-8", "surrogatepass"))
        self.units = units
        self.tally.add(self._counted)
        self._waiting, self._counted = [], Tally()
        self._note(self)


def rows_of(answered: Answered, leaves_out: Sequence[str] = ()) -> list[Row]:
    """The columns that came in, but for some, with those that are new."""
    return [
        {**{name: value for name, value in given.items() if name not in leaves_out}, **own}
        for given, rows in zip(_given(answered.batch), answered.rows, strict=True)
        for own in rows
    ]


def _given(batch: Batch) -> Sequence[Mapping[str, Any]]:
    return batch.rows if batch.table is None else batch.table.to_pylist()


def _fitting(rows: Sequence[Row], names: Sequence[str], format: str) -> int:
    """How many rows come before one that a table has no column for."""
    if format == "jsonl":
        return len(rows)
    known = set(names)
    return next((n for n, row in enumerate(rows) if not row.keys() <= known), len(rows))


def _check_columns(rows: Sequence[Row], names: Sequence[str]) -> None:
    for name in (name for row in rows[:1] for name in row if name not in names):
        raise StoreError(
            f"a row has {quoted(name)}, which the first does not have; give --output-format "
            "jsonl, or a file instead of a pipe"
        )


def partial_of(output: str) -> Path:
    """Where rows are until all are written; beside what a link points to, not beside the link."""
    target = Path(os.path.realpath(output))
    return target.with_name(f"{target.name}.partial")


@contextmanager
def rows_into(output: str | None, layout: Layout) -> Iterator[RowWriter]:
    """Rows of a run that is not gone on with, into a file or, where there is none, to stdout."""
    if output is None:
        yield RowWriter(sys.stdout, layout)
        return
    with growing(output, layout, None) as writer:
        yield writer


@contextmanager
def growing(output: str, layout: Layout, plan: JobPlan | None) -> Iterator[RowWriter]:
    """A file that is complete or absent; without a plan, an interrupted one is not gone on with.

    A pipe or a device gets its rows at once.
    """
    target = Path(os.path.realpath(output))
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", newline="") as file:
            yield RowWriter(file, layout)
        return
    part = partial_of(output)
    # the lock until it is in place: nobody else may begin before
    with _lock(part):
        with _Partial(part, plan).opened(layout) as writer:
            yield writer
        with explained(target):
            put_in_place(part, target)


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
                "another --output"
            ) from None
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        lock.release()


class _Partial:
    """The file that grows, and the note about it."""

    def __init__(self, part: Path, plan: JobPlan | None) -> None:
        self._part, self._plan = part, plan
        self._place = part.with_name(f"{part.name}.json")
        self._noted_at = 0.0

    @contextmanager
    def opened(self, layout: Layout) -> Iterator[RowWriter]:
        """Open it where the last whole unit ends."""
        known = self._known()
        with explained(self._part):
            file = self._part.open("r+" if known else "x", encoding="utf-8", newline="")
        writer = RowWriter(file, layout, self._note)
        if known:
            writer.go_on(known["units"], known["bytes"])
            writer.tally = Tally.from_dict(known["tally"])
            file.truncate(writer.bytes)
            file.seek(0, os.SEEK_END)
        try:
            with file:
                yield writer
        except BaseException as error:
            self._leave(writer, error)
            raise
        else:
            self._place.unlink(missing_ok=True)

    def _known(self) -> dict[str, Any] | None:
        if self._part.exists() and not self._part.stat().st_size:
            # killed before the first rows
            self._part.unlink()
        if not self._part.exists():
            self._place.unlink(missing_ok=True)
            return None
        text = self._place.read_text(encoding="utf-8") if self._place.exists() else None
        if text is None or self._plan is None:
            raise StoreError(
                f"{_shown(self._part)} holds rows of another run, which cannot be continued; "
                "rename or remove it, or give another --output"
            )
        try:
            known: dict[str, Any] = json.loads(text)
            stored = read_plan(json.dumps(known["plan"]), _shown(self._place))
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{_shown(self._place)} is damaged; remove it with its file") from None
        check_same(stored, self._plan, _shown(self._part))
        return known

    def _note(self, writer: RowWriter, *, now: bool = False) -> None:
        """Write down how far the file is whole."""
        if self._plan is None or not (now or time.monotonic() - self._noted_at > _SECONDS_PER_NOTE):
            return
        with explained(self._part):
            os.fsync(writer.file.fileno())
        facts = {
            "plan": self._plan.to_dict(),
            "units": writer.units,
            "bytes": writer.bytes,
            "tally": writer.tally.to_dict(),
        }
        write_text(self._place, json.dumps(facts))
        self._noted_at = time.monotonic()

    def _leave(self, writer: RowWriter, error: BaseException) -> None:
        """Leave whole rows, and say of an interruption what is left."""
        if not writer.bytes:
            self._part.unlink(missing_ok=True)
            self._place.unlink(missing_ok=True)
            return
        with suppress(StoreError), self._part.open("r+", encoding="utf-8") as writer.file:
            writer.file.truncate(writer.bytes)
            self._note(writer, now=True)
        going = "" if self._plan is None else "; repeat the command to go on after them"
        error.add_note(f"{_shown(self._part)} holds the first {writer.tally.texts:,} texts{going}")


def _shown(path: Path) -> str:
    return quoted(str(path), limit=200)
