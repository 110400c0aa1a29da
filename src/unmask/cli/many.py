"""Commands over many rows: the rows of an input through a kind of job, into a folder or a file.

what was typed -> command.value:  a command, or one line that says what an option takes
               -> its run:        files or texts (`inputs`), rows (`open_rows`), and a `Kind`,
                                  which says what is done with a row; nothing is loaded yet
               -> run:            the model, and the `Job`; a cluster is joined first
               -> do:             what it costs; or rows to stdout; or parts in a folder, which
                                  are merged if a file is wanted
               -> conclude:       what the counters say, and the exit code
"""

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from unmask.cli import options
from unmask.cli.command import option
from unmask.cli.inputs import Input
from unmask.durable import explained, remove_unfinished
from unmask.errors import CorpusError, UnmaskError
from unmask.names import OUTPUT_FORMATS, model_name
from unmask.printable import quoted
from unmask.records.rows import TEXT_COLUMN, MissingColumn, Record, Row

if TYPE_CHECKING:
    from unmask.jobs.kinds import Counts, Kind
    from unmask.jobs.model_source import ModelSource
    from unmask.jobs.ray_workers import RayWorkers
    from unmask.jobs.running import Job
    from unmask.records.files import InputRows

    Keep = Callable[[list[Row]], object]
    Conclude = Callable[[Counts], int]

_parts, _ray = partial(option, group="folder of parts"), partial(option, group="Ray")
_IS_OF_FOLDERS = "is for a folder of parts; give --output FOLDER/, with a slash at its end"


@dataclass(frozen=True, kw_only=True)
class JobCommand(options.RunningOptions):
    """The options of all commands that work unit by unit."""

    GROUP = options.OUTPUT

    strict: bool = option("end at the first row that has no answer", default=False)
    dry_run: bool = option("print the cost to stdout, and run nothing", default=False)
    quiet: bool = options.QUIET()
    rows_per_unit: int | None = _parts(
        "rows per part, which is what an interruption loses at most (default: as many as one core "
        "of a laptop does in some 5 seconds)",
        "N",
    )
    shard: str | None = _parts(
        "do every N-th part from the I-th on, counting from 0, so that N processes can share one "
        "folder (default: all parts)",
        "I/N",
    )
    ray: str | None = _ray(
        "run on a Ray cluster: auto (RAY_ADDRESS, or the one on this machine), local (started for "
        "this run), or an address such as 10.0.0.5:6379 (default: run in this process)",
        "ADDRESS",
    )
    workers: str | None = _ray(
        "number of processes on the cluster, each with its own model, or the least and the most, "
        "as 4-64 (default: one per GPU; without GPUs, as many as the CPUs allow)",
        "N|MIN-MAX",
    )
    cpus_per_worker: int | None = _ray("CPUs and threads per process (default: 1)", "N")

    def note(self, line: str) -> None:
        """Print a line beside the data, unless nothing but results is wanted."""
        if not self.quiet:
            print(line, file=sys.stderr)

    @contextmanager
    def joined(self, source: "ModelSource") -> "Iterator[RayWorkers | None]":
        """The workers of the cluster, if one is requested; it is joined at once.

        Meanwhile SIGTERM, which batch systems send before they kill, ends with everything saved.
        """
        cpus, count = self.cpus_per_worker, None
        if self.ray is None:
            why = "is for a cluster; give --ray auto, local or an address"
            options.reject(self, ("workers", "cpus_per_worker"), why)
        if cpus is not None and cpus < 1:
            raise UnmaskError(f"cpus_per_worker is a number from 1, not {cpus}")
        if self.workers is not None:
            match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", self.workers)
            count = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
            if not 1 <= count[0] <= count[1]:
                raise UnmaskError(
                    f"workers is a number from 1, or two as 4-64, not {quoted(self.workers)}"
                )

        def ended(number: int, _: object) -> None:
            sys.exit(128 + number)

        before = signal.signal(signal.SIGTERM, ended)
        try:
            if self.ray is None or self.dry_run:
                yield None
                return

            from unmask.jobs.ray_workers import RayWorkers, joined

            with joined(self.ray):
                # Ray took it for itself
                signal.signal(signal.SIGTERM, ended)
                yield RayWorkers(source=source, count=count, cpus_per_worker=cpus or 1)
        finally:
            signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True, kw_only=True)
class RowsCommand(JobCommand):
    """The options of all commands over rows; help lists them after those of the command."""

    GROUP = options.OUTPUT

    input_format: str | None = options.INPUT_FORMAT()
    limit: int | None = option("read only the first N rows", "N", group=options.INPUT)
    output: str | None = option(
        "write the rows to a file: .csv, .tsv, .jsonl or .parquet, which replaces FILE when it is "
        "complete; until then its parts are in FILE.parts/, and the same command continues after "
        "an interruption. FOLDER/, with a slash at its end, or a URL (s3://, gs://), keeps the "
        "parts, which are Parquet files: for inputs of any size, several processes and clusters "
        "(default: -, standard output; of files it gets rows, or, if it is a terminal, the table "
        "of score and consistency)",
        "FILE|FOLDER/|-",
        short="-o",
    )
    output_format: str | None = option(
        "csv, tsv, jsonl or parquet (default: what the name of the output shows; for standard "
        "output csv, of fill and decode jsonl)",
        "FORMAT",
        choices=OUTPUT_FORMATS,
    )
    json: bool = option("print JSON: one object for a question, lines for rows", default=False)


