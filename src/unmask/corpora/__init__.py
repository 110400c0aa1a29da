"""From the name of a corpus to its sentences.

A known name, a Hugging Face dataset, a folder, a file, or `-` for standard input.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from unmask.corpora.corpus import Corpus, gather
from unmask.corpora.files import FORMATS, Place, listed, occurrences
from unmask.corpora.hub import Table, dataset_occurrences
from unmask.corpora.lines import checked_lines
from unmask.errors import CorpusError
from unmask.printable import quoted

# the corpora of the paper: their names on the hub, and what of them is sentences
KNOWN = {"snli": "stanfordnlp/snli", "xsum": "EdinburghNLP/xsum"}
_COLUMNS = {"stanfordnlp/snli": ("premise", "hypothesis"), "EdinburghNLP/xsum": ("summary",)}
_SPLIT = "test"

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class CorpusSpec:
    """A corpus as the caller names it.

    `place` is `snli`, `xsum`, the hub name or local folder of a Hugging Face dataset, a file
    (.jsonl, .tsv, .csv, .txt), or `-` for standard input. `columns` are keys of JSON lines, names
    in the header of a table or in a dataset, or column numbers, starting at 1, in a table without a
    header. `split`, `config` and `revision` choose a part of a dataset. `format` is that of
    standard input (txt by default), or of a file whose name does not show it.
    """

    place: str
    columns: Sequence[str] = ()
    split: str | None = None
    config: str | None = None
    revision: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        """Reject values that name no corpus."""
        if not isinstance(self.place, str) or not self.place.strip():
            raise CorpusError(
                f"a corpus is {listed(KNOWN)}, a dataset, a file or '-', not {quoted(self.place)}"
            )
        if self.format is not None and self.format not in FORMATS:
            raise CorpusError(f"format is one of {listed(FORMATS)}, not {quoted(self.format)}")
        _check_columns(self.columns)


def read_corpus(spec: CorpusSpec, *, standard_input: BinaryIO | None = None) -> Corpus:
    """The distinct sentences of a corpus; anything that cannot be read is a `CorpusError`."""
    if spec.place == STANDARD_INPUT:
        _reject_dataset_options(spec, "standard input")
        place = Place("stdin", "standard input")
        if standard_input is None and sys.stdin is None:
            raise CorpusError("there is no standard input to read from; give a file")
        return _from_file(standard_input or sys.stdin.buffer, spec.format or "txt", spec, place)
    path = os.path.expanduser(spec.place)
    # not Path.is_dir and Path.exists, which raise on names that no file system takes
    if spec.place in KNOWN:
        return _from_dataset(spec, KNOWN[spec.place])
    if os.path.isdir(path):
        return _from_folder(spec, path)
    if os.path.exists(path):
        return _from_path(spec, Path(path))
    if _looks_local(spec.place):
        raise CorpusError(f"there is no file {quoted(spec.place, limit=150)}")
    return _from_dataset(spec, spec.place)


def _from_path(spec: CorpusSpec, path: Path) -> Corpus:
    shown = quoted(spec.place, limit=150)
    _reject_dataset_options(spec, shown)
    format = spec.format or path.suffix.lower().removeprefix(".")
    if format not in FORMATS:
        raise CorpusError(
            f"the name of {shown} does not show its format; name it: {listed(FORMATS)}"
        )
    try:
        with path.open("rb") as file:
            return _from_file(file, format, spec, Place(path.stem, shown), path.name)
    except OSError as error:
        raise CorpusError(f"cannot read {shown}: {error.strerror}") from None


def _from_file(
    file: BinaryIO, format: str, spec: CorpusSpec, place: Place, name: str | None = None
) -> Corpus:
    found = occurrences(checked_lines(file, place.shown), format, spec.columns, place)
    # not the whole path: results name their corpus, and folders differ between machines
    return gather(name or place.stem, place.shown, found)


def _from_folder(spec: CorpusSpec, path: str) -> Corpus:
    shown = quoted(spec.place, limit=150)
    _reject_format(spec, f"{shown} is a folder")
    try:
        if not os.listdir(path):
            raise CorpusError(f"{shown} is an empty folder; give a file or a dataset's folder")
    except OSError as error:
        raise CorpusError(f"cannot read {shown}: {error.strerror}") from None
    # in full, because `.` is not a name
    folder = os.path.abspath(path)
    return _from_dataset(spec, folder, Path(folder).name)


def _from_dataset(spec: CorpusSpec, place: str, name: str | None = None) -> Corpus:
    shown = quoted(place, limit=150)
    _reject_format(spec, f"{shown} is a dataset")
    split = spec.split or (_SPLIT if place in _COLUMNS else None)
    chosen = [spec.config, split, spec.revision and f"revision {spec.revision}"]
    table = Table(place, split, spec.config, spec.revision)
    found = dataset_occurrences(table, spec.columns or _COLUMNS.get(place, ()))
    return gather(", ".join([name or place, *filter(None, chosen)]), shown, found)


def _reject_format(spec: CorpusSpec, what: str) -> None:
    if spec.format is not None:
        raise CorpusError(
            f"{what}, to which a format does not apply; give a file, or leave the format out"
        )


def _check_columns(columns: object) -> None:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise CorpusError(f"columns is a list of names or numbers, not {quoted(columns)}")
    for place, column in enumerate(columns):
        if not isinstance(column, str) or not column:
            raise CorpusError(f"a column is a name or a number as text, not {quoted(column)}")
        if column in columns[:place]:
            raise CorpusError(f"columns names {quoted(column)} twice; give every column once")


def _reject_dataset_options(spec: CorpusSpec, shown: str) -> None:
    for option in ("split", "config", "revision"):
        value = getattr(spec, option)
        if value is not None:
            raise CorpusError(
                f"{shown} is not a dataset, so it has no {option} {quoted(value)}; leave it out"
            )


def _looks_local(place: str) -> bool:
    named_like_a_file = Path(place).suffix.lower().removeprefix(".") in FORMATS
    looks_like_a_path = place.startswith((".", "~", "/")) or place.count("/") > 1 or "\\" in place
    return named_like_a_file or looks_like_a_path
