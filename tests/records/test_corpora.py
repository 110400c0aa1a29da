"""A corpus comes out the same from every format: distinct sentences, ids that stay, a digest."""

import gzip
import io
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from assets import real_data

from unmask.errors import CorpusError
from unmask.records import corpora
from unmask.records.corpora import Corpus, CorpusSpec, Sentence, digest, read_corpus

PAIRS = [("A cat sat.", "An animal sat."), ("A dog ran.", "A cat sat.")]
SENTENCES = ["A cat sat.", "An animal sat.", "A dog ran."]


def read(path: Path, content: str | bytes | None = None, **options: Any) -> Corpus:
    if isinstance(content, str):
        content = content.encode()
    if content is not None:
        path.write_bytes(content)
    return read_corpus(CorpusSpec(str(path), **options))


def texts(corpus: Corpus) -> list[str]:
    return [sentence.text for sentence in corpus.sentences]


def ids(corpus: Corpus) -> list[str]:
    return [sentence.id for sentence in corpus.sentences]


def snli_lines() -> str:
    names = ("pairID", "sentence1", "sentence2")
    rows = [dict(zip(names, (f"p#{i}", *pair), strict=True)) for i, pair in enumerate(PAIRS)]
    return "".join(json.dumps({"gold_label": "neutral", **row}) + "\n" for row in rows)


def test_plain_text_has_a_sentence_a_line(tmp_path):
    corpus = read(tmp_path / "my.txt", " A cat sat.\n\nA dog ran.\r\nA cat sat. \n \nlast")
    assert corpus.sentences == (
        Sentence("my:0", "A cat sat."),
        Sentence("my:2", "A dog ran."),
        Sentence("my:5", "last"),
    )
    assert corpus.refused == {"empty": 2, "repeated": 1}
    assert corpus.name == "my.txt"


def test_published_snli_keeps_its_ids(tmp_path):
    corpus = read(tmp_path / "test.jsonl", snli_lines())
    assert ids(corpus) == ["p#0/premise", "p#0/hypothesis", "p#1/premise"]
    assert texts(corpus) == SENTENCES
    only = read(tmp_path / "test.jsonl", columns=["sentence2"])
    assert ids(only) == ["p#0/hypothesis", "p#1/hypothesis"]


def test_published_snli_with_tabs_and_a_header(tmp_path):
    header = "gold_label\tsentence1\tsentence2\tpairID\n"
    rows = "".join(f"neutral\t{a}\t{b}\tp#{i}\n" for i, (a, b) in enumerate(PAIRS))
    corpus = read(tmp_path / "snli_test.txt", header + rows, format="tsv")
    assert corpus.sentences == read(tmp_path / "test.jsonl", snli_lines()).sentences


def test_label_premise_and_hypothesis_without_a_header(tmp_path):
    rows = "".join(f"neutral\t{a}\t{b}\n" for a, b in PAIRS)
    corpus = read(tmp_path / "dev.tsv", rows)
    assert ids(corpus) == ["dev:0/premise", "dev:0/hypothesis", "dev:1/premise"]
    assert texts(corpus) == SENTENCES


def test_comma_separated_values_with_quotes_and_line_ends_inside(tmp_path):
    content = 'id,text\r\n1,"A cat, they said, ""sat"".\nThen ran."\r\n\r\n2,plain\r\n'
    corpus = read(tmp_path / "a.csv", content, columns=["text"])
    assert corpus.sentences == (
        Sentence("a:0/text", 'A cat, they said, "sat".\nThen ran.'),
        Sentence("a:1/text", "plain"),
    )


def test_columns_by_number_count_from_one_and_take_every_line(tmp_path):
    corpus = read(tmp_path / "a.csv", "x,y\nz,w\n", columns=[2, "1"])
    assert [tuple(vars(one).values()) for one in corpus.sentences] == [
        ("a:0/2", "y"),
        ("a:0/1", "x"),
        ("a:1/2", "w"),
        ("a:1/1", "z"),
    ]


def test_json_lines_by_key(tmp_path):
    content = '{"a": "one", "b": 1}\n\n{"a": null, "b": 2}\n{"a": "\\u00e9", "b": 3}\n'
    corpus = read(tmp_path / "x.jsonl", content, columns=["a"])
    assert corpus.sentences == (Sentence("x:0/a", "one"), Sentence("x:2/a", "é"))
    assert corpus.refused["empty"] == 1