def open_rows(
    command: RowsCommand,
    source: Input,
    columns: Sequence[str] = ("text",),
    piped_format: str = "txt",
    remedy: str = "rename the column that holds the texts",
) -> "InputRows":
    """The rows of a command: a missing column is noticed before torch is imported, in seconds."""
    from unmask.records.files import open_input, rows_in_memory

    if command.limit is not None and command.limit < 1:
        raise UnmaskError(f"limit is a number of rows from 1, not {command.limit}")
    if source.texts:
        return rows_in_memory([Record({TEXT_COLUMN: t}) for t in source.texts[: command.limit]])
    reader_options: Any = {"format": command.input_format, "limit": command.limit}
    try:
        return open_input(source.files, columns, **reader_options, piped_format=piped_format)
    except CorpusError as error:
        if isinstance(error.args[0], MissingColumn):
            raise CorpusError(f"{error}; {remedy}") from None
        raise


class Output(NamedTuple):
    """The folder of parts and the file of a command's rows, if it has one, and their format.

    `typed` is the place as it was typed; `remark` says what can be done with a folder.
    """

    folder: str | None = None
    file: str | None = None
    format: str | None = None
    typed: str = ""
    remark: str = ""


def format_of_stdout(files: Sequence[str]) -> str | None:
    """The format of rows on stdout, for a command that prints a table of few: none if it does.

    Of files, whatever is not a terminal gets rows, as from all commands.
    """
    is_read = not files or (sys.stdout is not None and sys.stdout.isatty())
    return None if is_read else "csv"


def output_of(command: RowsCommand, default_format: str | None = "csv") -> Output:
    """The place for the rows; one that cannot be written to is rejected."""
    from unmask.records.places import is_url

    place, typed_format = command.output or "", command.output_format
    if command.json and (place or typed_format):
        raise UnmaskError("--json prints rows to stdout; leave it out, or give --output FILE.jsonl")
    if place.endswith(("/", os.sep)) or is_url(place) or (place and os.path.isdir(place)):
        if typed_format not in (None, "parquet"):
            raise UnmaskError("--output-format does not apply with a folder of parts; leave it out")
        options.check_place("--output", place, is_folder=True)
        remark = "" if command.shard else "; unmask merge makes one file of them"
        return Output(whole_path(place), typed=place, remark=remark)
    options.reject(command, ("shard",), _IS_OF_FOLDERS)
    if place in ("", "-"):
        options.reject(command, ("ray",), _IS_OF_FOLDERS)
        if typed_format == "parquet":
            raise UnmaskError("Parquet is not written to stdout; give --output FILE")
        return Output(format=typed_format or ("jsonl" if command.json else default_format))
    options.check_place("--output", place)
    format = typed_format or Path(place).suffix.lower().removeprefix(".")
    if format not in OUTPUT_FORMATS:
        raise UnmaskError(
            f"the name of {quoted(place, limit=150)} does not end with .csv, .jsonl, .parquet or "
            ".tsv; give --output-format, or a folder with / at its end"
        )
    file = os.path.realpath(place)
    # a pipe or a device gets its rows at once
    is_file = os.path.isfile(file) or not os.path.exists(file)
    return Output(f"{file}.parts" if is_file else None, file, format)


def is_one_text(command: RowsCommand, source: Input) -> bool:
    """True if an answer to read is wanted, about one text: not rows."""
    if source.texts:
        why = "is for files, and INPUT is a text; leave it out"
        options.reject(command, ("input_format",), why)
    return len(source.texts) == 1 and (command.output or command.output_format) is None


def whole_path(folder: str) -> str:
    """The absolute path: workers of a cluster have another working directory."""
    from unmask.records.places import is_url

    return folder if is_url(folder) else os.path.abspath(os.path.expanduser(folder))


def run(
    command: RowsCommand,
    kind: "Kind",
    rows: "InputRows",
    output: Output,
    at_once: int = 1,
    *,
    keep: "Keep | None" = None,
    conclude: "Conclude | None" = None,
) -> int:
    """Do what is left to do; returns the exit code.

    From a pipe to stdout, `at_once` rows are read together. `keep` gets the rows that no folder
    keeps. `conclude` prints the result, and returns the exit code.
    """
    from unmask.jobs.folder import Shard
    from unmask.jobs.running import Job
    from unmask.jobs.worker import clash
    from unmask.records.files import rows_in_memory

    shard, source, place = Shard.parse(command.shard), command.source(), quoted(command.output, 150)
    if any(os.path.realpath(read.place) == output.file for read in rows.files):
        raise UnmaskError(
            f"--output {place} is the input too, and would be lost; give another file"
        )
    if output.file is not None and os.path.isfile(output.file) and not command.dry_run:
        # told in time: it is whole until then
        command.note(f"{place} exists, and is replaced when all rows are done")
    # first: whether there is a cluster is known at once, reading a pipe takes time
    with command.joined(source) as workers:
        if output.folder is not None and rows.is_pipe:
            rows = rows_in_memory([*(rows.records or ())])
        if (why := clash(rows.names, kind)) is not None:
            raise UnmaskError(why)
        size = at_once if rows.is_pipe else None
        job = Job(
            # bars within a unit would be thousands
            kind=replace(kind, settings=replace(kind.settings, progress=False)),
            input=rows,
            # with a cluster this process only plans, and needs no GPU
            lm=(source if workers is None else replace(source, device="cpu")).load(),
            model_name=model_name(command.model),
            dtype=command.dtype,
            rows_per_unit=size if command.rows_per_unit is None else command.rows_per_unit,
            shard=shard,
            strict=command.strict,
        )
        end = conclude or partial(concluded, command, kind)
        return do(command, job, output, workers, end, keep)


