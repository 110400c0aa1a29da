"""`unmask pairs`: two words in two blanks, scored for every item of a table."""

import argparse
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unmask.cli import many, options, score_options, table_rows
from unmask.cli.announce import announce_many, times
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds.pairs import Pairs
    from unmask.jobs.tally import Tally
    from unmask.language_model import LanguageModel

SUMMARY = "score two words in the two blanks of every item of a table"
DESCRIPTION = (
    "Score two given words in the two blanks of every item of FILE: log p(w1, w2), p(w1 | w2), "
    "p(w2 | w1) and PMI, as natural logarithms. An item has the two words and a text: either "
    "with two mask tokens, or a complete text that contains both words once. All columns of the "
    "input are kept in the output. The default method, orders, takes 3 forward passes per item "
    "with single-token words, and accepts words with any number of pieces; log-pool takes "
    "hundreds, accepts only words with one piece, and adds J and standard errors. Items that "
    "cannot be scored have a reason instead of numbers. The exit code is 2 on bad input, and if "
    "no item can be scored."
)
EXAMPLE = "unmask pairs items.csv -m bert-base-cased -o scores.csv"
_COLUMNS = "text,word1,word2"
_ORDERS = "orders"
# in a part of a folder; by tables an item takes seconds
_ITEMS_PER_UNIT = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="a .csv, .tsv, .jsonl or .parquet file, or - for standard input; several files, a "
        "pattern in quotation marks, a folder of them, or a URL (s3://, gs://, hf://)",
    )
    options.add_model(parser)
    table_rows.add_arguments(parser)
    add(
        "--columns",
        default=_COLUMNS,
        metavar="TEXT,WORD1,WORD2",
        help=f"the columns that hold the text and the two words (default: {_COLUMNS})",
    )
    add("--quiet", action="store_true", help="print no cost, no progress bar and no closing line")
    group = parser.add_argument_group("construction")
    group.add_argument(
        "--method",
        default=_ORDERS,
        metavar="NAME",
        help="orders, log-pool or another construction (default: orders)",
    )
    options.add_precision(group)
    options.add_running(parser)
    many.add_arguments(parser, _ITEMS_PER_UNIT)
    parser.set_defaults(support=None)


def run(chosen: argparse.Namespace) -> int:
    """Read what can be rejected, load the model, then score and write some items at a time."""
    many.check_header(chosen.files, chosen.format, _named(chosen))
    from unmask.jobs.running import check_names
    from unmask.jobs.single_file import Layout
    from unmask.sequences.word_pairs import ITEMS_AT_ONCE

    chosen.output = None if chosen.output == "-" else chosen.output
    chosen.file = None if many.are_many(chosen.files, chosen.format) else chosen.files[0]
    to_folder = many.wants_folder(chosen)
    format = None if to_folder else score_options.output_format(chosen) or "csv"
    score_options.check_limit(chosen.limit)
    kind = _kind(chosen)
    if to_folder:
        return table_rows.to_folder(chosen, kind, lambda tally: _conclude(chosen, tally))
    # by tables an item takes seconds: each is written when it is done
    opened = table_rows.opened(chosen, kind, ITEMS_AT_ONCE if kind.method == _ORDERS else 1)
    check_names(opened.names, kind.output_columns)
    lm = options.load_model(chosen)
    if not chosen.quiet:
        _announce(chosen, lm, opened.first, opened.source.texts, kind)
    layout = Layout([*opened.names, *kind.output_columns], format or "csv")
    return _conclude(chosen, many.run_file(chosen, kind, opened.source, lm, layout))


def _conclude(chosen: argparse.Namespace, tally: "Tally") -> int:
    bad, example = next(iter(tally.without.values()), (0, ""))
    if bad or not chosen.quiet:
        others = f"; the others have a reason instead, e.g.: {example}" if bad else ""
        options.say(f"{tally.texts - bad:,} of {tally.texts:,} items scored{others}")
    # a shard may have none at all
    return 2 if tally.texts and bad == tally.texts else 0


def _kind(chosen: argparse.Namespace) -> "Pairs":
    from unmask.constructions import method_name
    from unmask.jobs.kinds.pairs import Pairs

    method = method_name(chosen.method)
    for name in ("precision", "exact"):
        if method == _ORDERS and getattr(chosen, name):
            raise UnmaskError(
                f"--{name} is for methods with tables, and orders is exact without; leave it out, "
                "or give --method log-pool"
            )
    support: Any = options.support_by_blank(chosen)
    return Pairs(
        columns=_named(chosen),
        method=method,
        support=support,
        model_name=options.model_name(chosen.model),
        prefix=chosen.prefix,
        settings=options.settings(chosen, progress=False),
    )


def _named(chosen: argparse.Namespace) -> tuple[str, str, str]:
    names = [name.strip() for name in chosen.columns.split(",")]
    if len(set(names)) != 3 or len(names) != 3 or not all(names):
        raise UnmaskError(
            f"--columns takes three columns, as {_COLUMNS}, not {quoted(chosen.columns)}"
        )
    return names[0], names[1], names[2]


def _announce(
    chosen: argparse.Namespace,
    lm: "LanguageModel",
    first: table_rows.Row,
    count: int | None,
    kind: "Pairs",
) -> None:
    """Print what items like the first cost, if it is much, and the cheaper way."""
    from unmask.sequences.word_pairs import read_pair

    item = [first.get(name) for name in kind.columns]
    settings, method = kind.settings, kind.method
    # a bad item has a reason when it is scored
    with suppress(UnmaskError):
        cloze = read_pair(lm, item).cloze
        cost = lm.cost(
            cloze, methods=[method], support=kind.support, settings=settings, timed=False
        )
        announce_many(
            chosen,
            method,
            lm,
            cloze,
            cost,
            settings,
            count,
            unit="item",
            # of a pair alone: nothing is ranked
            shown=lambda cost: times(replace(cost, seconds=None), 1),
            more="" if method == _ORDERS else "; --method orders takes 3 per item",
        )
