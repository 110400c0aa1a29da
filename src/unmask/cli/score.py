"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from unmask.cli import many, options, score_notes, score_options
from unmask.cli.score_options import Task
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds.score import Score
    from unmask.jobs.running import Job
    from unmask.jobs.tally import Tally
    from unmask.jobs.work import UnitRows
    from unmask.records.rows import Record, Row

SUMMARY = "score whole texts, their words, or minimal pairs"
DESCRIPTION = (
    "Score every text of FILE, or compare the two texts of every pair. Methods: pll "
    "(pseudo-log-likelihood), pll-word-l2r (the same, with the rest of a word masked too), "
    "unmasking (a log-probability, of the text among all with equally many tokens), and for pairs "
    "hcb-path (the log-ratio of the two, along the tokens that differ). All columns of the input "
    "are kept in the output. In CSV and TSV, control characters are escaped, and a text that a "
    "spreadsheet would read as a formula stands behind '\\; JSON lines and Parquet hold texts "
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
    files = many.GivenRows(chosen.files, chosen.format, chosen.limit, piped_format="txt", hold=True)
    files.check_header(score_options.named_columns(chosen))
    task = score_options.checked(chosen)
    kind, table = _kind(chosen, task), _Table(keep=chosen.blimp is None)
    given = replace(files, records=_records(chosen))
    is_table = chosen.output in (None, "-") and not (task.format or chosen.output_format)

    def conclude(tally: "Tally") -> int:
        _print(chosen, kind, tally, task, table.rows, is_table=is_table)
        many.check_any(kind, tally)
        return 0

    return many.rows_command(
        chosen,
        kind,
        given,
        at_once=TEXTS_AT_ONCE,
        default_format=task.format,
        table=table,
        check=lambda job: _check_groups(chosen, job),
        conclude=conclude,
    )


def _records(chosen: argparse.Namespace) -> "list[Record] | None":
    """What is scored instead of files."""
    from unmask.records.rows import TEXT_COLUMN, Record
    from unmask.sequences.blimp import read_blimp

    if chosen.blimp is not None:
        items = read_blimp(chosen.blimp, paradigms=chosen.paradigm or (), limit=chosen.limit)
        return [Record(item.columns) for item in items]
    if chosen.text is not None:
        return [Record({TEXT_COLUMN: text}) for text in chosen.text[: chosen.limit]]
    return None


def _check_groups(chosen: argparse.Namespace, job: "Job") -> None:
    for name in chosen.by or ():
        if name not in job.columns:
            raise UnmaskError(f"--by {quoted(name)}: the input has no such column")


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


class _Table:
    """Rows that are kept for a table to be read; those of BLiMP are too many."""

    def __init__(self, *, keep: bool) -> None:
        from unmask.jobs.tally import Tally

        self._keep, self.units, self.tally = keep, 0, Tally()
        self.rows: list[Row] = []

    def write(self, number: int, rows: "UnitRows") -> None:
        """The rows of the next unit."""
        from unmask.jobs.single_file import rows_of

        self.rows += rows_of(rows) if self._keep else []


def _print(
    chosen: argparse.Namespace,
    kind: "Score",
    tally: "Tally",
    task: Task,
    rows: "list[Row]",
    *,
    is_table: bool,
) -> None:
    """The summary goes to stdout, unless rows for programs do; notes go below a table."""
    summary, notes = score_notes.summary(kind, tally), list[str]()
    if not chosen.quiet:
        notes += score_notes.notes(kind, tally)
    if is_table:
        parts = [_table(chosen, task, rows), summary, "\n".join(notes)]
        print("\n\n".join(part for part in parts if part))
        return
    if chosen.output not in (None, "-"):
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
