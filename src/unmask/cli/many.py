"""Commands over many rows: the rows of files through a kind of job, into a folder or a file."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import announce, cluster, options
from unmask.cli.command import group, option
from unmask.cli.inputs import Input
from unmask.errors import UnmaskError
from unmask.names import BINARY_FORMATS, OUTPUT_FORMATS
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds import Kind
    from unmask.jobs.running import Job, LookAt, Outcome, RowStore
    from unmask.jobs.tally import Tally
    from unmask.jobs.work import UnitRows
    from unmask.language_model import LanguageModel
    from unmask.records.rows import Record, Row

# options that commands over rows share, each a field
PREFIX = partial(option, "prefix for the names of new columns (default: none)", default="")
SHARD = partial(
    option,
    "do every N-th part from the I-th on, counting from 0, so that N processes can share one "
    "folder (default: all parts)",
    "I/N",
    group="folder of parts",
)
TEXTS_PER_UNIT = partial(
    option,
    "rows per part, which is what a killed worker loses at most; of one file, how many are written "
    "together (default: depends on the command)",
    "N",
    group="folder of parts",
)


@dataclass(frozen=True, kw_only=True)
class RowsCommand:
    """The options of all commands over rows; help lists them after those of the command."""

    model: str = options.MODEL()
    input_format: str | None = options.INPUT_FORMAT()
    limit: int | None = options.LIMIT()
    output: str | None = option(
        "write the rows to a file: .csv, .tsv, .jsonl or .parquet; its name is FILE.partial until "
        "it is complete, and the same command continues it after an interruption. FOLDER/, with a "
        "slash at its end, or a URL (s3://, gs://), is a folder of Parquet files, one per "
        "--texts-per-unit texts: for inputs of any size, several processes and clusters (default: "
        "-, standard output)",
        "FILE|FOLDER/|-",
        short="-o",
    )
    output_format: str | None = options.OUTPUT_FORMAT()
    json: bool = options.JSON()
    strict: bool = options.STRICT()
    dry_run: bool = options.DRY_RUN()
    quiet: bool = options.QUIET()
    running: options.Running = group(options.Running())
    texts_per_unit: int | None = TEXTS_PER_UNIT()
    shard: str | None = SHARD()
    distributed: cluster.RayOptions = group(cluster.RayOptions())

    # of a folder, unless given; behind the option of this name
    TEXTS_PER_UNIT = 1


@dataclass(frozen=True)
class GivenRows:
    """Where rows come from: files, or `records` in their place; of a file, the first `limit`."""

    @classmethod
    def of(cls, given: Input, chosen: Any, **how: Any) -> "GivenRows":
        """The files of a command, or its texts."""
        from unmask.records.rows import TEXT_COLUMN, Record

        records = [Record({TEXT_COLUMN: text}) for text in given.texts[: chosen.limit]] or None
        return cls(given.files, chosen.input_format, chosen.limit, records=records, **how)

    files: Sequence[str] = ()
    format: str | None = None
    limit: int | None = None
    piped_format: str = "csv"
    hold: bool = False
    records: "Sequence[Record] | None" = None

    def check_header(self, columns: Sequence[str]) -> None:
        """Reject a table without a column at once: importing torch takes seconds."""
        from unmask.records.files import check_header

        if self.limit is not None and self.limit < 1:
            raise UnmaskError(f"--limit takes a number of rows from 1, not {self.limit}")
        for file in self.files if len(self.files) == 1 else ():
            check_header(file, self.format, columns)

    def job(self, kind: "Kind", size: int) -> "Job":
        """The job over them, in units of a size."""
        from unmask.jobs.running import job_of, open_job
        from unmask.records.files import InputRows

        if self.records is not None:
            return job_of(kind, InputRows.held(self.records, size))
        return open_job(
            kind,
            self.files,
            texts_per_unit=size,
            format=self.format,
            limit=self.limit,
            piped_format=self.piped_format,
            hold=self.hold,
        )


def is_folder(chosen: RowsCommand) -> bool:
    """Whether the output is a folder of parts; options of a folder need one."""
    from unmask.records.places import is_url

    output = chosen.output or ""
    is_binary = _file_format(chosen.output, chosen.output_format) in BINARY_FORMATS
    if output.endswith(("/", os.sep)) or is_url(output) or (output and os.path.isdir(output)):
        cluster.check(chosen.distributed)
        if chosen.output_format not in (None, "parquet"):
            raise UnmaskError("--output-format does not apply with a folder of parts; leave it out")
        return True
    of_folder = {"shard": chosen.shard, **vars(chosen.distributed)}
    for name, value in of_folder.items():
        if value is not None and not (is_binary and name != "shard"):
            raise UnmaskError(
                f"--{name.replace('_', '-')} is for a folder of parts; give --output FOLDER/, with "
                "a slash at its end"
            )
    if is_binary:
        cluster.check(chosen.distributed)
    return False


def is_one_text(chosen: RowsCommand, given: Input) -> bool:
    """Whether an answer to read is wanted, about one text: not rows."""
    if given.texts:
        options.reject(chosen, ("input_format",), "is for files, and INPUT is a text; leave it out")
    # also where options of a folder have none
    is_rows = is_folder(chosen) or chosen.output is not None or chosen.output_format is not None
    return len(given.texts) == 1 and not is_rows


def _file_format(output: str | None, named: str | None) -> str:
    return named or Path(output or "").suffix.lower().removeprefix(".")


def output_format(
    output: str | None, named: str | None = None, files: Sequence[str] = ()
) -> str | None:
    """The format of the rows, by option or by the name of a file, which is checked; else None."""
    if named is not None:
        options.check_choice("--output-format", named, OUTPUT_FORMATS)
    if output in (None, "-"):
        if named in BINARY_FORMATS:
            raise UnmaskError(f"{named.capitalize()} is not written to stdout; give --output FILE")
        return named
    for source in files or [""]:
        options.check_file("--output", output, source=source or None)
    format = _file_format(output, named)
    if format not in OUTPUT_FORMATS:
        raise UnmaskError(
            f"the name of {quoted(output, limit=150)} does not end with .csv, .jsonl, .parquet or "
            ".tsv; give --output-format, or a folder with / at its end"
        )
    return format


class KeptRows:
    """Rows that are kept for a table to be read, unless there are too many."""

    def __init__(self, *, keep: bool = True) -> None:
        from unmask.jobs.tally import Tally

        self._keep, self.units, self.tally = keep, 0, Tally()
        self.rows: list[Row] = []

    def write(self, number: int, rows: "UnitRows") -> None:
        """The rows of the next unit."""
        from unmask.jobs.single_file import rows_of

        self.rows += rows_of(rows) if self._keep else []


# --- from rows to rows ---------------------------------------------------------------------------

Conclude = Callable[["Tally"], int]


def rows_command(
    chosen: RowsCommand,
    kind: "Kind",
    given: GivenRows,
    *,
    at_once: int,
    default_format: str | None = "csv",
    table: "RowStore | None" = None,
    check: "Callable[[Job], object]" = lambda _: None,
    conclude: Conclude | None = None,
) -> int:
    """Run a kind on rows, and write what comes of them; the exit code.

    Into one file, `at_once` of them are written together. Rows go into the `table` where they have
    no format. `check` rejects an input before the model is loaded; `conclude` prints what came of
    it, and has the exit code.
    """
    conclude = conclude or (lambda tally: concluded(chosen, kind, tally))
    if chosen.json and (chosen.output or chosen.output_format):
        raise UnmaskError("--json prints rows to stdout; leave it out, or give --output FILE.jsonl")
    to_folder = is_folder(chosen)
    format = None
    if not to_folder:
        named = output_format(chosen.output, chosen.output_format, given.files)
        format = named or ("jsonl" if chosen.json else default_format)
    if to_folder or format in BINARY_FORMATS:
        return _Folder(chosen, kind, given).run(check, conclude, format)
    job = replace(given.job(kind, _checked_size(chosen, at_once)), strict=chosen.strict)
    check(job)
    lm = chosen.running.load(chosen.model)
    look = _announcing(chosen, job, lm)
    if chosen.dry_run:
        look(job.source.units())
        return 0
    tally = _to_file(chosen, job, lm, format, table, look)
    check_any(kind, tally)
    return conclude(tally)


def _checked_size(chosen: RowsCommand, default: int) -> int:
    size = default if chosen.texts_per_unit is None else int(chosen.texts_per_unit)
    if size < 1:
        raise UnmaskError(f"a unit has texts from 1, not {size}")
    return size


def _to_file(
    chosen: RowsCommand,
    job: "Job",
    lm: "LanguageModel",
    format: str | None,
    table: "RowStore | None",
    look: "LookAt",
) -> "Tally":
    from unmask.jobs.running import run_to_file
    from unmask.jobs.single_file import FileLayout, growing

    kind, progress = job.kind, False if chosen.quiet else None
    if format is None and table is not None:
        return run_to_file(job, table, lm, progress=progress, look_at=look)
    output = None if chosen.output == "-" else chosen.output
    names = job.all_columns() if format != "jsonl" else []
    kept = [name for name in names if name not in kind.dropped_columns]
    layout = FileLayout(
        [*kept, *kind.output_columns], format or "", kind.dropped_columns, kind.methods
    )
    is_resumable = output is not None and job.source.to_dict() is not None
    plan = _plan(chosen, job, lm) if is_resumable else None
    with growing(output, layout, plan) as writer:
        if writer.units and not chosen.quiet:
            options.say(f"continuing after the first {writer.tally.texts:,} texts")
        tally = run_to_file(job, writer, lm, progress=progress, look_at=look)
        if output is not None:
            # an output that was begun is not left behind
            check_any(kind, tally)
    return tally


def _plan(chosen: RowsCommand, job: "Job", lm: "LanguageModel") -> Any:
    return job.plan(lm, name=options.model_name(chosen.model), dtype=chosen.running.dtype)


@dataclass(frozen=True)
class _Folder:
    """A folder of parts, or one binary file that is made of them."""

    chosen: RowsCommand
    kind: "Kind"
    given: GivenRows

    def run(self, check: "Callable[[Job], object]", conclude: Conclude, format: str | None) -> int:
        """Do what the folder lacks, and merge it if one file of a format is wanted."""
        chosen, output = self.chosen, whole_path(self.chosen.output or "")
        folder = output if format is None else f"{os.path.realpath(output)}.partial"
        outcome = self._outcome(folder, check)
        if outcome is None:
            return 0
        code = conclude(outcome.tally)
        if not chosen.quiet and format is None:
            merging = "" if outcome.is_share else "; unmask merge makes one file of them"
            texts = f"{outcome.tally.texts:,} texts are in {quoted(chosen.output, limit=200)}"
            print(texts + merging, file=sys.stderr)
        if outcome.failed:
            options.say(outcome.failures())
            return code or 1
        if format is not None:
            from unmask.jobs.merging import merge

            merge(folder, Path(os.path.realpath(output)), format)
            shutil.rmtree(folder)
        return code

    def _outcome(self, folder: str, check: "Callable[[Job], object]") -> "Outcome | None":
        """What came of it; None of a dry run."""
        from unmask.jobs.executors.local import LocalExecutor
        from unmask.jobs.running import run_job
        from unmask.jobs.shards import Shard
        from unmask.records.parquet import parquet_library

        chosen, given = self.chosen, self.given
        # what parts are written with: better missing now than after the model is loaded
        parquet_library()
        shard = Shard() if chosen.shard is None else Shard.parse(chosen.shard)
        _check_files(given)
        options.check_no_run("--output", chosen.output)
        source = chosen.running.source(chosen.model)
        # first: whether there is a cluster is known at once, reading an input takes time
        joined = nullcontext() if chosen.dry_run else cluster.executor(chosen.distributed, source)
        # bars within a unit would be thousands
        plain: Any = self.kind
        kind: Kind = replace(plain, settings=replace(plain.settings, progress=False))
        with cluster.leaving_in_order(), joined as remote:
            size = _checked_size(chosen, chosen.TEXTS_PER_UNIT)
            job = replace(given.job(kind, size), strict=chosen.strict)
            check(job)
            # with a cluster this process only plans, and needs no GPU
            lm = (source if remote is None else replace(source, device="cpu")).load()
            look = _announcing(chosen, job, lm)
            if chosen.dry_run:
                look(job.source.units())
                return None
            return run_job(
                job,
                _plan(chosen, job, lm),
                folder,
                remote or LocalExecutor(lm),
                shard=shard,
                progress=False if chosen.quiet else None,
                say=options.say,
                # a cluster has other speeds
                look_at=None if remote is not None else look,
            )


def _check_files(given: GivenRows) -> None:
    from unmask.records.files import is_pipe

    if given.records is None and any(map(is_pipe, given.files)):
        raise UnmaskError(
            "a folder of parts is made from files, which can be read again; give a FILE"
        )


def whole_path(folder: str) -> str:
    """Workers of a cluster have another working directory."""
    from unmask.records.places import is_url

    return folder if is_url(folder) else os.path.abspath(os.path.expanduser(folder))


# --- what is said ------------------------------------------------------------------------------


def check_any(kind: "Kind", tally: "Tally") -> None:
    """Raise where there is not one number."""
    # a shard may have no texts
    if tally.texts and tally.has_none(kind.methods):
        raise UnmaskError(kind.all_failed_message(tally))


def concluded(chosen: RowsCommand, kind: "Kind", tally: "Tally") -> int:
    """Say how many rows have an answer, and why others have none; the exit code."""
    bad, example = max(tally.without.values(), default=(0, ""))
    if bad or not chosen.quiet:
        others = f"; the others have a reason instead, e.g.: {example}" if bad else ""
        options.say(f"{tally.texts - bad:,} of {tally.texts:,} {kind.noun}s {kind.verb}{others}")
    # a shard may have none at all
    return 2 if tally.texts and bad == tally.texts else 0


def _announcing(chosen: RowsCommand, job: "Job", lm: "LanguageModel") -> "LookAt":
    """The same units, after a look at the first: what it costs is announced before it runs."""
    from unmask.jobs.work import batch_of

    kind = job.kind

    def look(units: Iterable[Any]) -> Iterable[Any]:
        rest = iter(units)
        if chosen.quiet and not chosen.dry_run:
            return rest
        head: list[Any] = []
        # an input that cannot be read says so when it is its turn
        with suppress(UnmaskError):
            # the first unit of a table may be its header alone
            for unit in islice(rest, 2):
                head.append(unit)
                items = kind.read(lm, batch_of(unit, kind).rows)
                made = kind.announcement(lm, items)
                if made is not None:
                    announce.announce_rows(
                        chosen, lm, made, kind.settings, job.source.texts, kind.noun
                    )
                if items:
                    break
        return chain(head, rest)

    return look
