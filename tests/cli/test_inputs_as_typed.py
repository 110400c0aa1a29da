"""What people type and pipe: line ends of every kind, pipes, long fields, and slips of the hand."""

import csv
import io
import json
import os
import shlex
import threading
from functools import partial
from pathlib import Path

import killable
import pytest

from unmask.cli import _COMMANDS, _parser, main
from unmask.errors import CorpusError
from unmask.records.corpora import CorpusSpec, read_corpus
from unmask.records.files import open_input, read_unit
from unmask.records.rows import LONGEST, Line, read_lines

pytestmark = pytest.mark.usefixtures("read_once")


def read_rows(place: str, format: str | None = None) -> list[dict[str, object]]:
    source = open_input([place], format=format).cut(2)
    return [dict(row) for unit in source.units for row in read_unit(unit, ["text"]).rows]


def lines_of(file: io.BytesIO) -> list[Line]:
    return list(read_lines(iter(partial(file.read1, 2**16), b""), "it"))


# --- line ends ---------------------------------------------------------------------------------

ENDS = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("last", [True, False], ids=["ended", "open"])
def test_a_line_ends_in_any_of_three_ways(end: str, last: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(("the cat" + end + end + "the dog" + end * last).encode())
    assert read_rows(str(path)) == [{"text": "the cat"}, {"text": "the dog"}]
    found = read_corpus(CorpusSpec(str(path))).sentences
    assert [(one.id, one.text) for one in found] == [("a:0", "the cat"), ("a:2", "the dog")]


def test_a_return_that_a_block_cuts_from_its_line_feed_is_one_end() -> None:
    first = b"a" * LONGEST
    file = io.BytesIO(first + b"\r\nb\r" + first + b"\rc")
    found = lines_of(file)
    assert [line.number for line in found] == [1, 2, 3, 4]
    assert [line.text[:1] for line in found] == ["a", "b", "a", "c"]
    assert [line.end for line in found] == [LONGEST + 2, LONGEST + 4, 2 * LONGEST + 5, file.tell()]


def test_many_short_lines_ended_by_returns_are_no_long_line() -> None:
    lines = lines_of(io.BytesIO(b"the cat sat.\r" * 200_000))
    assert len(lines) == 200_000
    assert {(line.text, line.reason) for line in lines} == {("the cat sat.", None)}


def test_a_line_that_is_too_long_is_still_rejected() -> None:
    file = io.BytesIO(b"a\r" + b"b" * (LONGEST + 1) + b"\rc")
    _, long, last = lines_of(file)
    assert str(long.reason).startswith("line 2 of it is longer than 1.0 MB")
    assert (last.text, last.end) == ("c", file.tell())


# --- pipes -------------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path: Path):
    """A named pipe that somebody writes to."""
    writers = []

    def make(name: str, content: str) -> str:
        path = tmp_path / name
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_text, args=(content,), daemon=True)
        writer.start()
        writers.append(writer)
        return str(path)

    yield make
    for writer in writers:
        writer.join(timeout=120)


@pytest.mark.slow
def test_score_reads_a_named_pipe(pipe, folder, capsys) -> None:
    assert main(["score", "-m", folder, "--json", pipe("texts", "the cat\nthe dog\n")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["the cat", "the dog"]


def test_the_name_of_a_pipe_and_an_option_say_its_format(pipe) -> None:
    assert read_rows(pipe("a.csv", "n,text\n1,a\n")) == [{"n": "1", "text": "a"}]
    assert read_rows(pipe("b", "n,text\n1,b\n"), "csv") == [{"n": "1", "text": "b"}]


@pytest.mark.slow
def test_dev_stdin_is_standard_input_also_from_a_file(tmp_path, folder) -> None:
    (tmp_path / "texts").write_text("the cat\nthe dog\n")
    command, log = ["score", "-m", folder, "--json", "--quiet", "/dev/stdin"], tmp_path / "log"
    assert killable.finish(command, log, stdin=tmp_path / "texts") == 0, log.read_text()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["text"] for row in rows] == ["the cat", "the dog"]


# --- long fields -------------------------------------------------------------------------------


def test_a_field_of_csv_is_as_long_as_a_line_may_be(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    (tmp_path / "a.csv").write_text("n,text\n1," + "a" * 500_000 + "\n")
    assert len(str(read_rows(str(tmp_path / "a.csv"))[0]["text"])) == 500_000
    # a setting of the whole process, which is not ours
    assert csv.field_size_limit() == limit


def test_a_field_of_csv_that_is_too_long_is_rejected_for_its_length(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('n,text\n1,"' + ("a" * 1000 + "\n") * 1200 + '"\n')
    with pytest.raises(CorpusError, match=r"a field longer than 1\.0 MB") as raised:
        read_rows(str(tmp_path / "a.csv"))
    assert "a quotation mark that is not closed" in str(raised.value)


# --- sentences of commands ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "hint"),
    [("scores", "did you mean 'score'? Commands: "), ("nonsense", "commands: ")],
)
def test_a_mistyped_command_is_one_line(command, hint, capsys) -> None:
    assert main([command, "a.csv"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"unmask: no command '{command}'; {hint}fill, decode, pairs, score")


def test_the_command_alone_prints_its_help(capsys) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("usage: unmask")
    assert "rank what fills the blanks" in out


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_help_of_a_command_is_grouped_and_ends_with_an_example(
    command, capsys, monkeypatch
) -> None:
    # so wide that an example is one line
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    # `report` and `merge` have no other group: they run no model
    groups = ["options:"] if command in ("report", "merge") else ["options:", "running:"]
    assert set(groups) <= set(lines)
    (example,) = (line for line in lines if line.startswith("example: "))
    words = shlex.split(example.removeprefix("example: "))
    # only what the command takes
    assert words[:2] == ["unmask", command]
    _parser().parse_args(words[1:])
