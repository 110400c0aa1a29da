"""INPUT of commands over texts: files, or a text."""

import glob
import os
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from unmask.cli import options
from unmask.cli.command import argument, option
from unmask.errors import CorpusError, UnmaskError
from unmask.printable import quoted

FILES = (
    "a file (.txt with one text per line; .csv, .tsv, .jsonl or .parquet with a column per field; "
    ".fasta; also .gz and .zst), several files, a pattern in quotation marks, a folder, a URL "
    "(s3://, gs://, hf://), or - for standard input"
)
_input = partial(argument, metavar="INPUT", default=(), group=options.INPUT)
INPUT = partial(_input, f"{FILES}; anything else is one text")
INPUT_FILES = partial(_input, FILES)
TEXT = partial(
    option,
    "a text, also one that looks like a file; repeat the option for several",
    default=(),
    group=options.INPUT,
)


class Input(NamedTuple):
    """Files, patterns, folders and URLs, or texts: one of the two is empty."""

    files: tuple[str, ...]
    texts: tuple[str, ...]


def read_input(given: Sequence[str], texts: Sequence[str] = (), instead: str = "") -> Input:
    """The files or texts of a command; `instead` is what to do where a text makes no sense.

    Files are what exists, what ends like a file, and without a space also URLs, what has a slash,
    and a pattern that files match: texts have question marks and brackets too.
    """
    from unmask.records.files import format_by_name
    from unmask.records.places import is_pattern, is_url, shown

    if bool(given) == bool(texts):
        if given:
            raise UnmaskError("INPUT and --text exclude each other; give one of them")
        text = "" if instead else ", or a text"
        raise UnmaskError(f"give INPUT: a file, or - for standard input{text}")
    plain, missing = list[str](), list[str]()
    for value in given:
        path, is_word = os.path.expanduser(value), not any(map(str.isspace, value))
        exists = value == "-" or (value != "" and os.path.exists(path))
        if exists or (is_word and (is_url(value) or glob.glob(path))):
            continue
        is_named = "." in value and format_by_name(value) is not None
        if not is_named and not (is_word and ("/" in value or os.sep in value)):
            plain.append(value)
        elif not is_pattern(value):
            # a folder or a pattern without files is noticed where they are read
            missing.append(path)
    if plain and instead:
        raise CorpusError(f"{quoted(plain[0], limit=150)} is not a file; {instead}")
    if plain and len(given) > 1:
        raise CorpusError(
            f"{quoted(plain[0], limit=150)} is not a file, and a text is given alone: put it in "
            "quotation marks, or give --text TEXT for each of several"
        )
    for path in missing:
        text = "" if instead else "; a text that looks like a file is given with --text"
        raise CorpusError(f"there is no file {shown(path)}{text}")
    return Input((), tuple(plain)) if plain else Input(tuple(given), tuple(texts))
