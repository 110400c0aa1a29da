"""Texts and pairs from files, standard input and BLiMP; rows back into files."""

import io
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from assets import real_data

from unmask.errors import CorpusError
from unmask.records.files import open_input, read_unit
from unmask.records.writing import cell, written
from unmask.sequences import blimp
from unmask.sequences.blimp import PAIR, hashed, read_blimp
from unmask.sequences.outputs import BITS, result_rows
from unmask.sequences.scores import LogRatio, TextScore, WordScore


@pytest.fixture
def file(tmp_path: Path):
    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def read(
    place: str, named: Sequence[str] = (), *, format: str | None = None, limit: int | None = None
) -> list[dict[str, object]]:
    named = named or ["text"]
    source = open_input([place], named, format=format, limit=limit).cut(2)
    batches = [read_unit(unit, named) for unit in source.units]
    for reason in (why for batch in batches for why in batch.reasons if why):
        raise CorpusError(reason)
    return [dict(row) for batch in batches for row in batch.rows]


# -- files


JSON: list[dict[str, Any]] = [
    {"text": "a", "n": 1, "is": True, "none": None, "list": [1, {"b": 2}]},
    {"other": "\u202e", "text": "b"},
]
SEQUENCES = [("one", "MKTAYI"), ("two", ""), ("three", "M")]


