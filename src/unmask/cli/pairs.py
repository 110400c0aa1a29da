"""`unmask pairs`: two words in two blanks, scored for every item of a table."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import chain, tee
from typing import TYPE_CHECKING, Any

from unmask.cli import options, score_options
from unmask.cli.fill_lines import long_cost, total_cost
from unmask.cli.score_output import check_names, row_writer
from unmask.errors import UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.sequences.inputs import ItemFile

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("file", metavar="FILE", help="a .csv, .tsv or .jsonl file, or - for standard input")
    options.add_model(parser)
    add("--format", metavar="FORMAT", help="csv, tsv or jsonl, if the file name does not show it")
    add(
        "--columns",
        default=_COLUMNS,
        metavar="TEXT,WORD1,WORD2",
        help=f"the columns that hold the text and the two words (default: {_COLUMNS})",
    )
    add("--limit", type=int, metavar="N", help="read only the first N rows")
    add(
        "-o",
        "--output",
        metavar="FILE|-",
        help="write the rows to a file: .csv, .tsv or .jsonl; its name is FILE.partial until it "
        "is complete (default: -, stdout)",
    )
    add("--output-format", metavar="FORMAT", help="csv, tsv or jsonl (default for stdout: csv)")
    add("--prefix", default="", help="prefix for the names of new columns (default: none)")
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
    parser.set_defaults(support=None)


Row = Mapping[str, object]


def run(chosen: argparse.Namespace) -> int:
    """Read what can be rejected, load the model, then score and write item by item."""
    from unmask.progress import bar
    from unmask.sequences.inputs import ItemFile

    chosen.output = None if chosen.output == "-" else chosen.output
    format = score_options.output_format(chosen) or "csv"
    score_options.check_limit(chosen.limit)
    how, columns = _how(chosen), _named(chosen)
    own = _own_columns(chosen, how["method"])
    stdin_format = "csv" if chosen.file == "-" else None
    first, names, count, rows = _opened(
        ItemFile(chosen.file, columns, chosen.format or stdin_format, chosen.limit)
    )
    check_names(names, own)
    lm = options.load_model(chosen)
    if not chosen.quiet:
        _announce(lm, _item(first, columns), count, how)
    about = {"method": how["method"], "model": options.model_name(chosen.model)}
    done, bad, example = 0, 0, None
    counted = bar("items", unit="item", total=count, shown=False if chosen.quiet else None)
    with row_writer(chosen.output, [*names, *own], format) as writer, counted:
        for row, numbers in _scored(lm, rows, columns, how):
            if format != "jsonl":
                _check_written(row, names)
            check_names(row, own)
            found = {chosen.prefix + name: value for name, value in (numbers | about).items()}
            writer.write([{**row, **{name: found[name] for name in own}}], 1)
            counted.update()
            done += 1
            if why := numbers["reason"]:
                bad, example = bad + 1, example or str(why)
    if bad or not chosen.quiet:
        others = "" if example is None else f"; the others have a reason instead, e.g.: {example}"
        options.say(f"{done - bad:,} of {done:,} items scored{others}")
    return 2 if bad == done else 0


def _how(chosen: argparse.Namespace) -> dict[str, Any]:
    from unmask.constructions import method_name

    method = method_name(chosen.method)
    for name in ("precision", "exact"):
        if method == _ORDERS and getattr(chosen, name):
            raise UnmaskError(
                f"--{name} is for methods with tables, and orders is exact without; leave it out, "
                "or give --method log-pool"
            )
    settings = options.settings(chosen, progress=False)
    return {"method": method, "support": options.support_by_blank(chosen), "settings": settings}


def _named(chosen: argparse.Namespace) -> list[str]:
    names = [name.strip() for name in chosen.columns.split(",")]
    if len(set(names)) != 3 or len(names) != 3 or not all(names):
        raise UnmaskError(
            f"--columns takes three columns, as {_COLUMNS}, not {quoted(chosen.columns)}"
        )
    return names


def _own_columns(chosen: argparse.Namespace, method: str) -> list[str]:
    """The columns that the output adds: standard errors only where numbers are estimated."""
    from unmask.sequences.word_pairs import PairScore

    *numbers, reason = (field.name for field in fields(PairScore))
    if method == _ORDERS or chosen.exact:
        numbers = [name for name in numbers if not name.endswith("_error")]
    return [chosen.prefix + name for name in (*numbers, "method", "model", reason)]


def _opened(source: "ItemFile") -> tuple[Row, list[str], int | None, Iterator[Row]]:
    """The first row, the names of all columns (of a pipe its own), the number of rows, all rows."""
    from unmask.sequences.inputs import can_be_read_again

    rows = (row for row, _ in source.rows())
    first = next(rows)
    names, count = dict.fromkeys(first), 0
    if can_be_read_again(source.place):
        for row, _ in source.rows():
            names.update(dict.fromkeys(row))
            count += 1
    return first, list(names), count or None, chain([first], rows)


def _item(row: Row, columns: Sequence[str]) -> list[object]:
    return [row.get(name) for name in columns]


def _scored(
    lm: "LanguageModel", rows: Iterator[Row], columns: Sequence[str], how: Mapping[str, Any]
) -> Iterator[tuple[Row, dict[str, object]]]:
    """Every row with its numbers; rows are read as far as they are scored together."""
    from unmask.sequences.word_pairs import score_pairs

    kept, asked = tee(rows)
    scores = score_pairs(lm, (_item(row, columns) for row in asked), **how)
    # the scores first: when they end, no row is taken that would be lost
    for score in scores:
        yield next(kept), score.to_dict()


def _check_written(row: Row, names: Sequence[str]) -> None:
    for name in row:
        if name not in names:
            raise UnmaskError(
                f"a row has {quoted(name)}, which the first does not have; give --output-format "
                "jsonl, or a file instead of a pipe"
            )


def _announce(
    lm: "LanguageModel", item: Sequence[object], count: int | None, how: Mapping[str, Any]
) -> None:
    """Print what items like the first cost, if it is much, and the cheaper way."""
    from unmask.sequences.word_pairs import read_pair

    method = how["method"]
    given = {"methods": [method], "support": how["support"], "settings": how["settings"]}
    # a bad item has a reason when it is scored
    with suppress(UnmaskError):
        cost = long_cost(lm, read_pair(lm, item).cloze, count or 1, given)
        if cost is not None:
            most = "at most " if cost.at_most else ""
            said = f"{method}: {most}{cost.forward_passes:,} forward passes per item like the first"
            less = "" if method == _ORDERS else "; --method orders takes 3 per item"
            print(f"{said}{total_cost(cost, count, 'items')}{less}", file=sys.stderr)
