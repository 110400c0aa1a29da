"""Commands over many rows: the rows of files through a kind of job, into a folder or a file."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from unmask.cli import cluster, options
from unmask.cli.command import group, option
from unmask.cli.inputs import Input
from unmask.durable import explained, remove_unfinished
from unmask.errors import UnmaskError
from unmask.names import OUTPUT_FORMATS
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds import Counts, Kind
    from unmask.jobs.ray_workers import RayWorkers
    from unmask.jobs.running import Job
    from unmask.records.files import InputRows
    from unmask.records.rows import Row

    Keep = Callable[[list[Row]], object]
    Conclude = Callable[[Counts], int]

# options that commands over rows share, each a field
PREFIX = partial(option, "prefix for the names of new columns (default: none)", default="")


@dataclass(frozen=True, kw_only=True)
class JobCommand:
    """The options of all commands that work unit by unit; help lists them last."""

    strict: bool = options.STRICT()
    dry_run: bool = options.DRY_RUN()
    quiet: bool = options.QUIET()
    running: options.Running = group(options.Running())
    rows_per_unit: int | None = option(
        "rows per part, which is what an interruption loses at most (default: as many as one core "
        "of a laptop does in some 5 seconds)",
        "N",
        group="folder of parts",
    )
    shard: str | None = option(
        "do every N-th part from the I-th on, counting from 0, so that N processes can share one "
        "folder (default: all parts)",
        "I/N",
        group="folder of parts",
    )
    distributed: cluster.RayOptions = group(cluster.RayOptions())

    def note(self, line: str) -> None:
        """Print a line beside the data, unless nothing but results is wanted."""
        if not self.quiet:
            print(line, file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class RowsCommand(JobCommand):
    """The options of all commands over rows; help lists them after those of the command."""

    model: str = options.MODEL()
    input_format: str | None = options.INPUT_FORMAT()
    limit: int | None = options.LIMIT()
    output: str | None = option(
        "write the rows to a file: .csv, .tsv, .jsonl or .parquet; until it is complete its parts "
        "are in FILE.parts/, and the same command continues after an interruption. FOLDER/, with a "
        "slash at its end, or a URL (s3://, gs://), keeps the parts, which are Parquet files: for "
        "inputs of any size, several processes and clusters (default: -, standard output)",
        "FILE|FOLDER/|-",
        short="-o",
    )
    output_format: str | None = options.OUTPUT_FORMAT()
    json: bool = options.JSON()

    def __post_init__(self) -> None:
        """Reject a limit that leaves no rows."""
        if self.limit is not None and self.limit < 1:
            raise UnmaskError(f"limit is a number of rows from 1, not {self.limit}")


def open_rows(
    command: RowsCommand, source: Input, columns: Sequence[str], piped_format: str = "csv"
) -> "InputRows":
    """The rows of a command: a missing column is noticed before torch is imported, in seconds."""
    from unmask.records.files import open_input, rows_in_memory
    from unmask.records.rows import TEXT_COLUMN, Record

    if source.texts:
        return rows_in_memory([Record({TEXT_COLUMN: t}) for t in source.texts[: command.limit]])
    how: Any = {"format": command.input_format, "limit": command.limit}
    return open_input(source.files, columns, **how, piped_format=piped_format)


def is_folder(command: RowsCommand) -> bool:
    """True if the output is a folder of parts; `--shard` needs one."""
    from unmask.records.places import is_url

    output = command.output or ""
    if output.endswith(("/", os.sep)) or is_url(output) or (output and os.path.isdir(output)):
        if command.output_format not in (None, "parquet"):
            raise UnmaskError("--output-format does not apply with a folder of parts; leave it out")
        return True
    why = "is for a folder of parts; give --output FOLDER/, with a slash at its end"
    options.reject(command, ("shard",), why)
    if output in ("", "-"):
        options.reject(command.distributed, ("ray",), why)
    return False


def is_one_text(command: RowsCommand, source: Input) -> bool:
    """True if an answer to read is wanted, about one text: not rows."""
    if source.texts:
        options.reject(
            command, ("input_format",), "is for files, and INPUT is a text; leave it out"
        )
    # first: also options of a folder that have none are noticed
    is_rows = is_folder(command) or (command.output or command.output_format) is not None
    return len(source.texts) == 1 and not is_rows


def whole_path(folder: str) -> str:
    """Workers of a cluster have another working directory."""
    from unmask.records.places import is_url

    return folder if is_url(folder) else os.path.abspath(os.path.expanduser(folder))


class Output(NamedTuple):
    """The folder of parts and the file of a command's rows, if it has one, and their format."""

    folder: str | None = None
    file: str | None = None
    format: str | None = None


