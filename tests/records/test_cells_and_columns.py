"""What a cell, a column and a name of a file become on their way through a job. Without a model."""

import csv
import json
import math
import os
import time
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unmask.errors import CorpusError, SupportError
from unmask.jobs import parts
from unmask.jobs.kinds import Kind
from unmask.jobs.kinds.fill import FillKind
from unmask.markup import data_cell, from_data_cell
from unmask.records import places
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.records.files import RowBatch, open_input
from unmask.records.rows import Row
from unmask.records.writing import written


def table_of(values: list[Any]) -> pa.Table:
    batch = RowBatch([{"x": value} for value in values], [None] * len(values))
    return parts.part_table(batch, [[{"n": 1}]] * len(values), Numbers())


class Numbers(Kind):
    """Results that are a number."""

    output_columns: ClassVar = {"n": "int64"}


# --- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "of"),
    [
        ([1, None, 2], pa.int64()),
        ([0.5, 1.0, -0.0], pa.float64()),
        (["a", None, "1"], pa.string()),
        ([True, None], pa.bool_()),
        ([None, None], pa.null()),
        # what has no type of Parquet is JSON, a number that is whole among others too
        ([1, 0.5], pa.string()),
        ([True, 1, "1", None], pa.string()),
        ([2**63, -1], pa.string()),
        ([2**64], pa.string()),
        (["\ud800"], pa.string()),
        ([[1, {"b": [None, "x"]}], {"a": 1.0}, ""], pa.string()),
    ],
)
def test_every_value_of_json_is_read_back_as_it_was(values, of) -> None:
    table = table_of(values)
    assert table.schema.field("x").type == of
    pq.write_table(table, file := pa.BufferOutputStream())
    again = pq.ParquetFile(pa.BufferReader(file.getvalue())).read()
    found = [row["x"] for row in parts.rows_of(again)]
    assert [(type(one), one) for one in found] == [(type(one), one) for one in values]


def test_a_row_without_a_column_is_read_back_without_it() -> None:
    rows = [{"a": 1}, {"b": None, "a": None}, {}, {"b": "x"}]
    results = [[{"n": 0}, {"n": 1}], [{"n": 2}], [{"n": 3}], [{"n": 4}]]
    table = parts.part_table(RowBatch(rows, [None] * 4), results, Numbers())
    assert list(parts.rows_of(table)) == [
        *({"a": 1, "n": 0}, {"a": 1, "n": 1}, {"a": None, "b": None, "n": 2}, {"n": 3}),
        {"b": "x", "n": 4},
    ]


def test_a_text_with_many_rows_is_never_repeated_for_all_of_them_at_once(monkeypatch) -> None:
    monkeypatch.setattr(parts, "_ROWS_AT_ONCE", 4)
    batch = RowBatch([{"text": "a"}, {"text": "b"}], [None, None])
    found: list[list[Row]] = [[{"n": n} for n in range(7)], [{"n": n} for n in range(3)]]
    table = parts.part_table(batch, found, Numbers())
    assert [len(chunk) for chunk in table.column("text").chunks] == [4, 4, 2]
    assert table.schema.field("text").type == pa.string()
    assert table.to_pylist() == [
        *({"text": "a", "n": n} for n in range(7)),
        *({"text": "b", "n": n} for n in range(3)),
    ]


def test_a_part_without_rows_has_its_columns() -> None:
    table = parts.part_table(RowBatch([], []), [], Numbers())
    assert (table.num_rows, table.column_names) == (0, ["n"])


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_two_columns_of_one_name_are_refused(ending, tmp_path) -> None:
    comma = "," if ending == "csv" else "\t"
    place = tmp_path / f"a.{ending}"
    place.write_text("text,x,x\nthe cat sat.,1,2\n".replace(",", comma))
    said = "has 2 columns 'x'; give each a name of its own"
    with pytest.raises(CorpusError, match=said):
        open_input([str(place)], ["text"])
    # by numbers all columns have names of their own
    assert open_input([str(place)], ["1"]).names == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("first", "columns", "names"),
    [
        ("text", ["text"], ["text"]),
        ("text,a;b;c", ["text"], ["text", "a;b;c"]),
        ("a,b;text;c", ["text"], ["a,b", "text", "c"]),
        ("a;text\tb;c", ["a;text"], ["a;text", "b;c"]),
        ('"a;b"', ["a;b"], ["a;b"]),
        # by numbers, where the first line is a row
        ("x;the cat;y", ["2"], ["1", "2", "3"]),
        ("the cat;x", ["1"], ["1", "2"]),
        ('"the cat; the dog"', ["1"], ["1"]),
    ],
)
def test_the_first_line_of_csv_tells_the_delimiter(first, columns, names, tmp_path) -> None:
    place = str(tmp_path / "a.csv")
    Path(place).write_text(f"{first}\n{first}\n")
    assert open_input([place], columns).names == names
    (sentence, *_) = read_corpus(CorpusSpec(place, columns=tuple(columns))).sentences
    assert sentence.text == next(open_input([place], columns).rows_or_raise()).row[columns[0]]


