"""Several files, empty and damaged ones: no row is lost, mixed up or changed without a word."""

import csv
import hashlib
import json
import math
import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unmask import cli
from unmask.jobs.folder import folder_at
from unmask.jobs.parts import merge
from unmask.jobs.plan import sha256

pytestmark = pytest.mark.usefixtures("read_once")

HEADER = "text,word1,word2\n"
ITEM = "a [MASK] [MASK].,cat,sat\n"


def run(*arguments: object) -> int:
    return cli.main(list(map(str, arguments)))


def write(place: Path, text: str) -> Path:
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    return place


def read(place: Path) -> list[dict[str, str]]:
    with place.open(newline="") as file:
        return list(csv.DictReader(file))


# --- what goes in --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["orders", "log-pool"])
def test_files_with_a_header_alone_are_passed_over(method, model, tmp_path) -> None:
    """With tables an item is a unit of its own, and so is a header."""
    files = [
        write(tmp_path / name, HEADER + rows) for name, rows in (("a.csv", ""), ("b.csv", ITEM))
    ]
    asked = ["pairs", *files, "-m", model, "--method", method, "--quiet"]
    assert run(*asked, "-o", tmp_path / "out.csv") == 0
    (row,) = read(tmp_path / "out.csv")
    assert row["text"] == "a [MASK] [MASK]."
    assert not row["reason"]


@pytest.mark.slow
def test_a_file_that_cannot_be_read_leaves_no_complete_output(model, tmp_path, capsys) -> None:
    table = pa.table({"text": ["the cat sat.", "a dog ran."]})
    for name in "abc":
        pq.write_table(table, tmp_path / f"{name}.parquet")
    whole = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[:-30])
    asked = ["score", tmp_path / "*.parquet", "-m", model, "--quiet", "-o", tmp_path / "out.csv"]
    assert run(*asked) == 1
    said = capsys.readouterr().err
    assert "1 of 3 units failed, e.g.: cannot read" in said
    assert "b.parquet" in said
    assert not (tmp_path / "out.csv").exists()
    # the others are done, and stay
    assert len(list((tmp_path / "out.csv.parts").glob("part-*"))) == 2


@pytest.mark.slow
def test_a_shard_without_texts_is_no_failure(model, tmp_path, capsys) -> None:
    write(tmp_path / "in.txt", "the cat sat.\n")
    write(tmp_path / "pairs.csv", HEADER + ITEM)
    for asked in (
        ["score", tmp_path / "in.txt", "-m", model],
        ["pairs", tmp_path / "pairs.csv", "-m", model],
        ["score", tmp_path / "pairs.csv", "-m", model, "--pairs", "word1,word2", "--by", "text"],
        ["dependence", tmp_path / "in.txt", "-m", model],
    ):
        where = f"{tmp_path}/{asked[0]}{len(asked)}/"
        assert run(*asked, "-o", where, "--shard", "3/4") == 0, capsys.readouterr().err
        assert re.search(r"\b0 (text|item)s are in ", capsys.readouterr().err)


@pytest.mark.slow
def test_a_parquet_file_of_any_name_is_read_with_its_format(model, tmp_path) -> None:
    rows = {"text": ["the cat sat."], "day": [date(2024, 2, 29)], "n": [math.nan]}
    pq.write_table(pa.table(rows), tmp_path / "in.pq")
    asked = ["score", tmp_path / "in.pq", "--input-format", "parquet", "-m", model, "--quiet"]
    assert run(*asked, "-o", tmp_path / "out.csv") == 0
    (row,) = read(tmp_path / "out.csv")
    assert (row["text"], row["day"], row["n"]) == ("the cat sat.", "2024-02-29", "")
    assert row["score"]
    item = {"text": ["a [MASK] [MASK]."], "word1": ["cat"], "word2": ["sat"]}
    pq.write_table(pa.table(item), tmp_path / "pairs.pq")
    asked = ["pairs", tmp_path / "pairs.pq", "--input-format", "parquet", "-m", model, "--quiet"]
    assert run(*asked, "-o", tmp_path / "pairs.csv") == 0


@pytest.mark.slow
def test_a_changed_file_is_noticed_if_another_has_its_name(model, tmp_path, capsys) -> None:
    for folder in "xy":
        write(tmp_path / folder / "a.txt", "the cat sat.\n")
    files = [tmp_path / "x" / "a.txt", tmp_path / "y" / "a.txt"]
    asked = ["score", *files, "-m", model, "--quiet", "-o", f"{tmp_path}/out/"]
    assert run(*asked) == 0
    write(files[0], "a dog sat.\n")
    assert run(*asked) == 2
    assert "'a.txt' of the input has changed" in capsys.readouterr().err


# --- what is merged ------------------------------------------------------------------------------


@pytest.fixture
def parts(model, tmp_path) -> list[Path]:
    """The parts of a job of two units, which tests write other rows into."""
    write(tmp_path / "in.txt", "the cat sat.\na dog ran.\n")
    asked = ["score", tmp_path / "in.txt", "-m", model, "--quiet", "--rows-per-unit", "1"]
    assert run(*asked, "-o", f"{tmp_path}/s/") == 0
    return sorted((tmp_path / "s").glob("part-*.parquet"))


def change(part: Path, **columns: Any) -> None:
    """Other columns in a part, under the same plan."""
    table = pq.read_table(part)
    values = {name: table.column(name) for name in table.column_names} | columns
    made = pa.table(values).replace_schema_metadata(table.schema.metadata)
    pq.write_table(made, part)
    receive(part)


def receive(part: Path) -> None:
    """The receipt of a part that was changed."""
    receipt = part.with_name(f"_{part.stem}.json")
    values = json.loads(receipt.read_text())
    del values["check"]
    values["sha256"] = hashlib.sha256(part.read_bytes()).hexdigest()
    values["rows"] = pq.read_metadata(part).num_rows
    values["check"] = sha256([values])
    receipt.write_text(json.dumps(values))


def merged(place: Path, output: Path, format: str) -> int:
    folder = folder_at(str(place))
    return merge(folder, folder.receipts(), output, format)


@pytest.mark.slow
def test_an_empty_part_has_no_second_header(parts, tmp_path) -> None:
    table = pq.read_table(parts[0])
    pq.write_table(table.slice(0, 0), parts[0])
    receive(parts[0])
    assert merged(tmp_path / "s", tmp_path / "out.csv", "csv") == 1
    (row,) = read(tmp_path / "out.csv")
    assert row["text"] == "a dog ran."


@pytest.mark.slow
def test_texts_stay_as_they_are_where_a_part_has_another_type(parts, tmp_path) -> None:
    change(parts[0], extra=pa.array(["u"]).dictionary_encode(), number=pa.array(["x"]))
    change(parts[1], extra=pa.array(["v"]), number=pa.array([7]))
    merged(tmp_path / "s", tmp_path / "out.jsonl", "jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["extra"], row["number"]) for row in rows] == [("u", "x"), ("v", 7)]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_digits_are_not_lost(format, parts, tmp_path) -> None:
    """Of a column of several types the values are texts."""
    change(parts[0], id=pa.array([2**53 + 1]), n=pa.array([2**64 - 1], pa.uint64()))
    change(parts[1], id=pa.array([1.5]), n=pa.array([-1]))
    merged(tmp_path / "s", out := tmp_path / f"out.{format}", format)
    rows = read(out) if format == "csv" else pq.read_table(out).to_pylist()
    assert [(row["id"], row["n"]) for row in rows] == [
        (str(2**53 + 1), str(2**64 - 1)),
        ("1.5", "-1"),
    ]
