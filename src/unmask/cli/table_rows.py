"""The rows of a table that a command scores: one file, a pipe, or many files as a job has them."""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.cli import many
from unmask.errors import UnmaskError

if TYPE_CHECKING:
    from unmask.jobs.kinds import Kind
    from unmask.jobs.running import Job
    from unmask.jobs.tally import Tally

Row = Mapping[str, Any]


class Opened(NamedTuple):
    """The first row, the names of all columns (of a pipe its own), and all rows."""

    first: Row
    names: list[str]
    source: many.Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How the rows are read and written."""
    add = parser.add_argument
    add(
        "--format",
        metavar="FORMAT",
        help="csv, tsv, jsonl or parquet, if the file name does not show it",
    )
    add("--limit", type=int, metavar="N", help="read only the first N rows")
    add(
        "-o",
        "--output",
        metavar="FILE|FOLDER/|-",
        help="write the rows to a file: .csv, .tsv or .jsonl; its name is FILE.partial until it "
        "is complete, and the same command continues it after an interruption. "
        + many.FOLDER_HELP
        + " (default: -, stdout)",
    )
    add("--output-format", metavar="FORMAT", help="csv, tsv or jsonl (default for stdout: csv)")
    add("--prefix", default="", help="prefix for the names of new columns (default: none)")


def to_folder(
    chosen: argparse.Namespace,
    kind: "Kind",
    conclude: "Callable[[Tally], int]",
    check: "Callable[[Job], object]" = lambda _: None,
    announce: "Callable[[Job], many.Announce] | None" = None,
) -> int:
    """Score all rows into a folder of parts; `check` rejects an input before that."""
    if chosen.limit is not None:
        raise UnmaskError("--limit does not apply with a folder of parts; leave it out")
    return many.run_folder(chosen, kind, chosen.files, chosen.format, conclude, check, announce)


def opened(chosen: argparse.Namespace, kind: "Kind", size: int) -> Opened:
    """The files that were given, after a look at their rows; `size` of them are a unit."""
    from unmask.jobs.running import open_job
    from unmask.jobs.work import batch_of
    from unmask.sequences.inputs import ItemFile, can_be_read_again

    if chosen.file is None:
        if chosen.limit is not None:
            raise UnmaskError("--limit is for one file of lines; leave it out")
        job = open_job(kind, chosen.files, format=chosen.format, texts_per_unit=size)
        # a unit may be the header of a file alone
        batches = (batch_of(unit, kind) for unit in job.source.units())
        batch = next(one for one in batches if one.rows)
        return Opened(batch.rows[0], batch.columns, many.Source.of_job(job))
    stdin_format = "csv" if chosen.file == "-" else None
    items = ItemFile(
        chosen.file, kind.required_columns, chosen.format or stdin_format, chosen.limit
    )
    if can_be_read_again(chosen.file):
        names, count, digest = _looked_at(items)
        units = many.in_units(_Rows(items), size)
        source = many.Source(units, count, [["rows", count, digest]], size)
        return Opened(next(iter(_Rows(items))), names, source)
    rows = iter(_Rows(items))
    first = next(rows)
    units = many.in_units(chain([first], rows), size)
    return Opened(first, list(first), many.Source(units, None, None, size, ahead=False))


class _Rows:
    """The rows of a file, each time anew."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Row]:
        """All columns of each."""
        return (row for row, _ in self._items.rows())


def _looked_at(items: Any) -> tuple[list[str], int, str]:
    """The names of all columns, how many rows there are, and a hash of them."""
    names, count, total = dict[str, None](), 0, hashlib.sha256()
    rows: Iterable[Row] = _Rows(items)
    for row in rows:
        names.update(dict.fromkeys(row))
        count += 1
        total.update(json.dumps(list(row.items())).encode() + b"\n")
    return list(names), count, total.hexdigest()
