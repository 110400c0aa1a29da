"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import options, score_notes, score_options
from unmask.cli.score_output import row_writer
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
    "(pseudo-log-likelihood), pll-word-l2r (the same with the rest of a word masked too), and for "
    "pairs hcb-path (log-ratio of the two along the tokens that differ). All columns of the input "
    "stay in the output. In CSV and TSV control characters are escaped and a text that a "
    "spreadsheet would take for a formula stands behind a quotation mark; JSON lines hold texts as "
    "they were. Pairs that cannot be compared have a reason instead of a number; exit code 2 where "
    "that is all of them, or on bad input."
)


# texts that are scored and written together: an interruption loses no more
TEXTS_AT_ONCE = 2048
EXAMPLE = 'unmask score -m bert-base-cased --text "The cats sleep." --text "The cats sleeps."'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    score_options.add_arguments(parser)


def run(chosen: argparse.Namespace) -> int:
    """Read everything that can be rejected, load the model, then score and write part by part."""
    score_options.check(chosen)
    items = _items(chosen)
    columns, count = _columns(items, chosen)
    scorer = Scorer(chosen, options.load_model(chosen))
    shown = _score(chosen, islice(items, count), scorer, columns, count)
    _say(chosen, shown, scorer)
    return 0


def _items(chosen: argparse.Namespace) -> "Iterable[Item]":
    """What is scored; the rows of a file are read again each time, so that none is kept."""
    from unmask.sequences.blimp import read_blimp
    from unmask.sequences.inputs import ItemFile, can_be_read_again, given_texts, read_items

    if chosen.blimp is not None:
        return read_blimp(chosen.blimp, paradigms=chosen.paradigm or (), limit=chosen.limit)
    if chosen.text is not None:
        return given_texts(chosen.text)[: chosen.limit]
    columns = score_options.named_columns(chosen)
    read = ItemFile if can_be_read_again(chosen.file) else read_items
    return read(chosen.file, columns, format=chosen.format, limit=chosen.limit)


def _columns(items: "Iterable[Item]", chosen: argparse.Namespace) -> tuple[list[str], int]:
    """The names of all columns of the input, and how many rows it has."""
    count, theirs = 0, dict[str, None]()
    for item in items:
        count += 1
        theirs.update(dict.fromkeys(item.columns))
    for name in _own_columns(chosen):
        if name in theirs:
            raise UnmaskError(
                f"the input has a column {quoted(name)}, and so has the output; rename it, or give "
                "--prefix NAME for what new columns begin with"
            )
    for name in chosen.by or ():
        if name not in theirs:
            raise UnmaskError(f"--by {quoted(name)}: the input has no such column")
    return list(theirs), count


def _own_columns(chosen: argparse.Namespace) -> list[str]:
    from unmask.sequences.outputs import PAIR_COLUMNS, TEXT_COLUMNS, WORD_COLUMNS

    kind = PAIR_COLUMNS if score_options.is_pairs(chosen) else TEXT_COLUMNS
    *numbers, reason = WORD_COLUMNS if chosen.words else kind
    return [chosen.prefix + name for name in ("method", *numbers, "unit", "model", reason)]


