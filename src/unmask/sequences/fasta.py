"""Sequences of a FASTA file, one record at a time."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from unmask.corpora.lines import checked_lines
from unmask.errors import CorpusError
from unmask.printable import quoted

ENDINGS = (".fasta", ".fa", ".faa", ".fna")


def read_fasta(place: str) -> Iterator[tuple[str, str]]:
    """Every record of a file, or of standard input for `-`: its name and its letters.

    The name is the first word behind the mark. Translations end with a star where the stop codon
    was, which is taken off; letters are not checked.
    """
    shown = "standard input" if place == "-" else quoted(place, limit=150)
    with ExitStack() as stack:
        file: BinaryIO
        if place != "-":
            try:
                file = stack.enter_context(Path(os.path.expanduser(place)).open("rb"))
            except OSError as error:
                raise CorpusError(f"cannot read {shown}: {error.strerror}") from None
        elif sys.stdin is None:
            raise CorpusError("there is no standard input to read from; give a file")
        else:
            file = sys.stdin.buffer
        yield from _records(checked_lines(file, shown), shown)


def _records(lines: Iterable[tuple[int, str]], shown: str) -> Iterator[tuple[str, str]]:
    name: str | None = None
    letters: list[str] = []
    for number, line in lines:
        if line.startswith(">"):
            if name is not None:
                yield name, "".join(letters).removesuffix("*")
            name, letters = (line[1:].split() or [""])[0], []
        elif name is not None:
            letters.append("".join(line.split()))
        elif line.strip():
            raise CorpusError(
                f"{shown} is not FASTA: line {number} is text before the first record, which "
                "starts with >"
            )
    if name is None:
        raise CorpusError(f"{shown} holds no record; give at least one, as >NAME and its letters")
    yield name, "".join(letters).removesuffix("*")
