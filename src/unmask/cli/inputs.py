"""INPUT of commands over texts: files, or a text."""

import glob
import os
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from unmask.cli.command import argument, option
from unmask.errors import CorpusError, UnmaskError
from unmask.printable import quoted

FILES = (
    "a file (.txt with one text per line; .csv, .tsv, .jsonl or .parquet with a column per field; "
    ".fasta; also .gz and .zst), several files, a pattern in quotation marks, a folder, a URL "
    "(s3://, gs://, hf://), or - for standard input"
)
INPUT = partial(argument, f"{FILES}; anything else is one text", "INPUT", default=())
INPUT_FILES = partial(argument, FILES, "INPUT", default=())
TEXT = partial(
    option, "a text, also one that looks like a file; repeat the option for several", default=()
)


class Input(NamedTuple):
    """Files, patterns, folders and URLs, or texts: one of the two is empty."""

    files: tuple[str, ...]
    texts: tuple[str, ...]


def is_file(given: str) -> bool:
    """True if an INPUT names files; anything else is a text.

    Files are what exists, what ends like a file, and without a space also URLs, what has a slash,
    and a pattern that files match: texts have question marks and brackets too.
    """
    from unmask.records.files import format_by_name
    from unmask.records.places import is_url

    path = os.path.expanduser(given)
    if given == "-" or (given and os.path.exists(path)):
        return True
    if "." in given and format_by_name(given) is not None:
        return True
    if any(map(str.isspace, given)):
        return False
    return is_url(given) or "/" in given or os.sep in given or bool(glob.glob(path))


def read_input(given: Sequence[str], texts: Sequence[str] = (), instead: str = "") -> Input:
    """The files or texts of a command; `instead` is what to do where a text makes no sense."""
    from unmask.records.places import is_pattern, is_url, shown

    if bool(given) == bool(texts):
        if given:
            raise UnmaskError("INPUT and --text exclude each other; give one of them")
        text = "" if instead else ", or a text"
        raise UnmaskError(f"give INPUT: a file, or - for standard input{text}")
    plain = [value for value in given if not is_file(value)]
    if plain and instead:
        raise CorpusError(f"{quoted(plain[0], limit=150)} is not a file; {instead}")
    if plain and len(given) > 1:
        raise CorpusError(
            f"{quoted(plain[0], limit=150)} is not a file, and a text is given alone: put it in "
            "quotation marks, or give --text TEXT for each of several"
        )
    for value in given:
        # a folder or a pattern without files is noticed where they are read
        path = os.path.expanduser(value)
        if (
            value in plain
            or value == "-"
            or is_url(value)
            or is_pattern(value)
            or os.path.exists(path)
        ):
            continue
        text = "" if instead else "; a text that looks like a file is given with --text"
        raise CorpusError(f"there is no file {shown(path)}{text}")
    return Input((), tuple(plain)) if plain else Input(tuple(given), tuple(texts))
