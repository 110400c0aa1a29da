"""`unmask pairs`: two words in two blanks, scored for every item of a table."""

import argparse
from typing import TYPE_CHECKING, Any

from unmask.cli import announce, many, options
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.jobs.kinds.pairs import Pairs

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
        help=many.FILES_HELP,
    )
    options.add_model(parser)
    many.add_input(parser)
    many.add_output(parser)
    add("--prefix", default="", help="prefix for the names of new columns (default: none)")
    add(
        "--columns",
        default=_COLUMNS,
        metavar="TEXT,WORD1,WORD2",
        help=f"the columns that hold the text and the two words (default: {_COLUMNS})",
    )
    announce.add_dry_run(parser)
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
    given = many.GivenRows(chosen.files, chosen.format, chosen.limit)
    given.check_header(_named(chosen))
    from unmask.sequences.word_pairs import ITEMS_AT_ONCE

    kind = _kind(chosen)
    # by tables an item takes seconds: each is written when it is done
    at_once = ITEMS_AT_ONCE if kind.method == _ORDERS else 1
    return many.rows_command(chosen, kind, given, at_once=at_once)


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
