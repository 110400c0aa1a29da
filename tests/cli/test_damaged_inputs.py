"""Files as they arrive: saved by another program, or damaged. Five commands read each of them.

What leaves the content readable changes no number. What does not ends in rows with reasons, or in
one line; never in a traceback.
"""

import csv
import io
import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_models
from tiny_tokenizers import save_bert

from unmask.cli import main

pytestmark = pytest.mark.usefixtures("read_once")

Row = dict[str, Any]
Rows = list[Row]


class Command(NamedTuple):
    """A command with rows that it takes: those of the same key have the same number."""

    options: tuple[str, ...]
    rows: Rows
    key: tuple[str, ...]
    number: str
    reason: str = "reason"


TEXTS = ("the cat, it sat; é.", 'a "happy" dog ran.', "the man saw a mat.")
COMMANDS = {
    "score": Command((), [{"text": t, "ms": "3,5"} for t in TEXTS], ("text",), "score"),
    "pairs": Command(
        (),
        [
            {"text": "the [MASK], it [MASK]; é.", "word1": "cat", "word2": word}
            for word in ("sat", "ran", "unhappy")
        ],
        ("text", "word1", "word2"),
        "log_p",
    ),
    "dependence": Command(
        ("--measure", "pmi"),
        [{"id": f"{n}, é; n", "text": text} for n, text in enumerate(TEXTS)],
        ("id", "first", "second"),
        "pmi",
    ),
    "fill": Command(
        ("--method", "orders", "--top", "1"),
        [{"text": f"the [MASK], it {word}; é.", "ms": "3,5"} for word in ("sat", "ran", "saw")],
        ("text",),
        "fills",
    ),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    words = str(save_bert(tmp_path_factory.mktemp("bert")))
    residues = tiny_models.saved("esm", tmp_path_factory.mktemp("esm"))
    return {**dict.fromkeys(COMMANDS, words), "fasta": residues}


def written(rows: Rows, format: str) -> bytes:
    if format == "parquet":
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), file)
        return file.getvalue()
    if format == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    if format == "tsv":
        lines = [list(rows[0]), *(row.values() for row in rows)]
        return "".join("\t".join(line) + "\n" for line in lines).encode()
    if format == "fasta":
        return b">a one\nMKTAYI\nAKQR\n>b\nMKTA*\n"
    return separated(rows, ",")


def separated(rows: Rows, delimiter: str, **options: Any) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n", **options)
    writer.writerows([rows[0], *(row.values() for row in rows)])
    return text.getvalue().encode()


class Outcome(NamedTuple):
    code: int
    rows: Rows
    said: str


class Shell:
    """Runs a command on a file of some content, in this process."""

    def __init__(self, models: Mapping[str, str], folder: Path, capsys: Any) -> None:
        self._models, self._folder, self._capsys = models, folder, capsys

    def run(self, name: str, content: bytes, format: str) -> Outcome:
        file, output = self._folder / f"a.{format}", self._folder / "out.jsonl"
        file.write_bytes(content)
        # both ways to write
        if format == "parquet":
            output = self._folder / "out"
        model = self._models["fasta" if format == "fasta" else name]
        place = f"{output}/" if output.name == "out" else str(output)
        given = [name, "-m", model, "--quiet", *COMMANDS[name].options, "-o", place]
        try:
            code = main([*given, str(file)])
            return Outcome(code, self._rows(output), self._capsys.readouterr().err)
        finally:
            shutil.rmtree(self._folder / "out", ignore_errors=True)
            for left in self._folder.glob("*out.jsonl*"):
                left.unlink()

    def _rows(self, output: Path) -> Rows:
        if output.is_file():
            return [json.loads(line) for line in output.read_text("utf-8").splitlines()]
        parts = sorted(output.glob("**/*.parquet"))
        return [row for part in parts for row in pq.read_table(part).to_pylist()]


@pytest.fixture
def shell(models: dict[str, str], tmp_path: Path, capsys: Any) -> Shell:
    return Shell(models, tmp_path, capsys)


def numbers(command: Command, rows: Rows) -> dict[tuple[Any, ...], float]:
    found = {}
    for row in rows:
        number = row.get(command.number)
        if command.number == "fills" and number is not None:
            # in a folder it is JSON
            number = (json.loads(number) if isinstance(number, str) else number)[0]["score"]
        if number is not None:
            found[tuple(row[name] for name in command.key)] = number
    return found


BOM = b"\xef\xbb\xbf"


