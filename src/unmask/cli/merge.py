"""`unmask merge`: the parts of a folder as one file."""

import os
from dataclasses import dataclass
from pathlib import Path

from unmask.cli import options
from unmask.cli.command import argument
from unmask.errors import UnmaskError
from unmask.names import OUTPUT_FORMATS
from unmask.printable import quoted


@dataclass(frozen=True, kw_only=True)
class MergeCommand:
    """The parts of a folder as one file."""

    SUMMARY = "make one file of a folder of parts"
    DESCRIPTION = (
        "Such folders are made by score, fill, pairs, dependence, consistency and evaluate. Rows "
        "come in the order of the input, and the folder stays as it is. If parts are missing, "
        "because the job is still running or was interrupted, the others are merged and the exit "
        "code is 1."
    )
    EXAMPLE = "unmask merge scores/ scores.csv"

    folder: str = argument("a folder of parts, or its URL", "FOLDER")
    file: str = argument("the file to write: .csv, .tsv, .jsonl or .parquet", "FILE")
    quiet: bool = options.QUIET()

    def run(self) -> int:
        """Merge what is there, and say what is not."""
        from unmask.jobs.folder import folder_at
        from unmask.jobs.parts import merge
        from unmask.records.places import is_url

        format = Path(self.file).suffix.lower().removeprefix(".")
        if format not in OUTPUT_FORMATS:
            raise UnmaskError(
                f"the name of {quoted(self.file, limit=150)} does not end with .csv, .tsv, .jsonl "
                "or .parquet"
            )
        options.check_place("FILE", self.file)
        folder = folder_at(self.folder if is_url(self.folder) else os.path.expanduser(self.folder))
        receipts = folder.receipts()
        rows = merge(folder, receipts, Path(os.path.realpath(self.file)), format)
        if missing := folder.missing(receipts):
            options.say(f"{missing}; repeat the command that began the folder, and merge again")
        if not self.quiet:
            options.say(f"{rows:,} rows are in {quoted(self.file, limit=200)}")
        return 1 if missing else 0
