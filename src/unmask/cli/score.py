"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unmask.cli import many, options, score_notes, score_options
from unmask.cli.score_options import Task
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds.score import Score
    from unmask.jobs.tally import Tally
    from unmask.jobs.work import Answered
    from unmask.sequences.inputs import Item
    from unmask.sequences.outputs import Row

SUMMARY = "score whole texts, their words, or minimal pairs"
DESCRIPTION = (
    "Score every text of FILE, or compare the two texts of every pair. Methods: pll "
    "(pseudo-log-likelihood), pll-word-l2r (the same, with the rest of a word masked too), "
    "unmasking (a log-probability, of the text among all with equally many tokens), and for pairs "
    "hcb-path (the log-ratio of the two, along the tokens that differ). All columns of the input "
    "are kept in the output. In CSV and TSV, control characters are escaped, and a text that a "
    "spreadsheet would read as a formula gets a leading apostrophe; JSON lines hold texts "
    "unchanged. Texts that cannot be scored and pairs that cannot be compared have a reason "
    "instead of a number. The exit code is 2 on bad input, and if there is not a single number."
)
EXAMPLE = 'unmask score -m bert-base-cased --text "The cats sleep." --text "The cats sleeps."'
# texts that are scored and written together: an interruption loses no more
TEXTS_AT_ONCE = 2048
# in a part of a folder
_TEXTS_PER_UNIT = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    score_options.add_arguments(parser)
    many.add_arguments(parser, _TEXTS_PER_UNIT)


def run(chosen: argparse.Namespace) -> int:
    """Read everything that can be rejected, load the model, then score and write part by part."""
    many.check_header(chosen.files, chosen.format, score_options.named_columns(chosen))
    from unmask.jobs.single_file import Layout

    to_folder = many.wants_folder(chosen)
    task = score_options.checked(chosen, to_folder=to_folder)
    kind = _kind(chosen, task)
    if to_folder:

        def conclude(tally: "Tally") -> int:
            _print(chosen, kind, tally, task, [])
            many.check_any(kind, tally)
            return 0

        quiet = replace(kind, settings=replace(kind.settings, progress=False))
        return many.run_folder(chosen, quiet, chosen.files, chosen.format, conclude)
    names, source = _source(chosen, kind, task)
    lm = options.load_model(chosen)
    if task.format is None:
        table = _Table(keep=chosen.blimp is None)
        tally = many.follow(chosen, kind, source, lm, table)
        many.check_any(kind, tally)
        _print(chosen, kind, tally, task, table.rows)
        return 0
    kept = [name for name in names if name not in kind.dropped_columns]
    layout = Layout([*kept, *kind.output_columns], task.format, kind.dropped_columns, kind.methods)
    tally = many.run_file(chosen, kind, source, lm, layout)
    many.check_any(kind, tally)
    _print(chosen, kind, tally, task, [])
    return 0


def _kind(chosen: argparse.Namespace, task: Task) -> "Score":
    from unmask.jobs.kinds.score import Score

    return Score(
        columns=tuple(task.text_columns),
        methods=tuple(task.methods),
        model_name=chosen.model_name or options.model_name(chosen.model),
        order=task.order,
        **task.orders,
        words=chosen.words,
        base_two=chosen.base_two,
        without_text=chosen.no_text,
        prefix=chosen.prefix,
        groups=tuple(task.groups),
        settings=options.settings(chosen, progress=False if chosen.quiet else None),
    )


def _source(chosen: argparse.Namespace, kind: "Score", task: Task) -> tuple[list[str], many.Source]:
    """The names of all columns, and the rows; a file of this machine is read whole beforehand."""
    from unmask.jobs.running import open_job

    if chosen.file is None and chosen.files:
        _reject_limit(chosen)
        job = open_job(kind, chosen.files, format=chosen.format, texts_per_unit=TEXTS_AT_ONCE)
        return list(job.columns), many.Source.of_job(job)
    items = _items(chosen, task)
    names, count, digest = _columns(items, chosen, kind)
    rows = _Rows(items, count)
    units = many.in_units(rows, TEXTS_AT_ONCE)
    return names, many.Source(units, count, [["rows", count, digest]], TEXTS_AT_ONCE)


