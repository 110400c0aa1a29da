"""The options of `unmask score`, and which of them do not go together."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from unmask.cli import options
from unmask.cli.score_output import partial_of
from unmask.errors import MethodError, UnmaskError
from unmask.printable import quoted

_HCB_PATH = "hcb-path"
_FORMATS = ("csv", "jsonl", "tsv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    _add_input(parser)
    options.add_model(parser)
    _add_methods(parser)
    _add_output(parser)
    options.add_running(parser, tables=False)
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no notes")


def _add_input(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        metavar="FILE",
        help="a file (.txt with one text per line, .jsonl, .tsv or .csv), or - for standard input",
    )
    add("--text", action="append", help="a text to score, instead of a file; may be repeated")
    add(
        "--format",
        metavar="FORMAT",
        help="txt, jsonl, tsv or csv, if the name does not say",
    )
    add("--column", metavar="NAME", help="the column that holds the texts (default: text)")
    add("--pairs", metavar="GOOD,BAD", help="the two columns that hold minimal pairs")
    add(
        "--blimp",
        metavar="FOLDER|NAME",
        help="BLiMP: a folder of .jsonl files, or its name on the hub, nyu-mll/blimp",
    )
    add(
        "--paradigm",
        action="append",
        metavar="NAME",
        help="only this paradigm of BLiMP; may be repeated",
    )
    add(
        "--by",
        action="append",
        metavar="NAME",
        help="also report the accuracy of pairs by this column; the overall accuracy is then the "
        "mean over its values. May be repeated: the first column named counts for the mean "
        "(BLiMP: UID, linguistics_term, field)",
    )
    add(
        "--limit",
        type=int,
        metavar="N",
        help="only the first N rows; for BLiMP N pairs per paradigm, in hashed order",
    )


def _add_methods(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--method",
        action="append",
        metavar="NAME",
        help="pll, pll-word-l2r, and for pairs hcb-path; several with commas (default: pll)",
    )
    add("--orders", type=int, metavar="R", help="hcb-path: orders averaged (default: 8)")
    add("--seed", type=int, default=0, metavar="N", help="hcb-path: which orders (default: 0)")


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--words", action="store_true", help="one row per word: surprisal, start, end, pieces")
    add("--base-two", action="store_true", help="bits instead of nats")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="write the rows to a file: .csv, .tsv or .jsonl; FILE.partial until it is complete",
    )
    add("--output-format", metavar="FORMAT", help="csv, tsv or jsonl, also for stdout")
    add("--json", action="store_true", help="JSON lines on stdout instead of a table")
    add("--prefix", default="", help="what the names of new columns begin with (default: nothing)")
    add(
        "--no-text",
        action="store_true",
        help="leave the texts out of the rows, so that these can be published",
    )
    add("--model-name", metavar="NAME", help="the model's name in the rows (default: its own)")


def check(chosen: argparse.Namespace) -> None:
    """Reject what does not go together, before anything is read."""
    from unmask.sequences.walks import check_orders

    _check_source(chosen)
    _check_rows(chosen)
    if chosen.limit is not None and chosen.limit < 1:
        raise UnmaskError(f"--limit takes a number of rows from 1, not {chosen.limit}")
    named = methods(chosen)
    if chosen.orders is not None and _HCB_PATH not in named:
        raise MethodError(
            f"--orders is for {_HCB_PATH}, but --method is {', '.join(named)}; leave it out, or "
            f"name {_HCB_PATH}"
        )
    check_orders(**orders(chosen))
    options.check_output("--output", chosen.output)
    both = [one for one in (chosen.file, chosen.output) if one and os.path.exists(one)]
    if len(both) == 2 and os.path.samefile(*both):
        shown = quoted(chosen.output, limit=150)
        raise UnmaskError(f"--output is the input, {shown}; name another file")


def is_pairs(chosen: argparse.Namespace) -> bool:
    """Whether pairs are compared, and not single texts scored."""
    return chosen.pairs is not None or chosen.blimp is not None


def methods(chosen: argparse.Namespace) -> list[str]:
    """The methods that were named, each once."""
    allowed = ["pll", "pll-word-l2r", *([_HCB_PATH] if is_pairs(chosen) else [])]
    given = [name for names in chosen.method or ["pll"] for name in names.split(",")]
    named = [name.strip().lower().replace("_", "-") for name in given]
    for name in named:
        if name == _HCB_PATH and name not in allowed:
            raise MethodError("hcb-path compares two texts; give --pairs GOOD,BAD or --blimp")
        if name not in allowed:
            raise MethodError(f"--method is one of {', '.join(allowed)}, not {quoted(name)}")
    return list(dict.fromkeys(named))


def orders(chosen: argparse.Namespace) -> dict[str, int]:
    """How many orders of hcb-path are averaged, and which."""
    return {"orders": 8 if chosen.orders is None else chosen.orders, "seed": chosen.seed}


def text_columns(chosen: argparse.Namespace) -> list[str]:
    """The columns that hold the texts."""
    if chosen.blimp is not None:
        from unmask.sequences.blimp import PAIR

        return list(PAIR)
    return named_columns(chosen) or ["text"]


def named_columns(chosen: argparse.Namespace) -> list[str]:
    """Those of them that the options name."""
    if chosen.pairs is not None:
        return pair_columns(chosen.pairs)
    return [] if chosen.column is None else [chosen.column]


def pair_columns(text: str) -> list[str]:
    """The two columns of `--pairs`."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UnmaskError(f"--pairs takes two columns, as good,bad, not {quoted(text)}")
    return names