@pytest.mark.parametrize(
    ("name", "content", "named", "rows"),
    [
        (
            "a.txt",
            "\ufeffthe cat\n\n  \n the dog \r\n",
            "text",
            [{"text": "the cat"}, {"text": " the dog "}],
        ),
        (
            "a.csv",
            'item,text,is\n7,"a, ""b""\nc",x\n8,d,=1\n',
            "text",
            [{"item": "7", "text": 'a, "b"\nc', "is": "x"}, {"item": "8", "text": "d", "is": "=1"}],
        ),
        ("a.tsv", 'n\ttext\n1\t"a" b\n', "text", [{"n": "1", "text": '"a" b'}]),
        (
            "a.csv",
            "x,the cat\ny,the dog\n",
            "2",
            [{"1": "x", "2": "the cat"}, {"1": "y", "2": "the dog"}],
        ),
        ("a.jsonl", "\n".join(map(json.dumps, JSON)), "text", JSON),
        (
            "a.fa",
            ">one of two\r\nMKT\r\nAYI*\r\n\r\n>two\r\n\r\n>three\nM\n",
            "text",
            [{"id": id, "text": text} for id, text in SEQUENCES],
        ),
    ],
)
def test_rows_keep_all_columns_in_order(file, name, content, named, rows) -> None:
    found = read(file(name, content), [named])
    assert [list(row.items()) for row in found] == [list(row.items()) for row in rows]


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_file_that_was_cut_off_says_so(ending, file, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    with pa.output_stream(str(tmp_path / f"a.txt.{ending}")) as stream:
        stream.write(b"".join(b"%d\n" % (n * n) for n in range(100)))
    packed = (tmp_path / f"a.txt.{ending}").read_bytes()
    with pytest.raises(CorpusError, match=f"cannot read .*a.txt.{ending}"):
        read(file(f"a.txt.{ending}", packed[: len(packed) // 2]))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert read("-")[1] == {"text": "b"}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"s": "x"}\n')))
    assert read("-", ["s"], format="jsonl") == [{"s": "x"}]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CorpusError, match="there is no standard input"):
        read("-")


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"there is no file 'the cat sat\.'"):
        read("the cat sat.")
    with pytest.raises(CorpusError, match=r"holds no file that ends in \.csv, \.fasta"):
        read(str(tmp_path))
    with pytest.raises(CorpusError, match="there is no file"):
        read("nul\x00")
    with pytest.raises(CorpusError, match=r"format is one of 'csv'.*not 'xml'"):
        read("-", format="xml")


# -- BLiMP


def paradigm(name: str, count: int, field: str = "syntax") -> str:
    rows = [
        {
            "sentence_good": f"the cat {n}",
            "sentence_bad": f"cat the {n}",
            "field": field,
            "linguistics_term": "order",
            "UID": name,
            "one_prefix_prefix": "never kept",
            "pairID": str(n),
        }
        for n in range(count)
    ]
    return "\n".join(map(json.dumps, rows))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name in ("word_order", "agreement"):
        (tmp_path / f"{name}.jsonl").write_text(paradigm(name, 30))
    (tmp_path / "README.md").write_text("not a paradigm")
    return str(tmp_path)


def test_blimp_is_a_folder_of_paradigms(folder: str) -> None:
    items = read_blimp(folder)
    assert [item["id"] for item in items[:31:15]] == [
        *("agreement/0", "agreement/15", "word_order/0"),
    ]
    assert len(items) == 60
    assert [items[0][name] for name in PAIR] == ["the cat 0", "cat the 0"]
    assert dict(items[0]) == {
        "id": "agreement/0",
        "UID": "agreement",
        "linguistics_term": "order",
        "field": "syntax",
        "sentence_good": "the cat 0",
        "sentence_bad": "cat the 0",
    }


def test_paradigms_by_name(folder: str) -> None:
    (one,) = {item["UID"] for item in read_blimp(folder, paradigms=["word_order"])}
    assert one == "word_order"
    with pytest.raises(CorpusError, match=r"has no paradigm 'wordorder'; did you mean 'word_order"):
        read_blimp(folder, paradigms=["wordorder"])


def test_a_part_is_the_first_in_hashed_order(folder: str) -> None:
    ids = [str(item["id"]) for item in read_blimp(folder, limit=7)]
    assert len(ids) == 14
    every = [f"agreement/{n}" for n in range(30)]
    assert ids[:7] == sorted(every, key=hashed)[:7]
    more = [item["id"] for item in read_blimp(folder, limit=9)]
    assert more[:7] == ids[:7]
    # neither the file's order nor one that the two paradigms share
    assert ids[:7] != every[:7]
    assert [one.split("/")[1] for one in ids[:7]] != [one.split("/")[1] for one in ids[7:]]


def test_what_is_no_blimp(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"has no .jsonl file"):
        read_blimp(str(tmp_path))
    with pytest.raises(CorpusError, match=r"is not a folder; give a folder of .jsonl files"):
        read_blimp(str(tmp_path / "missing"))
    (tmp_path / "x.jsonl").write_text('{"sentence_good": "a"}')
    with pytest.raises(CorpusError, match=r"line 1 of '.*x.jsonl' has no column 'sentence_bad'"):
        read_blimp(str(tmp_path))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A `datasets` library that answers as the hub would, and what it was asked."""
    library = pytest.importorskip("datasets")
    asked: list[Any] = []

    def load_dataset(place: str, config: str, **options: Any) -> Any:
        asked.append((place, config, options))
        rows = [json.loads(line) for line in paradigm(config, 3).splitlines()]
        for n, row in enumerate(rows):
            # as the hub has them: a number, under another name
            del row["pairID"], row["one_prefix_prefix"]
            row["pair_id"] = n
        return library.Dataset.from_list(rows)

    monkeypatch.setattr(library, "load_dataset", load_dataset)
    monkeypatch.setattr(library, "get_dataset_config_names", lambda place: ["b_2", "a_1"])
    return asked


def test_blimp_on_the_hub_has_a_configuration_a_paradigm(hub: list[Any]) -> None:
    items = read_blimp("nyu-mll/blimp")
    options = {"split": "train", "revision": None}
    assert hub == [("nyu-mll/blimp", "a_1", options), ("nyu-mll/blimp", "b_2", options)]
    assert [item["id"] for item in items] == [
        *("a_1/0", "a_1/1", "a_1/2", "b_2/0", "b_2/1", "b_2/2"),
    ]
    assert list(items[0]) == ["id", "UID", "linguistics_term", "field", *blimp.PAIR]
    assert [items[1][name] for name in PAIR] == ["the cat 1", "cat the 1"]


def test_one_paradigm_of_the_hub_alone_is_loaded(hub: list[Any]) -> None:
    assert len(read_blimp("nyu-mll/blimp", paradigms=["b_2"], limit=2)) == 2
    assert [config for _, config, _ in hub] == ["b_2"]


def test_a_hub_that_does_not_answer(hub: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(place: str) -> None:
        raise ConnectionError("no route\nto the hub")

    monkeypatch.setattr("datasets.get_dataset_config_names", fail)
    with pytest.raises(
        CorpusError, match="cannot load the dataset 'nyu-mll/blimp': ConnectionError: no route"
    ):
        read_blimp("nyu-mll/blimp")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"pip install 'unmask\[datasets\]'"):
        read_blimp("nyu-mll/blimp")


@pytest.mark.assets("BLiMP")
def test_the_real_blimp() -> None:
    folder = real_data("blimp/adjunct_island.jsonl").parent
    items = read_blimp(str(folder))
    assert len(items) == 67_000
    assert len({item["id"] for item in items}) == 67_000
    assert len({item["UID"] for item in items}) == 67


# -- rows


def text_score(**others: Any) -> TextScore:
    words = (WordScore("the", 0, 3, 1, -1.0), WordScore("cats", 4, 8, 2, -2.5))
    given: dict[str, Any] = {"score": -3.5, "tokens": 3, "words": words, "forward_passes": 3}
    return TextScore(text="the cats", method="pll", **given | others)


def test_scores_as_rows() -> None:
    (row,) = result_rows(text_score())
    assert (row["score"], row["tokens"]) == (-3.5, 3)
    assert row["reason"] is None
    first, second = result_rows(text_score(), words=True, unit=BITS)
    assert first["surprisal"] == pytest.approx(1 / math.log(2))
    assert second["surprisal"] == pytest.approx(2.5 / math.log(2))
    picked = [second[name] for name in ("word_number", "word", "start", "end", "pieces")]
    assert picked == [2, "cats", 4, 8, 2]
    (ratio,) = result_rows(LogRatio(-0.5, 0.25, 8, 2, 16), unit=BITS)
    assert ratio["log_ratio"] == pytest.approx(-0.5 / math.log(2))
    assert ratio["standard_error"] == pytest.approx(0.25 / math.log(2))
    assert ratio["correct"] == 0


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "true"),
        (-1.5, "-1.5"),
        ("-1.5", "-1.5"),
        (3, "3"),
        ([1, "=x"], '[1, "=x"]'),
        ("=HYPERLINK(1)", "'\\=HYPERLINK(1)"),
        ("@x", "'\\@x"),
        (" +x", "'\\ +x"),
        ("a\nb\tc", "a\nb\tc"),
        ("'=x", "'=x"),
        ("it's", "it's"),
        ("a\u00a0b\u200cc\u3000d", "a\u00a0b\u200cc\u3000d"),
        ("\u202ex", "\\u202ex"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("<b>x</b> | *y*", "<b>x</b> | *y*"),
    ],
)
def test_cells_are_inert(value: object, shown: str) -> None:
    assert cell(value) == shown


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_what_was_written_is_read_as_it_was(format: str, tmp_path: Path) -> None:
    texts = [
        "- a dog runs.",
        "=1+1",
        "'=1+1",
        "'\\=x",
        "it's 'so'",
        "a\u00a0dog\u200c runs.",
        "two\u3000dogs",
        'she said "yes", then\u200f no',
        " +x",
        "-1.5",
    ]
    path = tmp_path / f"a.{format}"
    rows: list[dict[str, object]] = [{"text": text, "model": "m"} for text in texts]
    path.write_text(written(rows, ["text", "model", "reason"], format), encoding="utf-8")
    assert [row["text"] for row in read(str(path))] == texts
