"""However a file is cut, its units hold the rows of the whole file, and their lines the numbers."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unmask.errors import CorpusError
from unmask.records import files
from unmask.records.files import Source, open_input, read_unit

TEXTS = ["the cat sat.", "é, a dog", "x" * 50, 'so "they" say', "last"]
CONTENTS = {
    "txt": "\ufeff" + "\n \n".join(TEXTS),
    "jsonl": '{"text": "a"}\n{"text": "b c", "n": 1}\n\nno JSON\n{"text": "é"}\n{"text": "d"}\n',
    "tsv": "n\ttext\n" + "\n".join(f"{n}\t{text}" for n, text in enumerate(TEXTS)),
    "csv": '\n"n\na",text\n1,"a;\nb"\n\n2,"c ""d"""\n3\n4,"é\n\n"\n5,e\n',
    "numbers.csv": 'the dog,1\n"a\nb",2\nc,3\n\nd,4\n',
    "semicolons.csv": 'n;text\n1;"a,\nb"\n2;"c\n\nd"\n3;e\n',
    "bad.csv": 'text,n\na,1\nb,2\nc,"3"x\nd,4\n',
    "fasta": "\n>a one\nMKT\nAYI*\n\n>b\n>c\nM\n \nK\n",
}


def rows(source: Source, columns: list[str]) -> list[tuple[Any, str | None]]:
    batches = [read_unit(unit, columns) for unit in source.units]
    return [pair for one in batches for pair in zip(one.rows, one.reasons, strict=True)]


def without_place(row: tuple[Any, str | None]) -> str:
    return re.sub(r"line \S+ of '.*?'( after byte \S+)?|'/.*?'", "", row[1] or "")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.usefixtures("disk")
def test_units_hold_the_rows_of_the_whole(name, end, tmp_path, monkeypatch) -> None:
    place, columns = tmp_path / f"a.{name}", ["1" if "numbers" in name else "text"]
    content = CONTENTS[name].replace("\n", end).encode()
    place.write_bytes(content)
    for ending in ("gz", "zst"):
        with pa.output_stream(f"{place}.{ending}") as stream:
            stream.write(content)
    whole = open_input([str(place)], columns).cut(1000)
    expected = rows(whole, columns)
    assert len(expected) == whole.rows
    for block in (7, 2**20):
        monkeypatch.setattr(files, "_BLOCK", block)
        for given in (str(place), f"{place}.gz", f"{place}.zst", f"disk://{place}"):
            for size in (1, 2, 3):
                source = open_input([given], columns).cut(size)
                found = rows(source, columns)
                assert [row for row, _ in found] == [row for row, _ in expected]
                assert list(map(without_place, found)) == list(map(without_place, expected))
                if source.rows is None:
                    continue
                # where lines are counted, a unit knows its own
                assert source.rows == len(expected)
                lines = [why and re.findall(r"line (\d+) of", why) for _, why in found]
                assert lines == [why and re.findall(r"line (\d+) of", why) for _, why in expected]
                assert source.unit_count == -(-len(expected) // size)
                last = list(source.units)[-1]
                assert last.rows == (size * (len(source.units) - 1) + 1, len(expected))


def test_a_limit_cuts_the_input_there(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("one\n\ntwo\nthree\n")
    pq.write_table(pa.table({"text": ["four", "five", "six"]}), tmp_path / "c.parquet")
    identities = []
    for limit in (1, 2, 4, 7, 8, 20):
        source = open_input([str(tmp_path)], limit=limit).cut(2)
        found = [row["text"] for row, _ in rows(source, ["text"])]
        assert found == [*["one", "two", "three"] * 2, "four", "five", "six"][:limit]
        assert source.rows == len(found)
        identities.append(source.identity)
    # another number of rows is another input
    assert all(one not in identities[:n] for n, one in enumerate(identities))


def test_there_are_units_for_every_shard_and_not_too_many(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("x\n" * 10)
    given = open_input([str(tmp_path)])
    assert [given.cut(100).unit_count, given.cut(100, at_least=7).unit_count] == [3, 12]
    assert given.cut(1, at_least=50).unit_count == 30
    few = given.cut(1, at_most=7)
    assert (few.unit_count, few.rows_per_unit) == (6, 5)
    # a unit has rows of one file alone
    assert given.cut(1, at_most=2).unit_count == 3
    assert [unit.number for unit in few.units] == list(range(6))


def test_a_slice_of_unknown_lines_names_its_first_byte(tmp_path, disk) -> None:
    place = tmp_path / "a.jsonl"
    place.write_text('{"text": "a"}\n' * 5 + "no\n")
    source = open_input([f"disk://{place}"]).cut(3)
    (reason,) = [why for _, why in rows(source, ["text"]) if why]
    assert re.match(r"line \d of 'disk://.*a.jsonl' after byte \d+ is not JSON", reason)
    assert next(iter(source.units)).name.startswith("bytes 0 to 36 of 'disk://")


@pytest.mark.usefixtures("disk")
@pytest.mark.parametrize("scheme", ["", "disk://"])
def test_a_file_of_parquet_that_was_written_again_is_read_again(scheme, tmp_path) -> None:
    for texts in (["a", "b", "c"], ["d", "e", "f"], ["g"]):
        pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=2)
        source = open_input([f"{scheme}{tmp_path}/a.parquet"]).cut(2)
        assert [row["text"] for row, _ in rows(source, ["text"])] == texts


def test_a_file_that_is_gone_says_so(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    source = open_input([str(tmp_path / "a.txt")]).cut(1)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(CorpusError, match=r"cannot read '.*a.txt': No such file"):
        rows(source, ["text"])
