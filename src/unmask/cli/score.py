"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import options, score_options
from unmask.cli.score_output import row_writer
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.sequences.inputs import Item
    from unmask.sequences.lengths import LengthPrior
    from unmask.sequences.minimal_pairs import Verdict
    from unmask.sequences.outputs import Row

SUMMARY = "score whole texts, their words, or minimal pairs"
DESCRIPTION = (
    "Score every text of FILE, or compare the two texts of every pair. Methods: pll "
    "(pseudo-log-likelihood), pll-word-l2r (the same with the rest of a word masked too), log-pool "
    "(log-probability of the text given its length), and for pairs hcb-path (log-ratio of the two "
    "along the tokens that differ). All columns of the input stay in the output. In CSV and TSV "
    "control characters are escaped and a text that a spreadsheet would take for a formula stands "
    "behind a quotation mark; JSON lines hold texts as they were. Pairs that cannot be compared "
    "have a reason instead of a number; exit code 2 where that is all of them, or on bad input."
)


# what a method is run with
How = dict[str, dict[str, Any]]
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
    lm = options.load_model(chosen)
    how = _how(chosen, lm)
    with ExitStack() as stack:
        scored = (PairRows if score_options.is_pairs(chosen) else TextRows)(chosen, lm, how, stack)
        shown = _score(chosen, islice(items, count), scored, columns, count)
    _say(chosen, shown, scored)
    return 0


def _items(chosen: argparse.Namespace) -> "Iterable[Item]":
    """What is scored; the rows of a file are read anew each time, so that none is kept."""
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


def _how(chosen: argparse.Namespace, lm: "LanguageModel") -> How:
    """What every method is run with; options that were not given are its own."""
    from unmask.sequences.lengths import read_length_prior
    from unmask.sequences.order_pool import Sampling

    given = score_options.given(chosen)
    if chosen.length_prior is not None:
        given["length_prior"] = read_length_prior(chosen.length_prior, lm)
    running = options.settings(chosen, progress=False if chosen.quiet else None)
    found: How = {}
    for method in score_options.methods(chosen):
        mine: dict[str, Any] = {n: given[n] for n in given if score_options.takes(method, n)}
        prior = mine.pop("length_prior", None)
        how = Sampling(seed=chosen.seed, **mine)
        found[method] = {"how": how, "length_prior": prior, "settings": running}
    return found


class TextRows:
    """Texts in, rows out, some at a time; what is said of all of them is counted."""

    def __init__(
        self, chosen: argparse.Namespace, lm: "LanguageModel", how: How, stack: ExitStack
    ) -> None:
        from unmask.cli.score_notes import Tally
        from unmask.sequences.scoring import text_scorer

        self._chosen, self._lm, self._how = chosen, lm, how
        self._score = {m: stack.enter_context(text_scorer(lm, m, **how[m])) for m in how}
        self.tallies = {method: Tally() for method in how}

    def rows(self, items: "list[Item]") -> "list[Row]":
        """The rows of some texts."""
        from unmask.sequences.outputs import text_row, word_rows
        from unmask.sequences.screening import score_most

        texts, nat = [item.texts[0] for item in items], _unit(self._chosen)[1]
        scores = {m: score_most(self._lm, texts, self._score[m], method=m) for m in self._how}
        for method, found in scores.items():
            self.tallies[method].add(getattr(one, "reason", None) for one in found)

        def numbers(method: str, place: int) -> "list[Row]":
            one = scores[method][place]
            return word_rows(one, nat) if self._chosen.words else [text_row(one, nat)]

        return _rows(self._chosen, items, list(self._how), numbers)

    def check(self) -> None:
        """Raise where there is not one number."""
        first = next(iter(self.tallies.values()))
        if all(one.has_none for one in self.tallies.values()):
            why = next(iter(first.reasons))
            raise UnmaskError(f"none of the texts ({first.total}) can be scored: {why}")

    def notes(self) -> list[str]:
        """What the numbers are, and how many are missing."""
        from unmask.cli.score_notes import text_notes

        unit = _unit(self._chosen)[0]
        return list(text_notes(self._chosen, self.tallies, unit, _prior(self._how)))

    def summary(self) -> str:
        """Nothing: single texts win against none."""
        return ""