# --- from rows to rows ---------------------------------------------------------------------------


def run(
    command: RowsCommand,
    kind: "Kind",
    rows: "InputRows",
    at_once: int = 1,
    *,
    default_format: str | None = "csv",
    keep: "Keep | None" = None,
    conclude: "Conclude | None" = None,
) -> int:
    """Do what is left to do; returns the exit code.

    From a pipe to stdout, `at_once` rows are read together. Rows without a format are given to
    `keep`. `conclude` prints the result, and returns the exit code.
    """
    from unmask.jobs.folder import Shard
    from unmask.jobs.running import Job
    from unmask.jobs.worker import clash

    output = _output(command, rows, default_format)
    source, shard = command.running.source(command.model), Shard.parse(command.shard)
    plain: Any = kind
    with ExitStack() as stack:
        workers = None
        if output.folder is not None:
            stack.enter_context(cluster.leaving_in_order())
            if not command.dry_run:
                # first: whether there is a cluster is known at once, reading a pipe takes time
                workers = stack.enter_context(command.distributed.joined(source))
        rows = rows.begin(hold=output.folder is not None)
        if (why := clash(rows.names, kind)) is not None:
            raise UnmaskError(why)
        size = at_once if rows.is_pipe else None
        job = Job(
            # bars within a unit would be thousands
            kind=replace(plain, settings=replace(kind.settings, progress=False)),
            input=rows,
            # with a cluster this process only plans, and needs no GPU
            lm=(source if workers is None else replace(source, device="cpu")).load(),
            model_name=options.model_name(command.model),
            dtype=command.running.dtype,
            rows_per_unit=size if command.rows_per_unit is None else command.rows_per_unit,
            shard=shard,
            strict=command.strict,
        )
        if command.dry_run and not rows.is_pipe:
            cut = job.cut(output.folder or "")
            job.announce([*cut.units], cut.rows, print, is_dry=True)
            return 0
        end = conclude or partial(concluded, command, kind)
        if output.folder is not None:
            return _to_folder(command, job, output, workers, end)
        return end(_to_stream(command, job, output, keep))


def _output(command: RowsCommand, rows: "InputRows", default_format: str | None) -> Output:
    """The place for the rows; one that cannot be written to is rejected."""
    output, named = command.output, command.output_format
    if command.json and (output or named):
        raise UnmaskError("--json prints rows to stdout; leave it out, or give --output FILE.jsonl")
    if is_folder(command):
        options.check_no_run("--output", output)
        return Output(whole_path(output or ""))
    if named is not None:
        options.check_choice("--output-format", named, OUTPUT_FORMATS)
    if output in (None, "-"):
        if named == "parquet":
            raise UnmaskError("Parquet is not written to stdout; give --output FILE")
        return Output(format=named or ("jsonl" if command.json else default_format))
    file = os.path.realpath(output)
    is_input = any(os.path.realpath(source.place) == file for source, _ in rows.files)
    options.check_file("--output", output, source=file if is_input else None)
    format = named or Path(output).suffix.lower().removeprefix(".")
    if format not in OUTPUT_FORMATS:
        raise UnmaskError(
            f"the name of {quoted(output, limit=150)} does not end with .csv, .jsonl, .parquet or "
            ".tsv; give --output-format, or a folder with / at its end"
        )
    # a pipe or a device gets its rows at once
    is_file = os.path.isfile(file) or not os.path.exists(file)
    return Output(f"{file}.parts" if is_file else None, file, format)


