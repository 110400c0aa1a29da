"""`unmask merge`: the parts of a folder as one file."""

import argparse
import os
from pathlib import Path

from unmask.cli import options
from unmask.errors import UnmaskError
from unmask.printable import quoted

SUMMARY = "make one file of a folder of parts"
DESCRIPTION = (
    "Write the rows of a folder that score, fill, pairs, variants or dependence has made into one "
    "file, in the order of the input. The folder stays as it is. If parts are missing, because the "
    "job is still running or was interrupted, the others are merged and the exit code is 1."
)
EXAMPLE = "unmask merge scores/ scores.csv"
_FORMATS = ("csv", "jsonl", "parquet", "tsv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="a folder of parts, or its URL")
    add("file", metavar="FILE", help="the file to write: .csv, .tsv, .jsonl or .parquet")
    add("--quiet", action="store_true", help="print only errors")


def run(chosen: argparse.Namespace) -> int:
    """Merge what is there, and say what is not."""
    from unmask.jobs.merging import merge
    from unmask.jobs.places import is_url

    format = Path(chosen.file).suffix.lower().removeprefix(".")
    if format not in _FORMATS:
        raise UnmaskError(
            f"the name of {quoted(chosen.file, limit=150)} does not end with .csv, .tsv, .jsonl or "
            ".parquet"
        )
    options.check_file("FILE", chosen.file)
    folder = chosen.folder if is_url(chosen.folder) else os.path.expanduser(chosen.folder)
    merged = merge(folder, Path(os.path.realpath(chosen.file)), format)
    if merged.missing:
        options.say(
            f"{merged.missing:,} parts are missing; repeat the command that began the folder, and "
            "merge again"
        )
    if not chosen.quiet:
        options.say(f"{merged.rows:,} rows are in {quoted(chosen.file, limit=200)}")
    return 1 if merged.missing else 0
