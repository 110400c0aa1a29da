"""Commands over many rows: the rows of files through a kind of job, into a folder or a file."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unmask.cli import cluster, options
from unmask.cli.command import group, option
from unmask.cli.inputs import Input
from unmask.durable import closed, explained, remove_unfinished
from unmask.errors import UnmaskError
from unmask.names import OUTPUT_FORMATS
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.counts import Counts
    from unmask.jobs.kinds import Kind
    from unmask.jobs.model_source import ModelSource
    from unmask.jobs.ray_workers import RayWorkers
    from unmask.jobs.running import Job
    from unmask.records.files import InputRows
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
ROWS_PER_UNIT = partial(
    option,
    "rows per part, which is what an interruption loses at most (default: as many as one core of a "
    "laptop does in some 5 seconds)",
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
        "write the rows to a file: .csv, .tsv, .jsonl or .parquet; until it is complete its parts "
        "are in FILE.parts/, and the same command continues after an interruption. FOLDER/, with a "
        "slash at its end, or a URL (s3://, gs://), keeps the parts, which are Parquet files: for "
        "inputs of any size, several processes and clusters (default: -, standard output)",
        "FILE|FOLDER/|-",
        short="-o",
    )
    output_format: str | None = options.OUTPUT_FORMAT()
    json: bool = options.JSON()
    strict: bool = options.STRICT()
    dry_run: bool = options.DRY_RUN()
    quiet: bool = options.QUIET()
    running: options.Running = group(options.Running())
    rows_per_unit: int | None = ROWS_PER_UNIT()
    shard: str | None = SHARD()
    distributed: cluster.RayOptions = group(cluster.RayOptions())


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
            raise UnmaskError(f"limit is a number of rows from 1, not {self.limit}")
        for file in self.files if len(self.files) == 1 else ():
            check_header(file, self.format, columns)

    def read(self, kind: "Kind", *, hold: bool) -> "InputRows":
        """The input, after a look at its first rows; with `hold` a pipe is read to its end."""
        from unmask.jobs.worker import clash
        from unmask.records.files import open_input, rows_in_memory

        if self.records is not None:
            given = rows_in_memory(self.records)
        else:
            given = open_input(
                self.files,
                kind.required_columns,
                format=self.format,
                limit=self.limit,
                piped_format=self.piped_format,
                hold=hold or self.hold,
            )
        if (why := clash(given.names, kind)) is not None:
            raise UnmaskError(why)
        return given


def is_folder(chosen: RowsCommand) -> bool:
    """Whether the output is a folder of parts; `--shard` needs one."""
    from unmask.records.places import is_url

    cluster.check(chosen.distributed)
    output = chosen.output or ""
    if output.endswith(("/", os.sep)) or is_url(output) or (output and os.path.isdir(output)):
        if chosen.output_format not in (None, "parquet"):
            raise UnmaskError("--output-format does not apply with a folder of parts; leave it out")
        return True
    needs = {"shard": chosen.shard}
    if output in ("", "-"):
        needs |= {"ray": chosen.distributed.ray}
    for name, value in needs.items():
        if value is not None:
            raise UnmaskError(
                f"--{name} is for a folder of parts; give --output FOLDER/, with a slash at its end"
            )
    return False


def is_one_text(chosen: RowsCommand, given: Input) -> bool:
    """Whether an answer to read is wanted, about one text: not rows."""
    if given.texts:
        options.reject(chosen, ("input_format",), "is for files, and INPUT is a text; leave it out")
    # also where options of a folder have none
    is_rows = is_folder(chosen) or chosen.output is not None or chosen.output_format is not None
    return len(given.texts) == 1 and not is_rows


def output_format(
    output: str | None, named: str | None = None, files: Sequence[str] = ()
) -> str | None:
    """The format of the rows, by option or by the name of a file, which is checked; else None."""
    if named is not None:
        options.check_choice("--output-format", named, OUTPUT_FORMATS)
    if output in (None, "-"):
        if named == "parquet":
            raise UnmaskError("Parquet is not written to stdout; give --output FILE")
        return named
    for source in files or [""]:
        options.check_file("--output", output, source=source or None)
    format = named or Path(output or "").suffix.lower().removeprefix(".")
    if format not in OUTPUT_FORMATS:
        raise UnmaskError(
            f"the name of {quoted(output, limit=150)} does not end with .csv, .jsonl, .parquet or "
            ".tsv; give --output-format, or a folder with / at its end"
        )
    return format


def whole_path(folder: str) -> str:
    """Workers of a cluster have another working directory."""
    from unmask.records.places import is_url

    return folder if is_url(folder) else os.path.abspath(os.path.expanduser(folder))


# --- from rows to rows ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RowsRun:
    """The rows of a command through a kind of job, and where they go.

    From a pipe to stdout, `at_once` of them are read together. Rows without a format are given to
    `keep`. `check` rejects an input before the model is loaded; `conclude` prints the result, and
    returns the exit code.
    """

    chosen: RowsCommand
    kind: "Kind"
    given: GivenRows
    at_once: int = 1
    default_format: str | None = "csv"
    keep: "Callable[[list[Row]], object] | None" = None
    check: "Callable[[InputRows], object]" = lambda _: None
    conclude: "Callable[[Counts], int] | None" = None

    def run(self) -> int:
        """Do what is left to do; returns the exit code."""
        chosen = self.chosen
        folder, file, format = self._output()
        source = chosen.running.source(chosen.model)
        with ExitStack() as stack:
            workers = None
            if folder is not None:
                stack.enter_context(cluster.leaving_in_order())
            if folder is not None and not chosen.dry_run:
                # first: whether there is a cluster is known at once, reading an input takes time
                workers = stack.enter_context(cluster.workers(chosen.distributed, source))
            given = self.given.read(self.kind, hold=folder is not None)
            self.check(given)
            # with a cluster this process only plans, and needs no GPU
            job = self._job(given, source if workers is None else replace(source, device="cpu"))
            if chosen.dry_run and not given.is_pipe:
                cut = job.cut(folder or "")
                job.announce([*cut.units], cut.rows, print, is_dry=True)
                return 0
            if folder is not None:
                return self._to_folder(job, folder, file, format or "", workers)
            return self._concluded(self._to_stream(job, file, format))

    def _output(self) -> tuple[str | None, str | None, str | None]:
        """The folder of parts and the file of the output, if it has one, and its format."""
        chosen, folder, file = self.chosen, None, None
        if chosen.json and (chosen.output or chosen.output_format):
            raise UnmaskError(
                "--json prints rows to stdout; leave it out, or give --output FILE.jsonl"
            )
        if is_folder(chosen):
            options.check_no_run("--output", chosen.output)
            return whole_path(chosen.output or ""), None, None
        named = output_format(chosen.output, chosen.output_format, self.given.files)
        format = named or ("jsonl" if chosen.json else self.default_format)
        if chosen.output not in (None, "-"):
            file = os.path.realpath(chosen.output)
            # a pipe or a device gets its rows at once
            folder = f"{file}.parts" if os.path.isfile(file) or not os.path.exists(file) else None
        return folder, file, format

    def _job(self, given: "InputRows", source: "ModelSource") -> "Job":
        from unmask.jobs.folder import Shard
        from unmask.jobs.running import Job

        chosen = self.chosen
        shard = Shard() if chosen.shard is None else Shard.parse(chosen.shard)
        size = self.at_once if given.is_pipe else None
        # bars within a unit would be thousands
        plain: Any = self.kind
        return Job(
            kind=replace(plain, settings=replace(plain.settings, progress=False)),
            input=given,
            lm=source.load(),
            model_name=options.model_name(chosen.model),
            dtype=chosen.running.dtype,
            rows_per_unit=size if chosen.rows_per_unit is None else chosen.rows_per_unit,
            shard=shard,
            strict=chosen.strict,
        )

    def _to_stream(self, job: "Job", place: str | None, format: str | None) -> "Counts":
        """To stdout, or to a pipe or a device, which gets its rows at once."""
        from unmask.jobs.counts import counted, has_none
        from unmask.jobs.running import stream

        source, kind, is_pipe = job.cut(), self.kind, job.input.is_pipe
        counts, held = counted(), list["Row"]()
        with _opened(place) as file:
            is_table = format not in ("jsonl", None)
            names = job.input.all_names([] if is_pipe else source.units) if is_table else []
            kept = [name for name in names if name not in kind.dropped_columns]
            rows = Lines(file, [*kept, *kind.output_columns], format or "")
            write = self.keep if format is None and self.keep is not None else rows.write
            if not (self.chosen.quiet or is_pipe):
                job.announce([*source.units], source.rows, _print_note, is_dry=False)
            for more, counts in stream(job, source, False if self.chosen.quiet else None):
                held += more
                # what has not one number is not written
                if not has_none(counts, kind.methods):
                    write(held)
                    held = []
        return counts

    def _to_folder(
        self,
        job: "Job",
        folder: str,
        file: str | None,
        format: str,
        workers: "RayWorkers | None",
    ) -> int:
        """Into a folder of parts, from which a file is merged if one is wanted."""
        from unmask.jobs.folder import held, holds_parts
        from unmask.jobs.parts import merge
        from unmask.jobs.running import run_job

        chosen, is_quiet = self.chosen, self.chosen.quiet
        try:
            result = run_job(
                job,
                folder,
                workers=workers,
                progress=False if is_quiet else None,
                say=options.say,
                announce=None if is_quiet else _print_note,
            )
        except BaseException:
            if file is not None and not holds_parts(folder):
                shutil.rmtree(folder, ignore_errors=True)
            raise
        if result.errors and not result.done:
            raise UnmaskError(result.errors[0])
        code = self._concluded(result.counts, folder if file is not None else None)
        if file is None and not is_quiet:
            merging = "" if chosen.shard else "; unmask merge makes one file of them"
            texts = f"{result.counts['texts']:,} texts are in {quoted(chosen.output, limit=200)}"
            _print_note(texts + merging)
        if result.errors:
            options.say(result.failures())
            return code or 1
        if file is not None:
            with held(folder, job.shard):
                remove_unfinished(Path(file).parent, Path(file).name)
                merge(folder, Path(file), format)
                shutil.rmtree(folder)
        return code

    def _concluded(self, counts: "Counts", parts: str | None = None) -> int:
        """Say what was done; where there is not one number raise, and leave no parts."""
        from unmask.jobs.counts import has_none

        # a shard may have no texts
        if counts["texts"] and has_none(counts, self.kind.methods):
            if parts is not None:
                shutil.rmtree(parts)
            raise UnmaskError(self.kind.all_failed_message(counts))
        return self.conclude(counts) if self.conclude else concluded(self.chosen, self.kind, counts)


def _print_note(line: str) -> None:
    print(line, file=sys.stderr)


@contextmanager
def _opened(place: str | None) -> Iterator[IO[str]]:
    """A pipe or a device to write to, or stdout; of that, whoever started the command knows."""
    if place is None:
        yield sys.stdout
        return
    path = Path(place)
    with explained(path), closed(path.open("w", encoding="utf-8", newline=""), path) as file:
        yield file


@dataclass
class Lines:
    """Rows as text in a file that is open."""

    file: IO[str]
    names: Sequence[str]
    format: str
    written: int = field(default=0)

    def write(self, rows: "Sequence[Mapping[str, Any]]") -> None:
        """Some more rows; one with a column that the header lacks is an error."""
        from unmask.records.writing import written

        columns, fits = set(self.names), len(rows)
        if self.format != "jsonl":
            fits = next((n for n, row in enumerate(rows) if not row.keys() <= columns), fits)
        text = written(rows[:fits], self.names, self.format, header=not self.written)
        self.file.write(text)
        self.file.flush()
        self.written += len(text)
        for name in (name for row in rows[fits:] for name in row if name not in columns):
            raise UnmaskError(
                f"a row has {quoted(name)}, which the first does not have; write JSON lines, or "
                "give a file instead of a pipe"
            )


def concluded(chosen: RowsCommand, kind: "Kind", counts: "Counts") -> int:
    """Say how many rows have an answer, and why others have none; the exit code."""
    from unmask.jobs.counts import worst

    texts, (bad, example) = counts["texts"], worst(counts)
    if bad or not chosen.quiet:
        others = f"; the others have a reason instead, e.g.: {example}" if bad else ""
        options.say(f"{texts - bad:,} of {texts:,} {kind.noun}s {kind.verb}{others}")
    # a shard may have none at all
    return 2 if texts and bad == texts else 0