def flipped(data: bytes, rng: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def inserted(*parts: bytes) -> Callable[[bytes, random.Random], bytes]:
    def insert(data: bytes, rng: random.Random) -> bytes:
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.choice(parts) + data[at:]
        return data

    return insert


def in_first_line(old: bytes, new: bytes) -> Callable[[bytes, random.Random], bytes]:
    def change(data: bytes, rng: random.Random) -> bytes:
        head, end, rest = data.partition(b"\n")
        return head.replace(old, new) + end + rest

    return change


Damage = Callable[[bytes, random.Random], bytes]
DEEP = b'{"text": "the cat.", "x": ' + b"[" * 600 + b"]" * 600 + b"}\n"
DAMAGES: dict[str, Damage] = {
    "empty": lambda data, rng: b"",
    "blank lines": lambda data, rng: b"\n \n\t\n",
    "cut": lambda data, rng: data[: rng.randrange(1, len(data))],
    "cut again": lambda data, rng: data[: rng.randrange(1, len(data))],
    "flipped": flipped,
    "flipped again": flipped,
    "flipped a third time": flipped,
    "NUL": inserted(b"\0", b"\0\0\0"),
    "quotes": inserted(b'"', b'"\n"', b"'"),
    "delimiters": inserted(b",", b";", b"\t"),
    "line ends": inserted(b"\n", b"\r", b"\r\n"),
    "marks": inserted(BOM, b"\xff\xfe", b"\xe2\x80\xae"),
    "Latin-1": lambda data, rng: data.decode().encode("latin-1", "replace"),
    "UTF-16": lambda data, rng: data.decode().encode("utf-16"),
    "UTF-16 without a mark": lambda data, rng: data.decode().encode("utf-16-be"),
    "commas for semicolons": lambda data, rng: data.replace(b";", b",").replace(b'"', b""),
    "semicolons, unquoted": lambda data, rng: data.replace(b",", b";").replace(b'"', b""),
    "no header": lambda data, rng: data.partition(b"\n")[2],
    "header alone": lambda data, rng: data.partition(b"\n")[0] + b"\n",
    "two columns of a name": in_first_line(b"ms", b"text"),
    "unnamed": in_first_line(b"text", b""),
    "long field": lambda data, rng: data + b"cat " * 300_000 + b"\n",
    "huge numbers": inserted(b"9" * 5000, b"1e999", b"-Infinity"),
    "deep": lambda data, rng: DEEP + data,
    "lone brackets": lambda data, rng: data + b"[" * 100_000 + b"\n",
    "wrong types": lambda data, rng: data + b'{"text": 5, "mutant": [], "word1": {}}\n[]\n1\n',
    "half a surrogate": lambda data, rng: data + b'{"text": "\\ud800", "mutant": "\\udc00"}\n',
}
# of these nothing is left of a file that is not text
OF_TEXT = {name for name in DAMAGES if name.startswith(("Latin", "UTF", "two", "unnamed"))}


def parquet_files(rows: Rows) -> dict[str, bytes]:
    """Tables that a writer of Parquet can make."""

    def made(table: pa.Table) -> bytes:
        file = io.BytesIO()
        pq.write_table(table, file)
        return file.getvalue()

    table = pa.Table.from_pylist(rows)
    first, *names = table.column_names
    not_utf8 = pa.array([b"\xff cat", b"the cat", None]).view(pa.string())
    return {
        "name that is not UTF-8": written([{**r, "wxyz": "1"} for r in rows], "parquet").replace(
            b"wxyz", b"w\xff\xfez"
        ),
        "two columns of a name": made(table.append_column(first, table.column(0))),
        "another name": made(table.rename_columns([f"{first} ", *names])),
        "numbers for texts": made(table.set_column(0, first, pa.array([1, 2, 3]))),
        "nothing": made(table.set_column(0, first, pa.nulls(3))),
        "no rows": made(table.slice(0, 0)),
        "bytes for texts": made(table.set_column(0, first, not_utf8)),
        "nested": made(table.append_column("x", pa.array([[{"y": [1.5]}], None, []]))),
    }


def damaged(name: str) -> list[tuple[str, str, bytes]]:
    """Files for a command, by format and by what was done to them: two commands share the kinds."""
    found, turn = [], list(COMMANDS).index(name)
    for place, format in enumerate(("csv", "tsv", "jsonl", "parquet", "fasta")):
        rng = random.Random(f"{name} {format}")
        whole = written(COMMANDS[name].rows, format)
        for number, (kind, damage) in enumerate(DAMAGES.items()):
            if format == "fasta" and name != "dependence":
                continue
            if format == "parquet" and kind in OF_TEXT:
                continue
            if format == "fasta" or (number + place - turn) % len(COMMANDS) in (0, 2):
                found.append((format, kind, damage(whole, rng)))
    made = parquet_files(COMMANDS[name].rows)
    return found + [("parquet", kind, content) for kind, content in made.items()]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_file_ends_in_rows_with_reasons_or_in_one_line(name: str, shell: Shell) -> None:
    command = COMMANDS[name]
    expected = numbers(command, shell.run(name, separated(command.rows, ","), "csv").rows)
    for format, kind, content in damaged(name):
        outcome = shell.run(name, content, format)
        about = format, kind, outcome
        lines = outcome.said.splitlines()
        assert "Traceback" not in outcome.said, about
        assert all(len(line) < 1000 for line in lines), about
        for row in outcome.rows:
            assert (row.get(command.number) is None) == bool(row.get(command.reason)), about
        if outcome.code == 2 and not outcome.rows:
            assert len(lines) == 1, about
            assert lines[0].startswith("unmask: "), about
        else:
            assert outcome.code in (0, 1, 2), about
            assert outcome.rows, about
        if name != "dependence":
            # whose rows are of a pair of places
            right = {key: n for key, n in numbers(command, outcome.rows).items() if key in expected}
            assert right == pytest.approx({key: expected[key] for key in right}, abs=1e-5), about