def do(
    command: JobCommand,
    job: "Job",
    output: Output,
    workers: "RayWorkers | None",
    conclude: "Conclude",
    keep: "Keep | None" = None,
) -> int:
    """Announce a job, or run it to stdout or into a folder of parts; returns the exit code.

    From the folder a file is merged if one is wanted.
    """
    from unmask.jobs.folder import folder_at, held, holds_parts
    from unmask.jobs.kinds import worst
    from unmask.jobs.parts import merge
    from unmask.jobs.running import run_job

    is_quiet, is_ended, folder = command.quiet, False, output.folder
    if command.dry_run and not job.input.is_pipe:
        cut = job.cut(folder or "")
        job.announce([*cut.units], cut.rows, print, is_dry=True)
        return 0
    try:
        if folder is None:
            result, counts = None, _to_stream(command, job, output, keep)
        else:
            result = run_job(
                job,
                folder,
                workers=workers,
                progress=False if is_quiet else None,
                say=options.say,
                announce=None if is_quiet else command.note,
            )
            counts = result.counts
            if result.errors and not result.done:
                raise UnmaskError(result.errors[0])
        is_ended = True
        # a shard may have no texts
        if job.kind.must_answer and counts["texts"] and not counts["answers"]:
            texts = f"{job.kind.noun}s ({counts['texts']})"
            raise UnmaskError(f"none of the {texts} can be {job.kind.verb}: {worst(counts)[1]}")
    except BaseException:
        # leave no folder of parts that would be useless, if a file was asked for
        if folder and output.file and (is_ended or not holds_parts(folder)):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    code = conclude(counts)
    if folder is None or result is None:
        return code
    if output.file is None:
        failed, noun = counts["failed"], job.kind.noun
        done, place = counts["texts"] - failed, quoted(output.typed, limit=200)
        line = f"{done:,} {noun}s are in {place}"
        line += f", {failed:,} failed: run again to try them again" if failed else ""
        command.note(line + output.remark)
    if result.errors:
        options.say(result.failures())
        return code or 1
    if output.file is not None:
        with held(folder, job.shard):
            remove_unfinished(Path(output.file).parent, Path(output.file).name)
            parts = folder_at(folder)
            merge(parts, parts.receipts(), Path(output.file), output.format or "")
            shutil.rmtree(folder)
    return code


def _to_stream(command: JobCommand, job: "Job", output: Output, keep: "Keep | None") -> "Counts":
    """To stdout, or to a pipe or a device, which gets its rows at once."""
    from unmask.jobs.kinds import counted
    from unmask.jobs.running import stream
    from unmask.records.writing import written

    source, kind, is_pipe = job.cut(), job.kind, job.input.is_pipe
    counts, held, is_first = counted(), list[Row](), True
    names: Sequence[str] = ()
    if output.format in ("csv", "tsv"):
        names = job.input.all_names([] if is_pipe else source.units)
        names = [name for name in names if name not in kind.input_columns.dropped]
    if not (command.quiet or is_pipe):
        job.announce([*source.units], source.rows, command.note, is_dry=False)
    with ExitStack() as opened:
        file: IO[str] = sys.stdout
        if output.file is not None:
            opened.enter_context(explained(Path(output.file)))
            file = opened.enter_context(open(output.file, "w", encoding="utf-8", newline=""))
        for rows, counts in stream(job, source, False if command.quiet else None):
            held += rows
            if kind.must_answer and not counts["answers"]:
                # nothing is written until there is an answer
                continue
            if keep is not None:
                keep(held)
            if output.format is not None:
                every = [*names, *kind.output_columns]
                file.write(written(held, every, output.format, header=is_first))
                file.flush()
            held, is_first = [], False
    return counts


def concluded(command: RowsCommand, kind: "Kind", counts: "Counts") -> int:
    """Say how many rows have an answer, and why others have none; the exit code."""
    from unmask.jobs.kinds import worst

    texts, (bad, example) = counts["texts"], worst(counts)
    if bad or not command.quiet:
        others = f"; the others have a reason instead, e.g.: {example}" if bad else ""
        options.say(f"{texts - bad:,} of {texts:,} {kind.noun}s {kind.verb}{others}")
    # a shard may have none at all
    return 2 if texts and bad == texts else 0
