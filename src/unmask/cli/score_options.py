"""What `unmask score` is asked for, and what of it does not go together."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from unmask.cli import options
from unmask.cli.score_output import partial_of
from unmask.errors import MethodError, UnmaskError
from unmask.printable import quoted

_LOG_POOL, _HCB_PATH = "log-pool", "hcb-path"
# which methods an option is for
_FOR = {
    "orders": (_LOG_POOL, _HCB_PATH),
    "samples": (_LOG_POOL,),
    "confidence": (_LOG_POOL,),
    "length_prior": (_LOG_POOL,),
}
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
        help="a file (.txt, a text a line, .jsonl, .tsv or .csv), or - for standard input",
    )
    add("--text", action="append", help="a text itself, instead of a file; may be repeated")
    add("--format", metavar="FORMAT", help="txt, jsonl, tsv or csv, where the name does not say")
    add("--column", metavar="NAME", help="what holds the texts (default: text)")
    add("--pairs", metavar="GOOD,BAD", help="the two columns that hold minimal pairs")
    add(
        "--blimp",
        metavar="FOLDER|NAME",
        help="BLiMP: a folder of .jsonl files, or its name on the hub, nyu-mll/blimp",
    )
    add("--paradigm", action="append", metavar="NAME", help="of BLiMP only this; may be repeated")
    add(
        "--by",
        action="append",
        metavar="NAME",
        help="accuracy of pairs by this column too; overall accuracy is then the mean over the "
        "first such column's values. May be repeated (BLiMP: UID, linguistics_term, field)",
    )
    add(
        "--limit",
        type=int,
        metavar="N",
        help="only the first N rows; of BLiMP N pairs a paradigm, in hashed order",
    )


def _add_methods(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--method",
        action="append",
        metavar="NAME",
        help="pll, pll-word-l2r, log-pool, and for pairs hcb-path; several with commas "
        "(default: pll)",
    )
    add("--orders", type=int, metavar="R", help="log-pool, hcb-path: orders averaged (default: 8)")
    add("--seed", type=int, default=0, metavar="N", help="which orders (default: 0)")
    add(
        "--samples",
        type=int,
        metavar="N",
        help="log-pool: texts drawn to bound the normaliser (default: 256)",
    )
    add("--confidence", type=float, metavar="P", help="log-pool: of the interval (default: 0.95)")
    add(
        "--length-prior",
        metavar="PRIOR",
        help="log-pool: uniform, poisson:MEAN, geometric:P or corpus:FILE; makes texts of "
        "different lengths comparable",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--words", action="store_true", help="a row a word: surprisal, start, end, pieces")
    add("--base-two", action="store_true", help="bits instead of nats")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="a file for the rows: .csv, .tsv or .jsonl; until all are there, FILE.partial",
    )
    add("--output-format", metavar="FORMAT", help="csv, tsv or jsonl, also on stdout")
    add("--json", action="store_true", help="JSON lines on stdout instead of a table")
    add("--prefix", default="", help="what the names of new columns begin with (default: nothing)")
    add("--no-text", action="store_true", help="leave the texts out of the rows, to publish them")
    add("--model-name", metavar="NAME", help="the model's name in the rows (default: its own)")


def check(chosen: argparse.Namespace) -> None:
    """Refuse what does not go together, before anything is read."""
    _check_source(chosen)
    _check_rows(chosen)
    if chosen.limit is not None and chosen.limit < 1:
        raise UnmaskError(f"--limit takes a number of rows from 1, not {chosen.limit}")
    named = methods(chosen)
    for option, users in _FOR.items():
        if getattr(chosen, option) is not None and not set(users) & set(named):
            raise MethodError(
                f"--{option.replace('_', '-')} is for {' and '.join(users)}, but --method is "
                f"{', '.join(named)}; leave it out, or name a method that takes it"
            )
    _check_numbers(chosen)
    both = [one for one in (chosen.file, chosen.output) if one and os.path.exists(one)]
    if len(both) == 2 and os.path.samefile(*both):
        shown = quoted(chosen.output, limit=150)
        raise UnmaskError(f"--output is the input, {shown}; name another file")
    if chosen.words and _LOG_POOL in named:
        raise MethodError("log-pool scores no single words; leave out --words, or take pll")


def _check_numbers(chosen: argparse.Namespace) -> None:
    """Refuse numbers that a method would refuse after others have run."""
    from unmask.sequences.order_pool import Sampling

    counts = {name: getattr(chosen, name) for name in ("orders", "samples", "confidence")}
    Sampling(seed=chosen.seed, **{name: one for name, one in counts.items() if one is not None})


def is_pairs(chosen: argparse.Namespace) -> bool:
    """Whether pairs are compared, and not single texts scored."""
    return chosen.pairs is not None or chosen.blimp is not None


def methods(chosen: argparse.Namespace) -> list[str]:
    """The methods that were named, each once."""
    allowed = ["pll", "pll-word-l2r", _LOG_POOL, *([_HCB_PATH] if is_pairs(chosen) else [])]
    given = [name for names in chosen.method or ["pll"] for name in names.split(",")]
    named = [name.strip().lower().replace("_", "-") for name in given]
    for name in named:
        if name == _HCB_PATH and name not in allowed:
            raise MethodError("hcb-path compares two texts; give --pairs GOOD,BAD or --blimp")
        if name not in allowed:
            raise MethodError(f"--method is one of {', '.join(allowed)}, not {quoted(name)}")
    return list(dict.fromkeys(named))


def given(chosen: argparse.Namespace) -> dict[str, object]:
    """The options of methods that were given, by name; a length prior as it was written."""
    return {name: value for name in _FOR if (value := getattr(chosen, name)) is not None}


def takes(method: str, option: str) -> bool:
    """Whether an option is for a method."""
    return method in _FOR[option]


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
    """csv, tsv or jsonl; None for a table that people read."""
    asked: str | None = chosen.output_format
    if asked is not None and asked not in _FORMATS:
        raise UnmaskError(f"--output-format is csv, jsonl or tsv, not {quoted(asked)}")
    if chosen.json and (chosen.output is not None or asked is not None):
        raise UnmaskError(
            "--json is JSON lines on stdout; without it, give --output FILE or --output-format"
        )
    if chosen.json:
        return "jsonl"
    return asked if chosen.output is None else _of_file(chosen.output, asked)


def _of_file(output: str, asked: str | None) -> str:
    path = Path(output)
    shown = quoted(output, limit=150)
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        raise UnmaskError(f"cannot write {shown}: give a file in a folder that exists")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UnmaskError(f"cannot write {shown}: it may not be written to")
    part = partial_of(output)
    if os.path.exists(part):
        raise UnmaskError(
            f"{quoted(str(part), limit=150)} holds what another run has scored, which is running "
            "or was interrupted; rename or remove it, or give another --output"
        )
    format = asked or path.suffix.lower().removeprefix(".")
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
    refused = others.get(given[0], ("format", "column", "pairs", "by"))
    _refuse(chosen, refused, f"with {_names(given)}")
    if chosen.pairs is not None:
        _refuse(chosen, ("column",), "with --pairs, which names the columns")
        pair_columns(chosen.pairs)


def _check_rows(chosen: argparse.Namespace) -> None:
    if is_pairs(chosen):
        _refuse(chosen, ("words",), "with pairs, which are compared as wholes")
    else:
        _refuse(chosen, ("by",), "without pairs, which alone have an accuracy")
    if chosen.no_text and chosen.words:
        raise UnmaskError("--words is rows of words and --no-text leaves texts out; take one")
    output_format(chosen)


def _refuse(chosen: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in _given(chosen, names):
        raise UnmaskError(f"--{name} does not apply {why}; leave it out")


def _given(chosen: argparse.Namespace, names: Sequence[str]) -> list[str]:
    return [name for name in names if getattr(chosen, name)]


def _names(given: Sequence[str]) -> str:
    return " and ".join("FILE" if name == "file" else f"--{name}" for name in given)
