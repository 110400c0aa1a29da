"""`fill` and `pairs` into folders, every kind from awkward inputs, and folders as one file."""

import csv
import importlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unmask import cli
from unmask.cli import many
from unmask.jobs import running
from unmask.jobs.worker import Worker
from unmask.records.files import open_input

pytestmark = pytest.mark.usefixtures("read_once")


def run(*arguments: object) -> int:
    return cli.main(list(map(str, arguments)))


def rows_of(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.read_text().splitlines()]


@pytest.mark.slow
def test_more_files_than_units_are_refused_and_others_share_the_limit(
    model, tmp_path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(running, "MOST_UNITS", 4)
    monkeypatch.setattr(running, "rows_per_unit", lambda *_: 1)
    (source := tmp_path / "in").mkdir()
    for n in range(4):
        (source / f"{n}.txt").write_text("the cat sat.\n" * (4 * n + 1))
    asked = ["score", source, "-m", model, "--quiet", "-o"]
    assert run(*asked, f"{tmp_path}/run/") == 0
    assert len(list((tmp_path / "run").glob("part-*"))) == 4
    (source / "4.txt").write_text("a dog ran.\n")
    assert run(*asked, f"{tmp_path}/more/") == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == (
        "unmask: the input has 5 files, each at least one part, and a run takes at most 4; join "
        "files, or give some of them at a time"
    )


KIND = """
from dataclasses import dataclass, field
from unmask import Settings
from unmask.jobs.kinds import Kind, Reason

@dataclass(frozen=True, kw_only=True)
class Count(Kind):
    model_name: str = ""
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)
    name, verb = "count", "counted"
    output_columns = {"tokens": "int64", "model": "string", "reason": "string"}

    def read(self, lm, rows):
        return [row["text"] if row["text"].strip() else Reason("it is empty") for row in rows]

    def run(self, lm, items):
        counts = [len(lm.tokenizer(text)["input_ids"]) for text in items]
        return [[{"tokens": n, "model": self.model_name, "reason": None}] for n in counts]
"""


@pytest.mark.slow
def test_a_kind_is_one_file(model, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "kind_of_a_user.py").write_text(KIND)
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("kind_of_a_user").Count(model_name="m")
    (tmp_path / "in.csv").write_text("n,text\n1,the cat\n2,\n3,a dog sat\n")
    expected = [("1", 4, None), ("2", None, "it is empty"), ("3", 5, None)]
    real, ran = type(kind).run, []

    def interrupted(self, lm, items):
        ran.append(items)
        if items == ["a dog sat"] != ran[0]:
            raise KeyboardInterrupt
        return real(self, lm, items)

    for name in ("out.csv", "out.jsonl", "out.parquet", "out/"):
        output = str(tmp_path / name) + "/" * ("." not in name)
        chosen = many.RowsCommand(model=str(model), output=output, rows_per_unit=2)
        rows = open_input([str(tmp_path / "in.csv")])
        # the second unit is interrupted, and the first is not run again
        ran.clear()
        with monkeypatch.context() as patch:
            patch.setattr(type(kind), "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                many.run(chosen, kind, rows, many.output_of(chosen))
            ran.clear()
            assert many.run(chosen, kind, rows, many.output_of(chosen)) == 0
        assert ran == [["a dog sat"]]
        assert "2 of 3 texts counted; the others have a reason" in capsys.readouterr().err
        place = tmp_path / name
        files = sorted(place.glob("part-*")) if place.is_dir() else [place]
        given = open_input(list(map(str, files)), ["n"])
        found = [record.row for record in given.rows_or_raise()]
        rows = [
            (r["n"], int(r["tokens"]) if r["tokens"] else None, r["reason"] or None) for r in found
        ]
        assert rows == expected, name


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet"])
def test_a_folder_as_one_file(format, model, tmp_path, capsys) -> None:
    """The rows that one file would have had; of columns with several types, texts."""
    lines = [
        {"text": "the cat.", "n": 1},
        {"text": "a dog.", "n": "x"},
        {"text": "a cat.", "m": 1.5},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    given = ["score", tmp_path / "in.jsonl", "-m", model, "--quiet"]
    assert run(*given, "-o", f"{tmp_path}/s/", "--rows-per-unit", "1") == 0
    merged = tmp_path / f"merged.{format}"
    assert run("merge", tmp_path / "s", merged) == 0
    assert capsys.readouterr().err == f"unmask: 3 rows are in '{merged}'\n"
    if format == "parquet":
        found = pq.read_table(merged).to_pylist()
    elif format == "jsonl":
        found = rows_of(merged)
    else:
        found = list(csv.DictReader(merged.open(), delimiter="\t" if format == "tsv" else ","))
    assert [row["text"] for row in found] == [line["text"] for line in lines]
    assert [str(row.get("n") or "") for row in found] == ["1", "x", ""]
    assert [float(row["m"]) for row in found if row.get("m")] == [1.5]
    (receipt,) = (tmp_path / "s").glob("_part-000001-*")
    receipt.unlink()
    assert run("merge", tmp_path / "s", merged, "--quiet") == 1
    assert capsys.readouterr().err.startswith("unmask: 1 part is missing: 1; repeat the command")


HOSTILE = {
    "a.txt": b"the cat sat.\n\xff\xfe bad\nthe \x00 dog.\n" + b"x" * 10_000_000 + b"\na dog ran.\n",
    "b.jsonl": b'{"text": "a cat."}\n{"text": \n[1]\n{"txt": "a"}\n{"text": 7}\n'
    b'{"text": "\\ud800"}\n{"text": "a dog.", "score_": 1e400}\n{"text": "the mat."}\n',
    "c.csv": b'text,n\na cat.,1\na dog.,"2\n',
    "d.csv": b"other,n\na cat.,1\n",
    "e.tsv": b"text\tn\na cat.\t1\na dog.\nthe man.\t2\n",
    "f.txt": b"",
    "g.parquet": b"PAR1 not really",
}
GOOD = {"a.txt": 2, "b.jsonl": 2, "c.csv": 1, "d.csv": 0, "e.tsv": 2}
BAD = {"a.txt": 3, "b.jsonl": 6, "c.csv": 1, "d.csv": 1, "e.tsv": 1}


@pytest.mark.slow
def test_hostile_inputs_stop_nothing(model, tmp_path, capsys) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name, content in HOSTILE.items():
        (source / name).write_bytes(content)
    pq.write_table(pa.table({"text": ["a cat."], "n": [1]}), source / "h-1.parquet")
    # another schema, a column that is gone, one of ours, and texts that are not UTF-8
    pq.write_table(pa.table({"text": [3, 4], "n": ["x", "y"]}), source / "h-2.parquet")
    pq.write_table(pa.table({"txt": ["a cat."]}), source / "h-3.parquet")
    pq.write_table(pa.table({"text": ["a cat."], "score": [1.0]}), source / "h-4.parquet")
    bad = pa.array([b"a cat.", b"\xff\xfe"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": bad}), source / "h-5.parquet")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), source / "h-6.parquet")
    given = ["score", source, "-m", model, "-o", f"{tmp_path}/out/", "--rows-per-unit", "3"]
    code = run(*given)
    err = capsys.readouterr().err
    assert "Traceback" not in err
    # the file that is not Parquet
    assert code == 1
    assert "1 of " in err
    assert "units failed, e.g.: cannot read " in err
    assert run("merge", tmp_path / "out", tmp_path / "out.jsonl", "--quiet") == 1
    rows = rows_of(tmp_path / "out.jsonl")
    good = [row for row in rows if row["score"] is not None]
    assert len(good) == sum(GOOD.values()) + 2
    assert all(row["reason"] is None for row in good)
    reasons = [row["reason"] for row in rows if row["score"] is None]
    assert len(reasons) == sum(BAD.values()) + 5
    assert all(reason and reason.isprintable() for reason in reasons)
    said = "\n".join(reasons)
    for part in (
        *(
            "is not UTF-8",
            "holds a NUL",
            "is longer than 1.0 MB",
            "is not JSON",
            "has no column 'text'",
        ),
        *("surrogate", "holds NaN or an infinite", "is not CSV", "has no column 'text'"),
        *(
            "1 fields, but the first has 2",
            "the input has a column 'score'",
            "3 (int) under 'text'",
        ),
    ):
        assert part in said, part
    # the same again has only the failed unit to do
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part*")}
    assert run(*given) == 1
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part*")} == before


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"sentence": ["a"]}, "the data set has no column 'text'"),
        ({"text": ["a"], "score": [1]}, "the input has a column 'score', and so has the output"),
    ],
)
def test_a_worker_refuses_a_table_whose_rows_would_be_lost(model, columns, message) -> None:
    with pytest.raises(ValueError, match=message):
        Worker(model)(pa.table(columns))