def test_a_table_of_many_columns_takes_a_time_in_proportion(tmp_path) -> None:
    place = str(tmp_path / "a.csv")
    names = ["text", *(f"c{n}" for n in range(20_000))]
    Path(place).write_text(f"{','.join(names)}\n{','.join(names)}\n")
    began = time.process_time()
    assert open_input([place], ["text"]).names == names
    # by comparing every two names some 20 s
    assert time.process_time() - began < 5


def test_names_of_parquet_columns_that_are_numbers_or_stand_twice(tmp_path) -> None:
    place = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["a"], "7": ["b"]}), place)
    assert open_input([place], ["7"]).names == ["text", "7"]
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(twice, place)
    with pytest.raises(CorpusError, match="has 2 columns 'text'; give each a name of its own"):
        open_input([place], ["text"])


# --- cells ---------------------------------------------------------------------------------------


def rows_of(place: Path) -> list[Row]:
    return [record.row for record in open_input([str(place)]).rows_or_raise()]


@pytest.mark.parametrize("last", ["n", "model,reason"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_an_apostrophe_of_somebody_elses_file_stays(ending, last, tmp_path) -> None:
    """Whatever its columns are called."""
    place, names = tmp_path / f"a.{ending}", ["text", "'@id", *last.split(",")]
    cells = ["'-tis so.", "'=1", *"'+" * (len(names) - 2)][: len(names)]
    comma = "," if ending == "csv" else "\t"
    place.write_text(f"{comma.join(names)}\n{comma.join(cells)}\n")
    assert rows_of(place) == [dict(zip(names, cells, strict=True))]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_mark_that_was_put_there_is_taken_off(ending, tmp_path) -> None:
    place, names = tmp_path / f"a.{ending}", ["=text", "text", "@id"]
    given = {"=text": "'\\=x", "text": "=1+1", "@id": "'-x"}
    place.write_text(written([given], names, ending))
    assert rows_of(place) == [given]


@pytest.mark.parametrize("tabs", [False, True])
@pytest.mark.parametrize("text", ["\tfoo", "=a", "'=a", "-1", "'\\=a", " \t=a", "\\tfoo", "'tis"])
def test_a_cell_has_no_more_marks_than_before(text, tabs) -> None:
    again = from_data_cell(data_cell(text, tabs=tabs))
    assert again == (text.replace("\t", "\\t") if tabs else text)


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_values_that_json_does_not_have_are_texts_or_nothing(format) -> None:
    day = date(2024, 2, 29)
    row = {
        "day": day,
        "many": [day, {"x": math.nan}],
        "price": Decimal("1.50"),
        "bytes": b"ab",
        "nan": math.nan,
        "inf": -math.inf,
        "n": 1.5,
        "ok": True,
    }
    text = written([row], list(row), format)
    if format == "jsonl":
        assert json.loads(text) == {
            "day": "2024-02-29",
            "many": ["2024-02-29", {"x": None}],
            "price": "1.50",
            "bytes": "b'ab'",
            "nan": None,
            "inf": None,
            "n": 1.5,
            "ok": True,
        }
        return
    lines = [*csv.reader(text.splitlines())] if format == "csv" else []
    cells = lines[1] if lines else text.splitlines()[1].split("\t")
    assert cells == [
        *("2024-02-29", '["2024-02-29", {"x": null}]', "1.50", "b'ab'", "", "", "1.5", "true"),
    ]


# --- what a row asks for -------------------------------------------------------------------------


def test_an_empty_cell_of_a_request_is_not_given() -> None:
    asked = FillKind(targets=["man"], piece_prior="uniform", method="mlm", support="auto")
    cells = dict.fromkeys(("blanks", "method", "piece_prior", "support", "targets"), "")
    assert asked.with_fields({"text": "a [MASK].", **cells}) == asked


@pytest.mark.parametrize(
    ("name", "cell", "value"),
    [
        ("support", "20", 20),
        ("support", "man,dog", ["man", "dog"]),
        ("support", "vocabulary", "vocabulary"),
        ("blanks", "man", ["man"]),
        ("blanks", "0:3", [(0, 3)]),
        ("targets", "man, dog", ["man", "dog"]),
        ("piece_prior", "1=0.5,2=0.5", {1: 0.5, 2: 0.5}),
        ("piece_prior", "uniform", "uniform"),
        # as JSON has them
        ("blanks", ["man", [0, 3]], ["man", [0, 3]]),
        ("piece_prior", {"1": 1.0}, {1: 1.0}),
    ],
)
def test_a_cell_of_a_request_is_read_as_an_option(name, cell, value) -> None:
    asked = FillKind(targets=["cat"]) if name == "piece_prior" else FillKind()
    assert getattr(asked.with_fields({name: cell}), name) == value


def test_a_prior_that_is_none_is_named() -> None:
    with pytest.raises(SupportError, match="piece_prior takes uniform, or numbers"):
        FillKind(targets=["cat"]).with_fields({"piece_prior": "1=x"})


# --- files ---------------------------------------------------------------------------------------


def test_a_pattern_may_begin_with_any_folder(tmp_path, monkeypatch) -> None:
    for name in ("data1", "data2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("x\n")
    first = tmp_path.parts[1]
    within = tmp_path.relative_to(f"/{first}")
    pattern = f"/{first[:-1]}[{first[-1]}]/{within}/data*/a.txt"
    found = places.find([pattern], [".txt"])
    assert [one.place for one in found] == [str(tmp_path / f"data{n}/a.txt") for n in (1, 2)]
    monkeypatch.chdir(tmp_path)
    assert [one.name for one in places.find(["data*/a.txt"], [".txt"])] == [
        *("data1/a.txt", "data2/a.txt"),
    ]


@pytest.mark.usefixtures("disk")
def test_a_file_that_is_named_is_read_whatever_its_name_begins_with(tmp_path) -> None:
    for name in ("_a.txt", ".b.txt", "c.txt"):
        (tmp_path / name).write_text("x\n")
    for given in (str(tmp_path), str(tmp_path / "*.txt"), f"disk://{tmp_path}"):
        assert [one.name for one in places.find([given], [".txt"])] == ["c.txt"]
    with pytest.raises(CorpusError, match=r"'disk://.*/none' holds no file that ends in \.txt"):
        places.find([f"disk://{tmp_path}/none"], [".txt"])
    for name in ("_a.txt", ".b.txt"):
        for given in (str(tmp_path / name), f"disk://{tmp_path / name}"):
            assert [one.name for one in places.find([given], [".txt"])] == [name]


def test_every_real_file_is_read_once(tmp_path) -> None:
    """Of a folder with a link to itself, and where others lead to a folder and to a file."""
    folder = tmp_path / "d"
    (folder / "below").mkdir(parents=True)
    (folder / "a.txt").write_text("x\n")
    (folder / "below" / "b.txt").write_text("x\n")
    for name, target in (("self", folder), ("again", folder / "below"), ("below/up", folder)):
        (folder / name).symlink_to(target)
    (folder / "c.txt").symlink_to(folder / "a.txt")
    for given in (
        [str(folder)],
        [f"{folder}/**/*.txt"],
        [f"{folder}/*.txt", str(folder / "below")],
        [str(folder / "a.txt"), str(folder / "c.txt"), str(folder)],
    ):
        found = places.find(given, [".txt"])
        assert sorted(os.path.realpath(one.place) for one in found) == [
            str(folder / "a.txt"),
            str(folder / "below" / "b.txt"),
        ]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("**/*.txt", "abc"), ("x/**/*.txt", "bc"), ("x/*.txt", "b"), ("**/y/*.txt", "c")],
)
def test_two_stars_are_any_number_of_folders(pattern, names, tmp_path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    for name in ("a.txt", "x/b.txt", "x/y/c.txt"):
        (tmp_path / name).write_text("x\n")
    found = places.find([f"{tmp_path}/{pattern}"], [".txt"])
    assert sorted(Path(one.place).stem for one in found) == list(names)
