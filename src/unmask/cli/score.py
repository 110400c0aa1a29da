"""`unmask score`: whole texts, words and minimal pairs, from a file into a file."""

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import options, score_options
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.sentences.inputs import Item
    from unmask.sentences.lengths import LengthPrior
    from unmask.sentences.outputs import Row
    from unmask.sentences.scores import LogRatio

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


# keyword arguments by method
How = dict[str, dict[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    score_options.add_arguments(parser)


def run(chosen: argparse.Namespace) -> int:
    """Read everything that can be refused, load the model, score, write."""
    score_options.check(chosen)
    items = _items(chosen)
    _check_columns(items, chosen)
    lm = options.load_model(chosen)
    how = _how(chosen, lm)
    if score_options.is_pairs(chosen):
        _compare(chosen, items, lm, how)
    else:
        _score(chosen, items, lm, how)
    return 0


def _items(chosen: argparse.Namespace) -> "list[Item]":
    from unmask.sentences.blimp import read_blimp
    from unmask.sentences.inputs import given_texts, read_items

    if chosen.blimp is not None:
        return read_blimp(chosen.blimp, paradigms=chosen.paradigm or (), limit=chosen.limit)
    if chosen.text is not None:
        return given_texts(chosen.text)[: chosen.limit]
    columns = score_options.named_columns(chosen)
    return read_items(chosen.file, columns, format=chosen.format, limit=chosen.limit)


def _check_columns(items: "Sequence[Item]", chosen: argparse.Namespace) -> None:
    theirs = {name for item in items for name in item.columns}
    for name in _own_columns(chosen):
        if name in theirs:
            raise UnmaskError(
                f"the input has a column {quoted(name)}, and so has the output; rename it, or give "
                "--prefix NAME for what new columns begin with"
            )
    for name in chosen.by or ():
        if name not in theirs:
            raise UnmaskError(f"--by {quoted(name)}: the input has no such column")


def _own_columns(chosen: argparse.Namespace) -> list[str]:
    from unmask.sentences.outputs import PAIR_COLUMNS, TEXT_COLUMNS, WORD_COLUMNS

    kind = PAIR_COLUMNS if score_options.is_pairs(chosen) else TEXT_COLUMNS
    *numbers, reason = WORD_COLUMNS if chosen.words else kind
    return [chosen.prefix + name for name in ("method", *numbers, "unit", "model", reason)]


def _how(chosen: argparse.Namespace, lm: "LanguageModel") -> How:
    """The options of every method; those that were not given are its own."""
    from unmask.sentences.lengths import read_length_prior

    given = score_options.given(chosen)
    if chosen.length_prior is not None:
        given["length_prior"] = read_length_prior(chosen.length_prior, lm)
    running = options.settings(chosen, progress=False if chosen.quiet else None)
    return {
        method: {
            "seed": chosen.seed,
            "settings": running,
            **{name: given[name] for name in given if score_options.takes(method, name)},
        }
        for method in score_options.methods(chosen)
    }


def _prior(how: How) -> "LengthPrior | None":
    return next((one["length_prior"] for one in how.values() if "length_prior" in one), None)


def _score(chosen: argparse.Namespace, items: "list[Item]", lm: "LanguageModel", how: How) -> None:
    from unmask.cli.score_notes import text_notes
    from unmask.sentences.outputs import text_row, word_rows
    from unmask.sentences.screening import score_most

    texts = [item.texts[0] for item in items]
    scores = {method: score_most(lm, texts, method=method, **how[method]) for method in how}

    def numbers(method: str, place: int) -> "list[Row]":
        one, nat = scores[method][place], _unit(chosen)[1]
        return word_rows(one, nat) if chosen.words else [text_row(one, nat)]

    rows = _rows(chosen, items, list(how), numbers)
    _write(chosen, rows, "", list(text_notes(chosen, scores, _unit(chosen)[0], _prior(how))))


def _compare(
    chosen: argparse.Namespace, items: "list[Item]", lm: "LanguageModel", how: How
) -> None:
    from unmask.cli.score_notes import pair_notes, prior_notes, summary
    from unmask.sentences.outputs import ratio_row
    from unmask.sentences.screening import compare_most

    pairs = [item.pair for item in items]
    ratios = {method: compare_most(lm, pairs, method=method, **how[method]) for method in how}
    _refuse_none(ratios)

    def numbers(method: str, place: int) -> "list[Row]":
        return [ratio_row(ratios[method][place], _unit(chosen)[1])]

    rows = _rows(chosen, items, list(how), numbers)
    notes = [*pair_notes(ratios, _unit(chosen)[0]), *prior_notes(_prior(how))]
    _write(chosen, rows, summary(chosen, items, ratios), notes)


def _refuse_none(ratios: "dict[str, list[LogRatio]]") -> None:
    every = [one for ones in ratios.values() for one in ones]
    if all(one.log_ratio is None for one in every):
        raise UnmaskError(
            f"none of the pairs ({len(every) // len(ratios)}) can be compared by "
            f"{', '.join(ratios)}: {every[0].reason}"
        )


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


def _write(chosen: argparse.Namespace, rows: "list[Row]", summary: str, notes: list[str]) -> None:
    """Rows where they were asked for; the summary is on stdout too, if no rows for programs are."""
    from unmask.sentences.outputs import written

    format = score_options.output_format(chosen)
    said = [] if chosen.quiet else notes
    if format is None:
        parts = [_table(chosen, rows), summary, "\n".join(said)]
        print("\n\n".join(part for part in parts if part))
        return
    names = dict.fromkeys(name for row in rows for name in row)
    own = _own_columns(chosen)
    # last, also where the first rows have fewer columns than a later one
    text = written(rows, [*(name for name in names if name not in own), *own], format)
    if chosen.output is None:
        sys.stdout.write(text)
        said = said if chosen.quiet or not summary else [summary, "", *said]
    else:
        _save(Path(chosen.output), text.encode("utf-8"))
        print(summary, end="\n" if summary else "")
    for line in said:
        print(line, file=sys.stderr)


def _save(path: Path, content: bytes) -> None:
    """Whole or not at all; what is no file, as a pipe, is written to as it is."""
    from unmask.evaluation.store.durable import write_file

    # behind a link is what was meant, not the link
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.write(content)
    else:
        write_file(target, lambda file: file.write(content))


def _table(chosen: argparse.Namespace, rows: "list[Row]") -> str:
    from unmask.sentences.outputs import table

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
