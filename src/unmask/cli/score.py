"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

from unmask.cli import options, score_notes, score_options
from unmask.cli.score_options import Task
from unmask.cli.score_output import check_names, row_writer
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.sequences.inputs import Item
    from unmask.sequences.minimal_pairs import Verdict
    from unmask.sequences.outputs import Row
    from unmask.sequences.scores import LogRatio, TextScore, Unscored

SUMMARY = "score whole texts, their words, or minimal pairs"
DESCRIPTION = (
    "Score every text of FILE, or compare the two texts of every pair. Methods: pll "
    "(pseudo-log-likelihood), pll-word-l2r (the same, with the rest of a word masked too), "
    "unmasking (a log-probability, of the text among all with equally many tokens), and for pairs "
    "hcb-path (the log-ratio of the two, along the tokens that differ). All columns of the input "
    "are kept in the output. In CSV and TSV, control characters are escaped, and a text that a "
    "spreadsheet would read as a formula gets a leading quotation mark; JSON lines hold texts "
    "unchanged. Texts that cannot be scored and pairs that cannot be compared have a reason "
    "instead of a number. The exit code is 2 on bad input, and if there is not a single number."
)
EXAMPLE = 'unmask score -m bert-base-cased --text "The cats sleep." --text "The cats sleeps."'
# texts that are scored and written together: an interruption loses no more
TEXTS_AT_ONCE = 2048

add_arguments = score_options.add_arguments


def run(chosen: argparse.Namespace) -> int:
    """Read everything that can be rejected, load the model, then score and write part by part."""
    task = score_options.checked(chosen)
    items = _items(chosen, task)
    columns, count = _columns(items, chosen, task)
    scorer = Scorer(chosen, task, options.load_model(chosen))
    rows = _score(chosen, islice(items, count), scorer, columns, count)
    _print(chosen, rows, scorer)
    return 0


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


def _columns(
    items: "Iterable[Item]", chosen: argparse.Namespace, task: Task
) -> tuple[list[str], int]:
    """The names of all columns of the input, and how many rows it has."""
    count, theirs = 0, dict[str, None]()
    for item in items:
        count += 1
        theirs.update(dict.fromkeys(item.columns))
    check_names(theirs, task.own_columns)
    for name in chosen.by or ():
        if name not in theirs:
            raise UnmaskError(f"--by {quoted(name)}: the input has no such column")
    return list(theirs), count


class Scorer:
    """Texts or pairs in, result rows out, some at a time; counts what is said of all of them."""

    def __init__(self, chosen: argparse.Namespace, task: Task, lm: "LanguageModel") -> None:
        self.task, self._chosen, self._lm = task, chosen, lm
        self._settings = options.settings(chosen, progress=False if chosen.quiet else None)
        self._about = {
            "unit": task.unit,
            "model": chosen.model_name or options.model_name(chosen.model),
        }
        self.left_out = task.text_columns if chosen.no_text else []
        self.count = 0
        # why a method has no number, by how often
        self.reasons: dict[str, Counter[str]] = {method: Counter() for method in task.methods}
        self._verdicts: dict[str, list[Verdict]] = {method: [] for method in task.methods}

    def rows(self, items: "list[Item]") -> "list[Row]":
        """What came in, with what was found beside it: one row per item, method and word."""
        self.count += len(items)
        found = {method: self._scored(items, method) for method in self.task.methods}
        for method, scores in found.items():
            reasons = (getattr(one, "reason", None) for one in scores)
            self.reasons[method].update(reason for reason in reasons if reason is not None)
            if self.task.is_pairs:
                self._verdicts[method] += [
                    score_notes.verdict(item, score, self.task.groups)
                    for item, score in zip(items, scores, strict=True)
                ]
        return [
            row
            for place, item in enumerate(items)
            for method in self.task.methods
            for row in self._item_rows(item, method, found[method][place])
        ]

    def _scored(self, items: "list[Item]", method: str) -> "list[Any]":
        from unmask.sequences import scoring

        how: dict[str, Any] = {"method": method, "settings": self._settings}
        if method == "unmasking":
            how["order"] = self.task.order
        if not self.task.is_pairs:
            return scoring.score_valid_texts(self._lm, [item.texts[0] for item in items], **how)
        how |= self.task.orders
        return scoring.compare_valid_pairs(self._lm, [item.pair for item in items], **how)

    def _item_rows(
        self, item: "Item", method: str, score: "TextScore | Unscored | LogRatio"
    ) -> "Iterator[Row]":
        from unmask.sequences.outputs import BITS, result_rows

        unit = BITS if self._chosen.base_two else 1.0
        kept = {name: item.columns[name] for name in item.columns if name not in self.left_out}
        for numbers in result_rows(score, words=self._chosen.words, unit=unit):
            order = self.task.order if method == "unmasking" else None
            named = {"method": method, "order": order, **numbers, **self._about}
            own = {self._chosen.prefix + name: value for name, value in named.items()}
            yield kept | {name: own[name] for name in self.task.own_columns}

    def has_none(self) -> bool:
        """Whether there is not one number so far."""
        return all(found.total() == self.count for found in self.reasons.values())

    def check(self) -> None:
        """Raise where there is not one number."""
        if self.has_none():
            what = f"texts ({self.count}) can be scored"
            if self.task.is_pairs:
                what = f"pairs ({self.count}) can be compared by {', '.join(self.task.methods)}"
            why = next(iter(self.reasons[self.task.methods[0]]))
            raise UnmaskError(f"none of the {what}: {why}")

    def summary(self) -> str:
        """How often the first text of a pair wins."""
        if not self.task.is_pairs:
            return ""
        return score_notes.summary(self.task.groups, self._verdicts)


def _score(
    chosen: argparse.Namespace,
    items: "Iterator[Item]",
    scorer: Scorer,
    columns: list[str],
    count: int,
) -> "list[Row]":
    """Score and write part by part; return the rows that are for a table."""
    from unmask.progress import bar

    format = scorer.task.format
    names = [name for name in columns if name not in scorer.left_out] + scorer.task.own_columns
    kept: list[Row] = []
    shown = False if chosen.quiet or count <= TEXTS_AT_ONCE else None
    with ExitStack() as stack:
        writer = format and stack.enter_context(row_writer(chosen.output, names, format))
        counted = stack.enter_context(bar("texts", unit="text", total=count, shown=shown))
        texts = 0
        while part := list(islice(items, TEXTS_AT_ONCE)):
            rows = scorer.rows(part)
            # BLiMP has too many rows for a table
            kept += rows if writer or chosen.blimp is None else []
            texts += len(part)
            # a run without one number leaves nothing behind it
            if writer and not scorer.has_none():
                writer.write(kept, texts)
                kept, texts = [], 0
            counted.update(len(part))
        scorer.check()
    return kept


def _print(chosen: argparse.Namespace, rows: "list[Row]", scorer: Scorer) -> None:
    """The summary goes to stdout, unless rows for programs do; notes go below a table."""
    task, summary, notes = scorer.task, scorer.summary(), list[str]()
    if not chosen.quiet:
        notes += score_notes.notes(scorer.reasons, scorer.count, task)
    if task.format is None:
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
