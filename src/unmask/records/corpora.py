"""A corpus: distinct sentences with ids that stay the same, and a digest to recognise it by.

Ids are `stem:row/column`, rows counted from 0 without a header and without blank lines; in plain
text, where a blank line is an empty sentence, `stem:row`. A pair that SNLI published has an id of
its own and gives `pairID/premise` and `pairID/hypothesis`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unmask.errors import CorpusError
from unmask.printable import quoted
from unmask.records import places
from unmask.records.files import InputRows, format_by_name, open_input
from unmask.records.hub import dataset_rows
from unmask.records.rows import TEXT_COLUMN, columns_reason, listed

# the corpora of the paper: their names on the hub, and what of them is sentences
KNOWN = {"snli": "stanfordnlp/snli", "xsum": "EdinburghNLP/xsum"}
_COLUMNS = {"stanfordnlp/snli": ("premise", "hypothesis"), "EdinburghNLP/xsum": ("summary",)}
_SPLIT = "test"

# what SNLI's own files call the two sentences of a pair; and their columns in a table that has no
# names, whose first column is a label, "-" where the annotators did not agree
_SNLI_PARTS = {"sentence1": "premise", "sentence2": "hypothesis"}
_SNLI_NUMBERS = {"2": "premise", "3": "hypothesis"}
_SNLI_LABELS = ("entailment", "neutral", "contradiction", "-")


@dataclass(frozen=True)
class CorpusSpec:
    """A corpus as the caller names it.

    `place` is `snli`, `xsum`, the hub name or local folder of a Hugging Face dataset, a file or its
    URL (.jsonl, .tsv, .csv, .txt, .parquet), or `-` for standard input. `columns` are keys of JSON
    lines, names in the header of a table or in a dataset, or column numbers, starting at 1, in a
    table without a header. `split`, `config` and `revision` choose a part of a dataset. `format` is
    that of standard input (txt by default), or of a file whose name does not show it.
    """

    place: str
    columns: Sequence[str] = ()
    split: str | None = None
    config: str | None = None
    revision: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        """Reject a string where several are expected."""
        columns: object = self.columns
        if isinstance(columns, str):
            raise CorpusError(f"columns is a list of names or numbers, not {quoted(columns)}")


@dataclass(frozen=True)
class Sentence:
    """A sentence under the id of its first occurrence."""

    id: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Distinct sentences in the order of their first occurrence.

    `refused` counts the occurrences that are not among them, by reason: "empty" and "repeated".
    `digest` is the SHA-256 of all ids and texts: where it is the same, so is the corpus.
    """

    name: str
    sentences: tuple[Sentence, ...]
    refused: Mapping[str, int]
    digest: str


# JSON can spell both, and neither has a place in a UTF-8 text
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")

# the id of a sentence, a value where it should be, and how errors name its place
_Occurrence = tuple[str, object, str]


def read_corpus(spec: CorpusSpec) -> Corpus:
    """The distinct sentences of a corpus; anything that cannot be read is a `CorpusError`."""
    path = os.path.expanduser(spec.place)
    # not Path.is_dir and Path.exists, which raise on names that no file system takes
    is_dataset = spec.place in KNOWN or os.path.isdir(path)
    is_file = spec.place == "-" or places.is_url(path) or os.path.exists(path)
    looks_like_a_path = path.startswith((".", "/", "~")) or path.count("/") > 1 or "\\" in path
    if not is_dataset and (is_file or looks_like_a_path or format_by_name(path) is not None):
        return _of_file(spec, path)
    return _of_dataset(spec, path)


def digest(sentences: Iterable[Sentence]) -> str:
    """SHA-256 over ids and texts in their order, each ended by a NUL, which none of them holds."""
    total = hashlib.sha256()
    for sentence in sentences:
        total.update(f"{sentence.id}\x00{sentence.text}\x00".encode())
    return total.hexdigest()