def _to_stream(command: RowsCommand, job: "Job", output: Output, keep: "Keep | None") -> "Counts":
    """To stdout, or to a pipe or a device, which gets its rows at once."""
    from unmask.jobs.kinds import counted
    from unmask.jobs.running import stream
    from unmask.records.writing import written

    source, kind, is_pipe = job.cut(), job.kind, job.input.is_pipe
    counts, held, is_first = counted(), list["Row"](), True
    names: Sequence[str] = ()
    if output.format in ("csv", "tsv"):
        names = job.input.all_names([] if is_pipe else source.units)
        names = [name for name in names if name not in kind.input_columns.dropped]
    if not (command.quiet or is_pipe):
        job.announce([*source.units], source.rows, command.note, is_dry=False)
    with _opened(output.file) as file:
        for rows, counts in stream(job, source, False if command.quiet else None):
            held += rows
            if kind.must_answer and not counts["answers"]:
                # what has not one number is not written
                continue
            if output.format is None and keep is not None:
                keep(held)
            else:
                every = [*names, *kind.output_columns]
                file.write(written(held, every, output.format or "", header=is_first))
                file.flush()
            held, is_first = [], False
    _check_any(kind, counts)
    return counts


@contextmanager
def _opened(place: str | None) -> Iterator[IO[str]]:
    """A pipe or a device to write to, or stdout; of that, whoever started the command knows."""
    if place is None:
        yield sys.stdout
        return
    with explained(Path(place)), open(place, "w", encoding="utf-8", newline="") as file:
        yield file


def _to_folder(
    command: RowsCommand, job: "Job", output: Output, workers: "RayWorkers | None", end: "Conclude"
) -> int:
    """Into a folder of parts, from which a file is merged if one is wanted."""
    from unmask.jobs.folder import held, holds_parts
    from unmask.jobs.parts import merge
    from unmask.jobs.running import run_job

    is_quiet, is_ended = command.quiet, False
    folder, file, format = output.folder or "", output.file, output.format or ""
    try:
        result = run_job(
            job,
            folder,
            workers=workers,
            progress=False if is_quiet else None,
            say=options.say,
            announce=None if is_quiet else command.note,
        )
        if result.errors and not result.done:
            raise UnmaskError(result.errors[0])
        is_ended = True
        _check_any(job.kind, result.counts)
    except BaseException:
        # of a file nothing is left that is of no use
        if file is not None and (is_ended or not holds_parts(folder)):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    code = end(result.counts)
    if file is None:
        merging = "" if command.shard else "; unmask merge makes one file of them"
        texts = f"{result.counts['texts']:,} texts are in {quoted(command.output, limit=200)}"
        command.note(texts + merging)
    if result.errors:
        options.say(result.failures())
        return code or 1
    if file is not None:
        with held(folder, job.shard):
            remove_unfinished(Path(file).parent, Path(file).name)
            merge(folder, Path(file), format)
            shutil.rmtree(folder)
    return code


def _check_any(kind: "Kind", counts: "Counts") -> None:
    """Raise where there is not one number; a shard may have no texts."""
    from unmask.jobs.kinds import worst

    if kind.must_answer and counts["texts"] and not counts["answers"]:
        texts = f"{kind.noun}s ({counts['texts']})"
        raise UnmaskError(f"none of the {texts} can be {kind.verb}: {worst(counts)[1]}")


def concluded(command: RowsCommand, kind: "Kind", counts: "Counts") -> int:
    """Say how many rows have an answer, and why others have none; the exit code."""
    from unmask.jobs.kinds import worst

    texts, (bad, example) = counts["texts"], worst(counts)
    if bad or not command.quiet:
        others = f"; the others have a reason instead, e.g.: {example}" if bad else ""
        options.say(f"{texts - bad:,} of {texts:,} {kind.noun}s {kind.verb}{others}")
    # a shard may have none at all
    return 2 if texts and bad == texts else 0
