"""`unmask pairs` on a tiny BERT: what goes in, what comes out, and how it ends."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unmask.cli import main
from unmask.sequences import word_pairs

pytestmark = pytest.mark.usefixtures("read_once")

ITEMS = [
    ("the [MASK] sat on the [MASK].", "cat", "mat"),
    ("a man saw [MASK].", "man", "dog"),
    ("the unhappy cats ran.", "unhappy", "ran"),
    ("a [MASK] [MASK].", "dog", "ran"),
]
ROWS = [
    {"item": str(n), "text": text, "word1": one, "word2": two, "list": "a,b"}
    for n, (text, one, two) in enumerate(ITEMS)
]
ADDED = [
    *("log_p", "log_p_1_given_2", "log_p_2_given_1", "association"),
    *("incompatibility", "pieces_1"),
    *("pieces_2", "unknown_tokens", "forward_passes", "method", "model", "reason"),
]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pairs(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `unmask pairs` on rows, written in a format; exit code, stdout and stderr."""

    def run(*arguments: str, rows: list[Any] = ROWS, format: str = "csv") -> tuple[int, str, str]:
        place = tmp_path / f"items.{format}"
        place.write_text(written(rows, format), encoding="utf-8")
        code = main(["pairs", str(place), "-m", folder, *arguments])
        return code, *capsys.readouterr()

    return run


def written(rows: list[dict[str, Any]], format: str) -> str:
    if format == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows)
    file = io.StringIO()
    marks = {"delimiter": "\t"} if format == "tsv" else {}
    table = csv.DictWriter(file, list(rows[0]), lineterminator="\n", **marks)
    table.writeheader()
    table.writerows(rows)
    return file.getvalue()


def read(text: str, **marks: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), **marks))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_rows_hold_what_python_returns(format, pairs, lm, folder, tmp_path) -> None:
    output = tmp_path / f"out.{format}"
    code, out, err = pairs("-o", str(output), format=format)
    assert (code, out) == (0, "")
    assert err.startswith("unmask: 3 of 4 items scored; the others have a reason instead, e.g.: ")
    text = output.read_text(encoding="utf-8")
    if format == "jsonl":
        found = [json.loads(line) for line in text.splitlines()]
    else:
        found = read(text, delimiter="\t" if format == "tsv" else ",")
    assert list(found[0]) == [*ROWS[0], *ADDED]
    for row, given, score in zip(found, ROWS, lm.pairs(ITEMS), strict=True):
        assert {name: row[name] for name in given} == given
        assert (row["method"], row["model"]) == ("orders", Path(folder).name)
        assert row["reason"] == (score.reason or (None if format == "jsonl" else ""))
        # J needs tables: nothing else stands in its place
        assert row["incompatibility"] in ("", None)
        for name in ("log_p", "log_p_1_given_2", "log_p_2_given_1", "association"):
            value = getattr(score, name)
            assert (
                row[name] in ("", None)
                if value is None
                else float(row[name]) == pytest.approx(value, abs=1e-5)
            )
    assert not (tmp_path / f"out.{format}.partial").exists()


class Pipe:
    """Standard input that gives a line at a time, and says what was written before its last."""

    def __init__(self, text: str, seen: Callable[[], str]) -> None:
        self._lines, self._seen, self.before_the_last = text.splitlines(True), seen, ""

    @property
    def buffer(self) -> "Pipe":
        return self

    def read1(self, _: int) -> bytes:
        if len(self._lines) == 1:
            self.before_the_last = self._seen()
        return self._lines.pop(0).encode() if self._lines else b""


@pytest.mark.parametrize("method", ["orders", "log-pool"])
def test_rows_are_written_before_the_last_is_read(method, folder, monkeypatch, capsys) -> None:
    rows = [{**ROWS[0], "item": str(n)} for n in range(7)]
    pipe = Pipe(written(rows, "csv"), lambda: capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", pipe)
    monkeypatch.setattr(word_pairs, "ITEMS_AT_ONCE", 2)
    assert main(["pairs", "-", "-m", folder, "--method", method]) == 0
    assert [row["item"] for row in read(pipe.before_the_last)] == ["0", "1", "2", "3", "4", "5"]
    out, err = capsys.readouterr()
    assert out.startswith("6,")
    assert "7 of 7 items scored" in err


def test_a_pipe_of_json_lines_into_a_table_has_the_columns_of_its_first(
    folder, monkeypatch, capsys
) -> None:
    pipe = Pipe(written([ROWS[0], {**ROWS[0], "late": 1}], "jsonl"), str)
    monkeypatch.setattr("sys.stdin", pipe)
    size = ["--rows-per-unit", "1"]
    assert main(["pairs", "-", "-m", folder, "--input-format", "jsonl", *size]) == 2
    out, err = capsys.readouterr()
    assert len(read(out)) == 1
    assert "a row has 'late', which the first does not have; write JSON lines" in err