class Scorer:
    """Texts or pairs in, result rows out, some at a time; counts what is said of all of them."""

    def __init__(self, chosen: argparse.Namespace, lm: "LanguageModel") -> None:
        self._chosen, self._lm = chosen, lm
        self._pairs = score_options.is_pairs(chosen)
        self._settings = options.settings(chosen, progress=False if chosen.quiet else None)
        self._columns = _own_columns(chosen)
        self._left_out = score_options.text_columns(chosen) if chosen.no_text else ()
        model = chosen.model_name or _model_name(chosen.model)
        self._about = {"unit": _unit(chosen), "model": model}
        self.methods = score_options.methods(chosen)
        self.tallies = {method: score_notes.Tally() for method in self.methods}
        self._verdicts: dict[str, list[Verdict]] = {method: [] for method in self.methods}

    def rows(self, items: "list[Item]") -> "list[Row]":
        """What came in, with what was found beside it: one row per item, method and word."""
        found = {method: self._scored(items, method) for method in self.methods}
        for method, scores in found.items():
            self.tallies[method].add(getattr(one, "reason", None) for one in scores)
            if self._pairs:
                self._verdicts[method] += score_notes.verdicts(self._chosen, items, scores)
        return [
            row
            for place, item in enumerate(items)
            for method in self.methods
            for row in self._item_rows(item, method, found[method][place])
        ]

    def _scored(self, items: "list[Item]", method: str) -> "list[Any]":
        from unmask.sequences.screening import compare_valid_pairs, score_valid_texts

        how: dict[str, Any] = {"method": method, "settings": self._settings}
        if not self._pairs:
            return score_valid_texts(self._lm, [item.texts[0] for item in items], **how)
        how |= score_options.orders(self._chosen)
        return compare_valid_pairs(self._lm, [item.pair for item in items], **how)

    def _item_rows(
        self, item: "Item", method: str, score: "TextScore | Unscored | LogRatio"
    ) -> "Iterator[Row]":
        from unmask.sequences.outputs import BITS, result_rows

        unit = BITS if self._chosen.base_two else 1.0
        kept = {name: item.columns[name] for name in item.columns if name not in self._left_out}
        for numbers in result_rows(score, words=self._chosen.words, unit=unit):
            named = {"method": method, **numbers, **self._about}
            own = {self._chosen.prefix + name: value for name, value in named.items()}
            yield kept | {name: own[name] for name in self._columns}

    def check(self) -> None:
        """Raise where there is not one number."""
        if not all(one.has_none for one in self.tallies.values()):
            return
        first = next(iter(self.tallies.values()))
        what = f"texts ({first.total}) can be scored"
        if self._pairs:
            what = f"pairs ({first.total}) can be compared by {', '.join(self.methods)}"
        raise UnmaskError(f"none of the {what}: {next(iter(first.reasons))}")

    def notes(self) -> list[str]:
        """What the numbers are, and how many are missing."""
        said = score_notes.pair_notes if self._pairs else score_notes.text_notes
        return list(said(self.tallies, _unit(self._chosen)))

    def summary(self) -> str:
        """How often the first text of a pair wins."""
        return score_notes.summary(self._chosen, self._verdicts) if self._pairs else ""


def _score(
    chosen: argparse.Namespace,
    items: "Iterator[Item]",
    scorer: Scorer,
    columns: list[str],
    count: int,
) -> "list[Row]":
    """Score and write part by part; return the rows that are for a table."""
    from unmask.progress import bar

    format, own = score_options.output_format(chosen), _own_columns(chosen)
    left_out = score_options.text_columns(chosen) if chosen.no_text else ()
    names = [*(name for name in columns if name not in left_out), *own]
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
            if writer and not all(one.has_none for one in scorer.tallies.values()):
                writer.write(kept, texts)
                kept, texts = [], 0
            counted.update(len(part))
        scorer.check()
    return kept


def _unit(chosen: argparse.Namespace) -> str:
    return "bits" if chosen.base_two else "nats"


def _model_name(place: str) -> str:
    """A hub name as it is; of a folder the last part, since the rest is of one machine alone."""
    folder = os.path.expanduser(place)
    return Path(folder).resolve().name if os.path.isdir(folder) else place


def _say(chosen: argparse.Namespace, rows: "list[Row]", scorer: Scorer) -> None:
    """The summary goes to stdout, unless rows for programs do; notes go below a table."""
    summary, notes = scorer.summary(), [] if chosen.quiet else scorer.notes()
    if score_options.output_format(chosen) is None:
        parts = [_table(chosen, rows), summary, "\n".join(notes)]
        print("\n\n".join(part for part in parts if part))
        return
    if chosen.output is not None:
        print(summary, end="\n" if summary else "")
    elif summary and not chosen.quiet:
        notes = [summary, "", *notes]
    for line in notes:
        print(line, file=sys.stderr)


def _table(chosen: argparse.Namespace, rows: "list[Row]") -> str:
    from unmask.sequences.outputs import table

    if chosen.blimp is not None:
        return ""
    hidden = {chosen.prefix + name for name in ("unit", "model")}
    if not any(row.get(f"{chosen.prefix}unknown_tokens") for row in rows):
        hidden.add(f"{chosen.prefix}unknown_tokens")
    own = [name for name in _own_columns(chosen) if name not in hidden]
    if len(score_options.methods(chosen)) == 1:
        own.remove(f"{chosen.prefix}method")
    texts = score_options.text_columns(chosen)
    if chosen.words and len({row[texts[0]] for row in rows}) == 1:
        texts = []
    return table(rows, [*([] if chosen.no_text else texts), *own])