def output_format(chosen: argparse.Namespace) -> str | None:
    """csv, tsv or jsonl; None for a table to be read."""
    named: str | None = chosen.output_format
    if named is not None and named not in _FORMATS:
        raise UnmaskError(f"--output-format is csv, jsonl or tsv, not {quoted(named)}")
    if chosen.json and (chosen.output is not None or named is not None):
        raise UnmaskError(
            "--json prints JSON lines to stdout; leave it out to give --output or --output-format"
        )
    if chosen.json:
        return "jsonl"
    return named if chosen.output is None else _of_file(chosen.output, named)


def _of_file(output: str, named: str | None) -> str:
    path = Path(output)
    shown = quoted(output, limit=150)
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        raise UnmaskError(f"cannot write {shown}: give a file in a folder that exists")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UnmaskError(f"cannot write {shown}: permission denied")
    part = partial_of(output)
    if os.path.exists(part):
        raise UnmaskError(
            f"{quoted(str(part), limit=150)} holds what another run has scored, which is still "
            "running or was interrupted; rename or remove it, or give another --output"
        )
    format = named or path.suffix.lower().removeprefix(".")
    if format not in _FORMATS:
        raise UnmaskError(
            f"the name of {shown} does not end with .csv, .jsonl or .tsv; give --output-format"
        )
    return format


def _check_source(chosen: argparse.Namespace) -> None:
    given = _given(chosen, ("file", "text", "blimp"))
    if len(given) != 1:
        also = f", not {_names(given)} together" if given else ""
        raise UnmaskError(
            f"give a FILE, - for standard input, --text TEXT, or --blimp FOLDER{also}"
        )
    others = {"file": ("paradigm",), "text": ("format", "column", "pairs", "paradigm", "by")}
    rejected = others.get(given[0], ("format", "column", "pairs", "by"))
    _reject(chosen, rejected, f"with {_names(given)}")
    if chosen.pairs is not None:
        _reject(chosen, ("column",), "with --pairs, which names the columns")
        pair_columns(chosen.pairs)


def _check_rows(chosen: argparse.Namespace) -> None:
    if is_pairs(chosen):
        _reject(chosen, ("words",), "with pairs, which are compared as whole texts")
    else:
        _reject(chosen, ("by",), "without pairs, which alone have an accuracy")
    if chosen.no_text and chosen.words:
        raise UnmaskError("--words writes words and --no-text leaves texts out; give one of them")
    output_format(chosen)


def _reject(chosen: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in _given(chosen, names):
        raise UnmaskError(f"--{name} does not apply {why}; leave it out")


def _given(chosen: argparse.Namespace, names: Sequence[str]) -> list[str]:
    return [name for name in names if getattr(chosen, name)]


def _names(given: Sequence[str]) -> str:
    return " and ".join("FILE" if name == "file" else f"--{name}" for name in given)