def _gathered(name: str, where: str, occurrences: Iterable[_Occurrence]) -> Corpus:
    """Every distinct sentence once; `where` is how errors name the whole corpus."""
    ids: dict[str, str] = {}
    texts: set[str] = set()
    refused = {"empty": 0, "repeated": 0}
    for id, value, place in occurrences:
        # how JSON and Arrow write that there is no text
        value = "" if value is None else value
        if not isinstance(value, str):
            raise CorpusError(
                f"{place} has {quoted(value)} ({type(value).__name__}) where a sentence should be; "
                "give columns that hold strings"
            )
        text = value.strip()
        if not text or text in texts:
            refused["repeated" if text else "empty"] += 1
            continue
        if bad := _UNWRITABLE.search(f"{id}{text}"):
            raise CorpusError(f"{place} holds {quoted(bad[0])}, which no UTF-8 text has; remove it")
        if id in ids:
            raise CorpusError(
                f"{place} gives the id {quoted(id)} to a second sentence; ids must differ"
            )
        texts.add(text)
        ids[id] = text
    if not ids:
        raise CorpusError(f"{where} has no sentence; give columns that hold text")
    sentences = tuple(Sentence(*pair) for pair in ids.items())
    return Corpus(name, sentences, refused, digest(sentences))


def _of_file(spec: CorpusSpec, path: str) -> Corpus:
    where, columns = places.shown(spec.place), [*map(str, spec.columns)]
    for option in ("split", "config", "revision"):
        if (value := getattr(spec, option)) is not None:
            raise CorpusError(
                f"{where} is not a dataset, so it has no {option} {quoted(value)}; leave it out"
            )
    format = spec.format or format_by_name(path) or "txt"
    if not columns and format not in ("csv", "jsonl", "tsv"):
        columns = [TEXT_COLUMN]
    rows = open_input([path], columns, format=spec.format)
    if len(rows.files) > 1:
        raise CorpusError(f"{where} is {len(rows.files):,} files, and a corpus is one; join them")
    names, parts = rows.names, dict[str, str]()
    if not (columns or rows.is_pipe) and len(names) == 3 and names[0] in _SNLI_LABELS:
        columns, parts = list(_SNLI_NUMBERS), _SNLI_NUMBERS
    elif not columns and {"pairID", *_SNLI_PARTS} <= set(names):
        columns = list(_SNLI_PARTS)
    elif not columns:
        numbers = "" if format == "jsonl" else ", or number them from 1 if these are no names"
        hint = f"name the columns to read{numbers}"
        raise CorpusError(f"{where} has the columns {listed(names)}; {hint}")
    # not the whole path: results name their corpus, and folders differ between machines
    name = "stdin" if spec.place == "-" else os.path.basename(path)
    stem = places.without_compression(name)[0].rpartition(".")[0] or name
    rows = replace(rows, columns=columns)
    return _gathered(name, where, _sentences(rows, parts, stem, format == "txt"))


def _sentences(
    rows: InputRows, parts: Mapping[str, str], stem: str, is_plain: bool
) -> Iterator[_Occurrence]:
    """The values in the places of sentences, in the order of the file."""
    lines = 0
    for index, (row, _, line) in enumerate(rows.rows_or_raise()):
        where = f"row {index} of {quoted(stem)}" if line is None else line.where
        # of a pipe, whose columns were not known when it was opened
        if any(name not in row for name in rows.columns):
            raise CorpusError(columns_reason(rows.columns, row, where))
        if is_plain and line is not None:
            # blank lines are sentences too
            yield from (("", "", where) for _ in range(lines + 1, line.number))
            lines = line.number
            yield f"{stem}:{lines - 1}", row[TEXT_COLUMN], where
            continue
        pair = row.get("pairID")
        is_pair = isinstance(pair, str) and bool(pair.strip())
        for column in rows.columns:
            part = (_SNLI_PARTS if is_pair else parts).get(column, column)
            yield f"{pair if is_pair else f'{stem}:{index}'}/{part}", row[column], where


def _of_dataset(spec: CorpusSpec, path: str) -> Corpus:
    place = name = KNOWN.get(spec.place, spec.place)
    if spec.place not in KNOWN and os.path.isdir(path):
        # in full, because `.` is not a name
        place = os.path.abspath(path)
        name = os.path.basename(place)
    where = quoted(place, limit=150)
    if spec.format is not None:
        raise CorpusError(f"{where} is a dataset, to which a format does not apply; leave it out")
    split = spec.split or (_SPLIT if place in _COLUMNS else None)
    parts = [spec.config, split, spec.revision and f"revision {spec.revision}"]
    columns = [*map(str, spec.columns)] or _COLUMNS.get(place, ())
    rows = dataset_rows(place, columns, split, spec.config, spec.revision)
    occurrences = (
        (f"{prefix}:{index}/{column}", row[column], f"row {index} of {where}")
        for index, (prefix, row) in enumerate(rows)
        for column in columns
    )
    return _gathered(", ".join([name, *filter(None, parts)]), where, occurrences)