def _reject_limit(chosen: argparse.Namespace) -> None:
    if chosen.limit is not None:
        raise UnmaskError("--limit is for one file of lines; leave it out")


def _items(chosen: argparse.Namespace, task: Task) -> "Iterable[Item]":
    """What is scored; the rows of a file are read again each time, so that none is kept."""
    from unmask.sequences.blimp import read_blimp
    from unmask.sequences.inputs import ItemFile, can_be_read_again, given_texts

    if chosen.blimp is not None:
        return read_blimp(chosen.blimp, paradigms=chosen.paradigm or (), limit=chosen.limit)
    if chosen.text is not None:
        return given_texts(chosen.text)[: chosen.limit]
    found = ItemFile(chosen.file, task.columns, chosen.format, chosen.limit)
    return found if can_be_read_again(chosen.file) else list(found)


class _Rows:
    """The columns of items, so many and each time anew."""

    def __init__(self, items: "Iterable[Item]", count: int) -> None:
        self._items, self._count = items, count

    def __iter__(self) -> "Iterator[Any]":
        """Each in turn; those that a file has got meanwhile are left out."""
        for _, item in zip(range(self._count), self._items, strict=False):
            yield item.columns


def _columns(
    items: "Iterable[Item]", chosen: argparse.Namespace, kind: "Score"
) -> tuple[list[str], int, str]:
    """The names of all columns of the input, how many rows it has, and a hash of them."""
    from unmask.jobs.running import check_names

    count, theirs, total = 0, dict[str, None](), hashlib.sha256()
    for item in items:
        count += 1
        theirs.update(dict.fromkeys(item.columns))
        total.update(json.dumps(list(item.columns.items())).encode() + b"\n")
    check_names(theirs, kind.output_columns)
    for name in chosen.by or ():
        if name not in theirs:
            raise UnmaskError(f"--by {quoted(name)}: the input has no such column")
    return list(theirs), count, total.hexdigest()


class _Table:
    """Rows that are kept for a table to be read; those of BLiMP are too many."""

    def __init__(self, *, keep: bool) -> None:
        from unmask.jobs.tally import Tally

        self._keep, self.units, self.tally = keep, 0, Tally()
        self.rows: list[Row] = []

    def write(self, number: int, answered: "Answered") -> None:
        """The rows of the next unit."""
        from unmask.jobs.single_file import rows_of

        self.rows += rows_of(answered) if self._keep else []


def _print(
    chosen: argparse.Namespace, kind: "Score", tally: "Tally", task: Task, rows: "list[Row]"
) -> None:
    """The summary goes to stdout, unless rows for programs do; notes go below a table."""
    summary, notes = score_notes.summary(kind, tally), list[str]()
    if not chosen.quiet:
        notes += score_notes.notes(kind, tally)
    if task.format is None and chosen.output is None:
        parts = [_table(chosen, task, rows), summary, "\n".join(notes)]
        print("\n\n".join(part for part in parts if part))
        return
    if chosen.output is not None:
        print(summary, end="\n" if summary else "")
    elif summary and not chosen.quiet:
        notes = [summary, "", *notes]
    for line in notes:
        print(line, file=sys.stderr)


def _table(chosen: argparse.Namespace, task: Task, rows: "list[Row]") -> str:
    from unmask.sequences.outputs import table

    if chosen.blimp is not None:
        return ""
    hidden = ["unit", "model", "order", *(["method"] if len(task.methods) == 1 else [])]
    if not any(row.get(f"{chosen.prefix}unknown_tokens") for row in rows):
        hidden.append("unknown_tokens")
    left_out = {chosen.prefix + name for name in hidden}
    texts = [] if chosen.no_text else task.text_columns
    if chosen.words and len({row[task.text_columns[0]] for row in rows}) == 1:
        texts = []
    return table(rows, [*texts, *(name for name in task.own_columns if name not in left_out)])
