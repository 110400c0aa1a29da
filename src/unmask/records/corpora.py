"""From the name of a corpus to its sentences.

A known name, a Hugging Face dataset, a folder, a file, or `-` for standard input.

Ids are `stem:row/column`, rows counted from 0 without a header and without blank lines; in plain
text, where a blank line is an empty sentence, `stem:row`. A pair that SNLI published has an id of
its own and gives `pairID/premise` and `pairID/hypothesis`.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from unmask.errors import CorpusError
from unmask.printable import quoted
from unmask.records import places
from unmask.records.corpus import Corpus, Occurrence, gather
from unmask.records.files import FORMATS, format_by_name, rows_or_raise
from unmask.records.hub import HubTable, dataset_rows
from unmask.records.lines import decoded_lines, line_of
from unmask.records.rows import TEXT_COLUMN, read_records
from unmask.records.tables import Choose, Layout, by_columns, listed

# the corpora of the paper: their names on the hub, and what of them is sentences
KNOWN = {"snli": "stanfordnlp/snli", "xsum": "EdinburghNLP/xsum"}
_COLUMNS = {"stanfordnlp/snli": ("premise", "hypothesis"), "EdinburghNLP/xsum": ("summary",)}
_SPLIT = "test"

STANDARD_INPUT = "-"

# what SNLI's own files call the two sentences of a pair
_SNLI_PARTS = {"sentence1": "premise", "sentence2": "hypothesis"}
_SNLI_COLUMNS = {"pairID", *_SNLI_PARTS}
# SNLI as lines of label, premise and hypothesis; "-" is where the annotators did not agree
_SNLI_HEADER = ["label", "premise", "hypothesis"]
_SNLI_LABELS = ("entailment", "neutral", "contradiction", "-")


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
        if standard_input is None and sys.stdin is None:
            raise CorpusError("there is no standard input to read from; give a file")
        file, shown = standard_input or sys.stdin.buffer, "standard input"
        occurrences = _occurrences(file, spec.format or "txt", spec.columns, "stdin", shown)
        return gather("stdin", shown, occurrences)
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
    format = spec.format or format_by_name(path.name)
    if format is None:
        raise CorpusError(
            f"the name of {shown} does not show its format; name it: {listed(FORMATS)}"
        )
    stem = places.without_compression(path.name)[0].rpartition(".")[0] or path.name
    try:
        if format == "parquet":
            occurrences = _parquet_occurrences(str(path), spec.columns, stem)
            return gather(path.name, shown, occurrences)
        with places.open_file(str(path)) as file:
            # not the whole path: results name their corpus, and folders differ between machines
            occurrences = _occurrences(file, format, spec.columns, stem, shown)
            return gather(path.name, shown, occurrences)
    except OSError as error:
        raise CorpusError(f"cannot read {shown}: {error.strerror or error}") from None


def _occurrences(
    file: BinaryIO, format: str, columns: Sequence[str], stem: str, shown: str
) -> Iterator[Occurrence]:
    """The values in the places of sentences, in the order of the file."""
    where, lines = line_of(shown), decoded_lines(_explained(file, shown), shown)
    if format == "txt":
        if columns:
            raise CorpusError(
                f"{shown} is plain text, one sentence per line, and has no column "
                f"{quoted(columns[0])}; leave the column out, or name the format: csv, jsonl or tsv"
            )
        for number, line, reason in lines:
            if reason is not None:
                raise CorpusError(reason)
            yield Occurrence(f"{stem}:{number - 1}", line, where(number))
        return
    published = None if columns else _published(shown)
    choose = published or by_columns(columns, shown, unique=False)
    records = read_records(lines, format, columns, shown, where, choose=choose, finite=False)
    for index, record in enumerate(records):
        if record.reason is not None:
            raise CorpusError(record.reason)
        at = where(record.line)
        chosen = columns or _published_columns(record.row, at)
        yield from _sentences(record.row, chosen, f"{stem}:{index}", at)


def _explained(file: BinaryIO, shown: str) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        try:
            return file.readline(most)
        except OSError as error:
            raise CorpusError(f"cannot read {shown}: {error.strerror}") from None

    return read


def _parquet_occurrences(place: str, columns: Sequence[str], stem: str) -> Iterator[Occurrence]:
    wanted = columns or (TEXT_COLUMN,)
    for index, row in enumerate(rows_or_raise(place, "parquet", wanted)):
        yield from _sentences(row, wanted, f"{stem}:{index}", f"row {index} of {quoted(place)}")


def _sentences(
    row: Mapping[str, object], columns: Sequence[str], name: str, where: str
) -> Iterator[Occurrence]:
    pair = row.get("pairID")
    published = isinstance(pair, str) and bool(pair.strip())
    for column in columns:
        part = _SNLI_PARTS.get(column, column) if published else column
        yield Occurrence(f"{pair if published else name}/{part}", row[column], where)


def _published_columns(row: Mapping[str, object], where: str) -> Sequence[str]:
    if row.keys() >= _SNLI_COLUMNS:
        return tuple(_SNLI_PARTS)
    if list(row) == _SNLI_HEADER:
        return _SNLI_HEADER[1:]
    raise CorpusError(f"{where} has {listed(row) or 'no key'}; name the columns to read")


def _published(shown: str) -> Choose:
    """The layout of tables that SNLI was published as."""

    def choose(first: list[str]) -> Layout:
        if set(first) >= _SNLI_COLUMNS:
            return Layout(first)
        if len(first) == len(_SNLI_HEADER) and first[0] in _SNLI_LABELS:
            return Layout(_SNLI_HEADER, has_header=False)
        reason = (
            f"the first line of {shown} has {listed(first)}; name the columns to read, "
            f"by these names or by the numbers 1 to {len(first)} if they are not names"
        )
        return Layout(first, reason=reason)

    return choose


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
    table = HubTable(place, split, spec.config, spec.revision)
    columns = spec.columns or _COLUMNS.get(place, ())
    chosen_split, rows = dataset_rows(table, columns)
    occurrences = (
        Occurrence(f"{chosen_split}:{index}/{column}", row[column], f"row {index} of {shown}")
        for index, row in enumerate(rows)
        for column in columns
    )
    return gather(", ".join([name or place, *filter(None, chosen)]), shown, occurrences)


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
    named_like_a_file = format_by_name(place) is not None
    looks_like_a_path = place.startswith((".", "~", "/")) or place.count("/") > 1 or "\\" in place
    return named_like_a_file or looks_like_a_path
