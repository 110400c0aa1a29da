"""What `score`, `fill` and `pairs` do with many texts: a file that grows, or a folder of parts."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from unmask.cli import cluster, options
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.inputs import Unit
    from unmask.jobs.kinds import Kind, Row
    from unmask.jobs.plan import JobPlan
    from unmask.jobs.running import Job
    from unmask.jobs.single_file import Layout
    from unmask.jobs.tally import Tally
    from unmask.jobs.work import Answered, InMemoryUnit
    from unmask.language_model import LanguageModel

    AnyUnit = TypeVar("AnyUnit", Unit, InMemoryUnit, Unit | InMemoryUnit)

# called with the model and what it is run on for the first rows
Announce = Callable[["LanguageModel", Sequence[Any]], None]

FOLDER_HELP = (
    "FOLDER/, with a slash at its end, or a URL (s3://, gs://), is a folder of Parquet files, one "
    "per --texts-per-unit texts: for inputs of any size, several processes and clusters"
)


def add_arguments(parser: argparse.ArgumentParser, texts_per_unit: int) -> None:
    """The options of a folder of parts."""
    group = parser.add_argument_group("folder of parts")
    group.add_argument(
        "--texts-per-unit",
        type=int,
        metavar="N",
        help="texts per part, which is what a killed worker loses at most (default: "
        f"{texts_per_unit})",
    )
    group.add_argument(
        "--shard",
        metavar="I/N",
        help="do every N-th part from the I-th on, counting from 0, so that N processes can share "
        "one folder (default: all parts)",
    )
    parser.set_defaults(default_texts_per_unit=texts_per_unit, dry_run=False)
    cluster.add_arguments(parser)


def wants_folder(chosen: argparse.Namespace) -> bool:
    """Whether the output is a folder of parts; options of a folder need one."""
    from unmask.jobs.places import is_url

    output = chosen.output or ""
    if output.endswith(("/", os.sep)) or is_url(output) or (output and os.path.isdir(output)):
        cluster.check(chosen)
        return True
    for name in ("ray", "shard", "texts_per_unit", "workers", "cpus_per_worker", "patience"):
        if getattr(chosen, name) is not None:
            raise UnmaskError(
                f"--{name.replace('_', '-')} is for a folder of parts; give --output FOLDER/, with "
                "a slash at its end"
            )
    return False


def are_many(files: Sequence[str], format: str | None = None) -> bool:
    """Whether an input is more than one file of lines on this machine."""
    from unmask.jobs.places import is_pattern, is_url

    return (
        format == "parquet"
        or len(files) != 1
        or any(
            is_url(one) or is_pattern(one) or os.path.isdir(one) or one.lower().endswith(".parquet")
            for one in files
        )
    )


def check_header(files: Sequence[str], format: str | None, columns: Sequence[str]) -> None:
    """Reject a table without a column at once: importing torch takes seconds."""
    from unmask.jobs import inputs
    from unmask.sequences.inputs import can_be_read_again

    if len(files) == 1 and can_be_read_again(files[0]):
        inputs.check_header(os.path.expanduser(files[0]), format, columns)


# --- a folder ----------------------------------------------------------------------------------


def run_folder(
    chosen: argparse.Namespace,
    kind: "Kind",
    files: Sequence[str],
    format: str | None,
    conclude: "Callable[[Tally], int]",
    check: "Callable[[Job], object]" = lambda _: None,
    announce: "Callable[[Job], Announce] | None" = None,
) -> int:
    """Do what the folder lacks; `conclude` prints what came of it, and has the exit code.

    `check` rejects an input before the model is loaded. What `announce` makes of a job is called
    before the first unit runs in this process; a cluster has other speeds.
    """
    from unmask.jobs.executors.local import LocalExecutor
    from unmask.jobs.inputs import parquet_library
    from unmask.jobs.running import open_job, run_job
    from unmask.jobs.shards import Shard

    # what parts are written with: better missing now than after the model is loaded
    parquet_library()
    shard = Shard() if chosen.shard is None else Shard.parse(chosen.shard)
    _check_files(files)
    options.check_no_run("--output", chosen.output)
    source = options.model_source(chosen)
    # first: whether there is a cluster is known at once, reading an input takes time
    joined = nullcontext() if chosen.dry_run else cluster.executor(chosen, source)
    with cluster.leaving_in_order(), joined as remote:
        size = chosen.texts_per_unit
        size = chosen.default_texts_per_unit if size is None else size
        job = open_job(kind, files, format=format, texts_per_unit=size)
        check(job)
        # with a cluster this process only plans, and needs no GPU
        lm = (source if remote is None else replace(source, device="cpu")).load()
        name = options.model_name(chosen.model)
        told = None if announce is None else partial(after_announcing, announce(job), kind, lm)
        if chosen.dry_run and told is not None:
            units: Iterable[Unit | InMemoryUnit] = job.source.units()
            told(units)
            return 0
        outcome = run_job(
            job,
            job.plan(lm, name=name, dtype=chosen.dtype),
            whole_path(chosen.output),
            remote or LocalExecutor(lm),
            shard=shard,
            progress=False if chosen.quiet else None,
            say=options.say,
            look_at=None if remote is not None or chosen.quiet else told,
        )
    code = conclude(outcome.tally)
    if not chosen.quiet:
        merging = "" if shard.count > 1 else "; unmask merge makes one file of them"
        texts = f"{outcome.tally.texts:,} texts are in {quoted(chosen.output, limit=200)}"
        print(texts + merging, file=sys.stderr)
    if outcome.failed:
        options.say(outcome.failures())
    return 1 if outcome.failed and code == 0 else code


def _check_files(files: Sequence[str]) -> None:
    if not files or "-" in files:
        raise UnmaskError(
            "a folder of parts is made from files, which can be read again; give a FILE"
        )


def whole_path(folder: str) -> str:
    """Workers of a cluster have another working directory."""
    from unmask.jobs.places import is_url

    return folder if is_url(folder) else os.path.abspath(os.path.expanduser(folder))


# --- one file ----------------------------------------------------------------------------------


class Source(NamedTuple):
    """Units in the order of the input, from one on; and what is known of them beforehand.

    `identity` is what the input is recognised by, None if it cannot be read again. Unless `ahead`,
    no unit is read before the rows of the one before it are written.
    """

    units: "Callable[[int], Iterable[Unit | InMemoryUnit]]"
    texts: int | None
    identity: list[list[object]] | None
    texts_per_unit: int
    ahead: bool = True

    @classmethod
    def of_job(cls, job: "Job") -> "Source":
        """The files of a job."""
        files = job.source
        return cls(
            lambda start: islice(files.units(), start, None),
            files.texts,
            files.to_dict(),
            job.texts_per_unit,
        )

    def plan(
        self, chosen: argparse.Namespace, kind: "Kind", lm: "LanguageModel"
    ) -> "JobPlan | None":
        """The plan of a job into one file."""
        from unmask.jobs.identify import identify
        from unmask.jobs.plan import JobPlan

        if self.identity is None:
            return None
        return JobPlan(
            kind=kind.name,
            options=kind.options(),
            model=identify(lm, name=options.model_name(chosen.model), dtype=chosen.dtype),
            input=self.identity,
            texts_per_unit=self.texts_per_unit,
        )


def in_units(rows: "Iterable[Row]", size: int) -> "Callable[[int], Iterator[InMemoryUnit]]":
    """Rows that are read one after the other, from a unit on."""
    from unmask.jobs.work import InMemoryUnit

    def units(start: int) -> "Iterator[InMemoryUnit]":
        source = islice(rows, start * size, None)
        for number in count(start):
            if not (some := list(islice(source, size))):
                return
            yield InMemoryUnit(number, some)

    return units


def run_file(
    chosen: argparse.Namespace,
    kind: "Kind",
    source: Source,
    lm: "LanguageModel",
    layout: "Layout",
    announce: "Announce | None" = None,
) -> "Tally":
    """Write rows as they are made, to a file or stdout; go on with what another run has left."""
    from unmask.jobs.single_file import RowWriter, growing

    if chosen.output is None:
        return follow(chosen, kind, source, lm, RowWriter(sys.stdout, layout), announce)
    with growing(chosen.output, layout, source.plan(chosen, kind, lm)) as writer:
        if writer.units and not chosen.quiet:
            options.say(f"continuing after the first {writer.tally.texts:,} texts")
        found = follow(chosen, kind, source, lm, writer, announce)
        check_any(kind, found)
        return found


def check_any(kind: "Kind", tally: "Tally") -> None:
    """Raise where there is not one number; an output that was begun is not left behind."""
    # a shard may have no texts
    if tally.texts and tally.has_none(getattr(kind, "methods", ())):
        raise UnmaskError(kind.all_failed_message(tally))


def after_announcing(
    announce: "Announce", kind: "Kind", lm: "LanguageModel", units: "Iterable[AnyUnit]"
) -> "Iterable[AnyUnit]":
    """The same units, after a look at the first: what it costs is announced before it runs."""
    from unmask.jobs.work import batch_of

    rest = iter(units)
    for first in islice(rest, 1):
        # an input that cannot be read says so when it is its turn
        with suppress(UnmaskError):
            announce(lm, kind.read(lm, batch_of(first, kind).rows))
        return chain([first], rest)
    return rest


def follow(
    chosen: argparse.Namespace,
    kind: "Kind",
    source: Source,
    lm: "LanguageModel",
    store: "Counted",
    announce: "Announce | None" = None,
) -> "Tally":
    """Units in their order, with a bar."""
    from unmask.jobs.executors.local import LocalExecutor
    from unmask.jobs.tally import Tally
    from unmask.jobs.work import Work
    from unmask.progress import bar

    task, tally = Work(kind, store).task(ahead=source.ahead), Tally()
    tally.add(store.tally)
    few = source.texts is not None and source.texts <= source.texts_per_unit
    shown = False if chosen.quiet or few else None
    with ExitStack() as stack:
        counted = bar("texts", unit="text", total=source.texts, shown=shown)
        stack.enter_context(counted)
        counted.update(tally.texts)
        units = source.units(store.units)
        if announce is not None:
            units = after_announcing(announce, kind, lm, units)
        outcomes = LocalExecutor(lm).run(task, units)
        for done in stack.enter_context(closing(outcomes)):
            if done.error is not None:
                # one file is all rows or not there
                raise UnmaskError(done.error)
            tally.add(done.tally)
            counted.update(done.tally.texts)
    return tally


class Counted(Protocol):
    """A store that knows how far it is."""

    @property
    def units(self) -> int: ...
    @property
    def tally(self) -> "Tally": ...
    def write(self, number: int, answered: "Answered") -> None:
        """The rows of the next unit."""