class PairRows:
    """The same for pairs, whose accuracies are summed up."""

    def __init__(
        self, chosen: argparse.Namespace, lm: "LanguageModel", how: How, stack: ExitStack
    ) -> None:
        from unmask.cli.score_notes import Tally
        from unmask.sequences.scoring import pair_scorer

        self._chosen, self._lm, self._how = chosen, lm, how
        self._compare = {m: stack.enter_context(pair_scorer(lm, m, **how[m])) for m in how}
        self.tallies = {method: Tally() for method in how}
        self._verdicts: dict[str, list[Verdict]] = {method: [] for method in how}

    def rows(self, items: "list[Item]") -> "list[Row]":
        """The rows of some pairs."""
        from unmask.cli.score_notes import verdicts
        from unmask.sequences.outputs import ratio_row
        from unmask.sequences.screening import compare_most

        pairs, nat = [item.pair for item in items], _unit(self._chosen)[1]
        ratios = {m: compare_most(self._lm, pairs, self._compare[m]) for m in self._how}
        for method, found in ratios.items():
            self.tallies[method].add(one.reason for one in found)
            self._verdicts[method] += verdicts(self._chosen, items, found)

        def numbers(method: str, place: int) -> "list[Row]":
            return [ratio_row(ratios[method][place], nat)]

        return _rows(self._chosen, items, list(self._how), numbers)

    def check(self) -> None:
        """Raise where there is not one number."""
        first = next(iter(self.tallies.values()))
        if all(one.has_none for one in self.tallies.values()):
            raise UnmaskError(
                f"none of the pairs ({first.total}) can be compared by "
                f"{', '.join(self.tallies)}: {next(iter(first.reasons))}"
            )

    def notes(self) -> list[str]:
        """How accuracies are meant, and how many pairs were not compared."""
        from unmask.cli.score_notes import pair_notes, prior_notes

        unit = _unit(self._chosen)[0]
        return [*pair_notes(self.tallies, unit), *prior_notes(_prior(self._how))]

    def summary(self) -> str:
        """How often the first text wins."""
        from unmask.cli.score_notes import summary

        return summary(self._chosen, self._verdicts)


def _prior(how: How) -> "LengthPrior | None":
    return next((one["length_prior"] for one in how.values() if one["length_prior"]), None)


def _score(
    chosen: argparse.Namespace,
    items: "Iterator[Item]",
    scored: TextRows | PairRows,
    columns: list[str],
    count: int,
) -> "list[Row]":
    """Score and write part by part; the rows that are for a table are returned."""
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
            rows = scored.rows(part)
            # thousands of rows of BLiMP are for a file
            kept += rows if writer or chosen.blimp is None else []
            texts += len(part)
            # a run without one number leaves nothing behind it
            if writer and not all(one.has_none for one in scored.tallies.values()):
                writer.write(kept, texts)
                kept, texts = [], 0
            counted.update(len(part))
        scored.check()
    return kept


def _unit(chosen: argparse.Namespace) -> tuple[str, float]:
    """The unit of all numbers, and how many of it a nat has."""
    return ("bits", 1 / math.log(2)) if chosen.base_two else ("nats", 1.0)


def _rows(
    chosen: argparse.Namespace,
    items: "Sequence[Item]",
    methods: Sequence[str],
    numbers: "Callable[[str, int], list[Row]]",
) -> "list[Row]":
    """What came in, with what was found beside it; a row an item, method and perhaps word."""
    left_out = score_options.text_columns(chosen) if chosen.no_text else ()
    about = {"unit": _unit(chosen)[0], "model": chosen.model_name or _model_name(chosen.model)}
    own_columns, rows = _own_columns(chosen), []
    for place, item in enumerate(items):
        kept = {name: value for name, value in item.columns.items() if name not in left_out}
        for method in methods:
            for found in numbers(method, place):
                told = {chosen.prefix + k: v for k, v in found.items()}
                about_it = {chosen.prefix + k: v for k, v in about.items()}
                own = {f"{chosen.prefix}method": method, **told, **about_it}
                rows.append(kept | {name: own[name] for name in own_columns})
    return rows


def _model_name(place: str) -> str:
    """A hub name as it is; of a folder the last part, for the rest is of one machine alone."""
    folder = os.path.expanduser(place)
    return Path(folder).resolve().name if os.path.isdir(folder) else place


def _say(chosen: argparse.Namespace, rows: "list[Row]", scored: TextRows | PairRows) -> None:
    """The summary is on stdout, unless rows for programs are; notes are beside a table."""
    summary, notes = scored.summary(), [] if chosen.quiet else scored.notes()
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
        # thousands of rows are for a file
        return ""
    hidden = {chosen.prefix + name for name in ("unit", "model", "normaliser_passes")}
    if not any(row.get(f"{chosen.prefix}unknown_tokens") for row in rows):
        hidden.add(f"{chosen.prefix}unknown_tokens")
    own = [name for name in _own_columns(chosen) if name not in hidden]
    if len(score_options.methods(chosen)) == 1:
        own.remove(f"{chosen.prefix}method")
    texts = score_options.text_columns(chosen)
    if chosen.words and len({row[texts[0]] for row in rows}) == 1:
        texts = []
    return table(rows, [*([] if chosen.no_text else texts), *own])
