"""The wild type of `--sequence`: letters, or a file that holds them."""

from functools import partial
from pathlib import Path

from unmask.cli.command import option, required
from unmask.errors import ClozeError
from unmask.printable import quoted

HELP = (
    "the wild type: letters, or a FASTA file with one record (its name must contain a dot or a "
    "slash)"
)
SEQUENCE = partial(required, HELP, "RESIDUES|FILE")
OPTIONAL_SEQUENCE = partial(option, HELP, "RESIDUES|FILE")


def read_wild_type(given: str) -> str:
    """Letters, or the one record of a FASTA file, checked; letters have no dot and no slash."""
    from unmask.text.residues import check_sequence

    if not any(mark in given for mark in "./\\"):
        return check_sequence(given)
    lines = [line.strip() for line in _text(Path(given)).splitlines() if line.strip()]
    records = sum(line.startswith(">") for line in lines)
    if records > 1:
        raise ClozeError(
            f"{quoted(given)} has {records} records, and mutations are of one sequence: give a "
            "file with one record"
        )
    if records and not lines[0].startswith(">"):
        raise ClozeError(f"{quoted(given)} is not FASTA: there is text before its record")
    # translations end with a star where the stop codon was
    return check_sequence("".join(lines[records:]).removesuffix("*"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClozeError(
            f"{quoted(str(path))} is not text: byte {error.start} cannot be decoded"
        ) from None