@pytest.mark.parametrize(
    ("format", "columns", "content"),
    [
        (None, [], "A cat sat.\nA dog ran.\n"),
        ("jsonl", ["t"], '{"t": "A cat sat."}\n{"t": "A dog ran."}\n'),
        ("csv", ["1"], "A cat sat.\nA dog ran.\n"),
    ],
)
def test_standard_input(format, columns, content, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    corpus = read_corpus(CorpusSpec("-", columns, format=format))
    assert texts(corpus) == ["A cat sat.", "A dog ran."]
    assert ids(corpus)[0].startswith("stdin:0")
    assert corpus.name == "stdin"


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.usefixtures("disk")
def test_a_corpus_in_a_store_is_the_same(ending, tmp_path):
    path = tmp_path / f"a.jsonl{ending}"
    content = snli_lines().encode()
    here = read(path, gzip.compress(content) if ending else content)
    there = read_corpus(CorpusSpec(f"disk://{path}"))
    assert there == here
    assert ids(there)[0] == "p#0/premise"
    (tmp_path / "b.jsonl").write_bytes(content)
    with pytest.raises(CorpusError, match="is 2 files, and a corpus is one; join them"):
        read_corpus(CorpusSpec(f"disk://{tmp_path}", ["sentence1"]))


def test_the_digest_sees_ids_texts_and_order():
    a, b = Sentence("1", "x"), Sentence("2", "y")
    told_apart = [[a, b], [b, a], [a], [Sentence("1", "x2"), Sentence("", "y")]]
    assert len({digest(sentences) for sentences in told_apart}) == len(told_apart)
    # written down: it must be the same on every machine and in every version
    assert digest([a, b]) == "dd26310e36c97976af03eb18083d3b10b4f57392c6e31be83d3fe0358f525f4d"


# -- Hugging Face datasets, from folders


@pytest.fixture
def library(tmp_path, monkeypatch) -> Any:
    found = import_module("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return found


def rows(library: Any) -> Any:
    return library.Dataset.from_dict({"text": ["one", "two", None, " one"], "n": [1, 2, 3, 4]})


def test_a_folder_of_parquet_or_json_lines(tmp_path, library):
    for name in ("parquet", "lines"):
        (tmp_path / name).mkdir()
    rows(library).to_parquet(tmp_path / "parquet" / "part.parquet")
    (tmp_path / "lines" / "test.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    (tmp_path / "lines" / "train.jsonl").write_text('{"text": "three"}\n')
    corpus = read(tmp_path / "parquet", columns=["text"])
    assert ids(corpus) == ["train:0/text", "train:1/text"]
    assert corpus.refused == {"empty": 1, "repeated": 1}
    assert corpus.name == "parquet"
    corpus = read(tmp_path / "lines", columns=["text"], split="test")
    assert texts(corpus) == ["one", "two"]
    assert corpus.name == "lines, test"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "has the splits 'train', 'test'; name the split to read"),
        ({"split": "dev"}, "cannot load the dataset .* Unknown split .dev."),
        ({"split": "test", "columns": []}, "has the columns 'text', 'n'; name the columns to read"),
        ({"split": "test", "columns": ["a"]}, "has no column 'a'; it has 'text', 'n'"),
        ({"split": "test", "columns": ["n"]}, "row 0 of .* has 1 .int. where a sentence"),
        ({"format": "txt"}, "is a dataset, to which a format does not apply"),
    ],
)
def test_what_a_dataset_does_not_have(options, sentence, tmp_path, library):
    for split in ("train", "test"):
        rows(library).to_json(tmp_path / f"{split}.jsonl")
    with pytest.raises(CorpusError, match=sentence):
        read(tmp_path, **{"columns": ["text"], **options})


def test_a_dataset_that_brings_code_is_refused_and_not_run(tmp_path, library):
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "script.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(CorpusError, match="cannot load the dataset"):
        read(folder, columns=["text"])


def test_files_without_data_or_damaged_are_refused(tmp_path, library):
    for name in ("junk.bin", "damaged.parquet"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"123")
        with pytest.raises(CorpusError, match="cannot load the dataset") as raised:
            read(tmp_path / name, columns=["text"])
        assert str(raised.value).isprintable()


def test_without_the_library(monkeypatch):
    # None is how Python remembers that a module cannot be imported
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"pip install 'unmask\[datasets\]'"):
        read_corpus(CorpusSpec("snli"))


@pytest.mark.parametrize(
    ("place", "name", "columns"),
    [
        ("snli", "stanfordnlp/snli", ("premise", "hypothesis")),
        ("xsum", "EdinburghNLP/xsum", ("summary",)),
        ("EdinburghNLP/xsum", "EdinburghNLP/xsum", ("summary",)),
    ],
)
def test_known_names_stand_for_hub_datasets(place, name, columns, monkeypatch):
    def rows_of(*asked: object) -> Iterator[tuple[str, dict[str, str]]]:
        assert asked == (name, columns, "test", None, None)
        return iter([("test", dict.fromkeys(columns, "A cat sat."))])

    monkeypatch.setattr(corpora, "dataset_rows", rows_of)
    assert read_corpus(CorpusSpec(place)).name == f"{name}, test"


# -- the corpora themselves


@pytest.mark.assets("the corpora themselves")
@pytest.mark.parametrize(
    ("name", "first", "count", "repeated"),
    [
        ("snli/test.jsonl", "2677109430.jpg#1r1n/premise", 13_132, 6_868),
        ("snli/dev.tsv", "dev:0/premise", 12_981, 6_703),
        ("snli/train-sentences.txt", "train-sentences:0", 118_560, 0),
        ("xsum/test-1000.txt", "test-1000:0", 1_000, 0),
    ],
)
def test_real_corpora(name, first, count, repeated):
    corpus = read_corpus(CorpusSpec(str(real_data(name))))
    assert len(corpus.sentences) == count
    assert corpus.refused == {"empty": 0, "repeated": repeated}
    assert corpus.sentences[0].id == first
    assert corpus.name == Path(name).name
    assert all(one.text == one.text.strip() for one in corpus.sentences)
