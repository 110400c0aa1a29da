"""Every way in which a corpus can be unusable ends in one sentence that says what to do."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from unmask.errors import CorpusError
from unmask.records import places
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.records.rows import LONGEST


class Bad(NamedTuple):
    kind: str
    name: str
    content: bytes
    # a part of the sentence
    says: str
    options: dict[str, Any]


def bad(kind: str, name: str, content: bytes, says: str, **options: Any) -> Bad:
    return Bad(kind, name, content, says, options)


TEXT = {"columns": ["text"]}
SNLI = b'{"pairID": "%s", "sentence1": "%s", "sentence2": "c"}\n'

BYTES = [
    bad("empty file", "a.txt", b"", "holds no text; give at least one"),
    bad("blank lines", "a.txt", b"\n \n", "holds no text; give at least one"),
    bad(
        "empty cells",
        "a.csv",
        b"id,text\n1,\n2, \n",
        "has no sentence; give columns that hold text",
        **TEXT,
    ),
    bad("blank JSON lines", "a.jsonl", b"\n\n", "holds no text", **TEXT),
    bad("empty table", "a.csv", b"", "holds no text", **TEXT),
    bad("only a header", "a.csv", b"id,text\n", "holds no text", **TEXT),
    bad("only a mark", "a.txt", b"\xef\xbb\xbf", "holds no text"),
    bad("invalid UTF-8", "a.txt", b"fine\ncaf\xe9\n", "line 2 of .*: its byte 4 is 0xe9"),
    bad("half a character", "a.txt", b"caf\xc3", "its byte 4 is 0xc3; save the file as UTF-8"),
    bad("UTF-8 of a surrogate", "a.txt", b"\xed\xa0\x80\n", "its byte 1 is 0xed"),
    bad(
        "UTF-16",
        "a.txt",
        "cat".encode("utf-16"),
        "a NUL at its byte 4, so it is not text; give a UTF-8",
    ),
    bad("NUL", "a.txt", b"one\ntwo\x00\n", "line 2 of .* holds a NUL at its byte 4"),
    bad("a zip", "a.txt", b"PK\x03\x04\x14\x00\x08", "holds a NUL at its byte 6"),
    bad("endless line", "a.txt", b"x\n" + b"y" * (LONGEST + 1), "line 2 .* longer than 1.0 MB"),
    bad("endless JSON", "a.jsonl", b"[" * (LONGEST + 9), "line 1 .* longer than 1.0 MB", **TEXT),
]

JSON = [
    bad("not JSON", "a.jsonl", b'{"text": "x"}\n{text}\n', "line 2 of .* is not JSON", **TEXT),
    bad("JSON cut off", "a.jsonl", b'{"text": "x', "at its character 10", **TEXT),
    bad("two objects", "a.jsonl", b"{} {}", "Extra data at its character 4", **TEXT),
    bad("a list", "a.jsonl", b'["x"]', r"not a JSON object but \['x'\] \(list\)", **TEXT),
    bad("a text", "a.jsonl", b'"x"', r"not a JSON object but 'x' \(str\)", **TEXT),
    bad("JSON's null", "a.jsonl", b"null", "not a JSON object but None", **TEXT),
    bad("over many lines", "a.jsonl", b'{\n"text": "x"\n}', "line 1 of .* is not JSON", **TEXT),
    bad("NaN", "a.jsonl", b'{"text": "a", "n": NaN}', "line 1 of .* holds NaN or an inf", **TEXT),
    bad("infinity", "a.jsonl", b'{"text": "a", "n": [1e999]}', "holds NaN or an infinite", **TEXT),
    bad("half a key", "a.jsonl", rb'{"\ud800": 1}', r"half of a surrogate pair, '\\ud800'", **TEXT),
    bad("deep nesting", "a.jsonl", b"[" * 200_000, "JSON that cannot be read", **TEXT),
    bad("long number", "a.jsonl", b"9" * 5_000, "JSON that cannot be read", **TEXT),
    bad(
        "no columns",
        "a.jsonl",
        b'{"a": "x", "b": 1}',
        "has the columns 'a', 'b'; name the columns to read",
    ),
    bad("no keys", "a.jsonl", b"{}", "has no column 'text'; it has none at all", **TEXT),
    bad(
        "missing key",
        "a.jsonl",
        b'{"text": "x"}\n{"b": 1}',
        "line 2 .* has no column 'text'",
        **TEXT,
    ),
    bad("a number", "a.jsonl", b'{"text": 7}', r"has 7 \(int\) where a sentence", **TEXT),
    bad("a list of words", "a.jsonl", b'{"text": ["x"]}', r"\(list\) where a sentence", **TEXT),
    bad(
        "escaped NUL",
        "a.jsonl",
        rb'{"text": "a\u0000"}',
        r"line 1 of .* holds '\\x00', which no UTF-8 text has",
        **TEXT,
    ),
    bad("lone surrogate", "a.jsonl", rb'{"text": "a\ud800"}', r"holds '\\ud800', which", **TEXT),
    bad("NUL in an id", "a.jsonl", SNLI % (rb"\u0000", b"x"), r"holds '\\x00', which no UTF-8"),
    bad(
        "an id twice",
        "a.jsonl",
        SNLI % (b"p", b"x") + SNLI % (b"p", b"y"),
        "line 2 of .* gives the id 'p/premise' to a second sentence",
    ),
    bad(
        "half an SNLI pair",
        "a.jsonl",
        b'{"pairID": "p", "sentence1": "x"}',
        "name the columns to read",
    ),
    bad("hostile key", "a.jsonl", rb'{"\u001b[31m": 1}', r"columns '\\x1b\[31m'; name the"),
]

TABLES = [
    bad(
        "no column names",
        "a.csv",
        b"id,text\n1,x\n",
        "has the columns 'id', 'text'; name the columns",
    ),
    bad("no such name", "a.csv", b"id,body\n1,x\n", "has no column 'text'; it has 'id'", **TEXT),
    bad("no such number", "a.tsv", b"a\tb\n", "no column '3'; it has '1', '2'", columns=["3"]),
    bad("column zero", "a.tsv", b"a\tb\n", "has no column '0'", columns=["0"]),
    bad("name twice", "a.csv", b"text,text\na,b\n", "has 2 columns 'text'; give each", **TEXT),
    bad("too few fields", "a.csv", b"id,text\n1\n", "line 2 .* has 1 fields, but", **TEXT),
    bad("too many fields", "a.tsv", b"-\ta\tb\n-\ta\tb\tc\n", "line 2 .* has 4 fields, but the fi"),
    bad("open quote", "a.csv", b'id,text\n1,"x\n', "is not CSV: unexpected end of data", **TEXT),
    bad("text after a quote", "a.csv", b'id,text\n1,"x"y\n', "line 2 of .* is not CSV", **TEXT),
    bad(
        "endless quote", "a.csv", b'text\n"' + b"x\n" * 600_000, "field longer than 1.0 MB", **TEXT
    ),
    bad("no record", "a.fasta", b"MKT\n>a\nMK\n", "line 1 of .* is not FASTA: it is text before"),
    bad("unknown label", "a.tsv", b"maybe\ta\tb\n" * 2, "name the columns to read"),
]

OPTIONS = [
    bad(
        "columns of plain text", "a.txt", b"x\n", "is plain text, one text per line", columns=["s"]
    ),
    bad("split of a file", "a.txt", b"x\n", "has no split 'dev'; leave it out", split="dev"),
    bad("config of a file", "a.txt", b"x\n", "has no config 'de'; leave it out", config="de"),
    bad("revision of a file", "a.txt", b"x\n", "not a dataset, so it has no rev", revision="1"),
    bad("unknown ending", "a.text", b"x\n", "name it: 'csv', 'fasta', 'jsonl', 'parquet'"),
    bad("no ending", "a", b"x\n", "does not show its format"),
    bad("unknown format", "a.txt", b"x\n", "format is one of 'csv'.*, not 'xml'", format="xml"),
    bad("one string", "a.txt", b"x\n", "a list of names or numbers, not 'text'", columns="text"),
]


def sentence(read: Callable[[], object]) -> str:
    with pytest.raises(CorpusError) as raised:
        read()
    said = str(raised.value)
    assert said.isprintable()
    assert len(said) < 400
    assert not said.endswith(".")
    return said


@pytest.mark.parametrize("row", [*BYTES, *JSON, *TABLES, *OPTIONS], ids=lambda row: row.kind)
def test_one_sentence(row: Bad, tmp_path: Path) -> None:
    path = tmp_path / row.name
    path.write_bytes(row.content)
    said = sentence(lambda: read_corpus(CorpusSpec(str(path), **row.options)))
    assert re.search(row.says, said), said


@pytest.mark.parametrize("row", [BYTES[0], BYTES[-1], JSON[0], TABLES[0]], ids=lambda row: row.kind)
def test_the_same_from_standard_input(row: Bad, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(row.content)))
    spec = CorpusSpec("-", format=row.name.split(".")[1], **row.options)
    assert "standard input" in sentence(lambda: read_corpus(spec))


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("", "cannot load the dataset ''"),
        ("none.jsonl", "there is no file 'none.jsonl'"),
        ("none.TXT", "there is no file 'none.TXT'"),
        ("./none", "there is no file './none'"),
        ("/none/at/all", "there is no file '/none/at/all'"),
        ("x" * 5_000 + ".txt", "there is no file 'xxx"),
        ("nul\x00.txt", r"there is no file 'nul\x00.txt'"),
        ("folder", "cannot load the dataset '"),
        ("folder.txt", "cannot load the dataset '"),
    ],
)
def test_places_where_no_corpus_is(place, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "folder.txt"):
        (tmp_path / name).mkdir()
    assert says in sentence(lambda: read_corpus(CorpusSpec(place)))


def test_a_folder_given_as_a_file(tmp_path):
    said = sentence(lambda: read_corpus(CorpusSpec(str(tmp_path), format="txt")))
    assert "is a dataset, to which a format does not apply; leave it out" in said


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("x\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(places, "open_file", refuse)
    assert "a.txt': Permission denied" in sentence(lambda: read_corpus(CorpusSpec(str(path))))


def test_a_file_that_stops_answering(monkeypatch):
    class Broken(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Broken()))
    said = sentence(lambda: read_corpus(CorpusSpec("-")))
    assert said == "cannot read standard input: Input/output error"


def test_a_line_of_just_the_length_that_is_allowed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * (LONGEST - 1) + b"\n")
    assert len(read_corpus(CorpusSpec(str(path))).sentences[0].text) == LONGEST - 1
