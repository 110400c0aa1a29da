"""`unmask fill`: many texts into JSON lines, in order, as they come."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tiny_tokenizers import ODD, save_bert

from unmask.cli import main
from unmask.records.files import open_input
from unmask.records.writing import written

pytestmark = pytest.mark.usefixtures("read_once")

PAIR = "the [MASK] sat on the [MASK]."
ONE = "the [MASK] sat."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_bert(tmp_path_factory.mktemp("bert"), bias=dict.fromkeys(ODD, -30.0)))


@pytest.fixture
def answered(folder, tmp_path, capsys):
    """Run `unmask fill` on lines; the rows, stderr and the exit code."""

    def run(lines: list[Any], *arguments: str, name: str = "in.jsonl") -> tuple[Any, str, int]:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
        code = main(["fill", str(tmp_path / name), "-m", folder, *arguments])
        out, err = capsys.readouterr()
        assert out.isascii()
        return [json.loads(line) for line in out.splitlines()], err, code

    return run


@pytest.mark.slow
def test_fields_of_a_line_override_the_options(answered, lm):
    plain = "the unhappy cat sat."
    lines = [
        {"text": PAIR},
        {"text": PAIR, "method": "hcb", "support": None},
        {"text": PAIR, "support": 4, "method": "Log_Pool"},
        {"text": PAIR, "support": {"0": ["cat", "dog"], "1": 3}},
        {"text": PAIR, "targets": {"1": ["mat", "cat"]}},
        {
            "text": PAIR,
            "targets": [["cat"], ["unhappy", "mat"]],
            "piece_prior": {"1": 0.7, "2": 0.3},
        },
        {"text": ONE, "targets": "unhappy"},
        {"text": plain, "blanks": ["unhappy"]},
        {"text": plain, "blanks": [4, [4, 11]]},
    ]
    rows, err, code = answered(
        lines, "--method", "orders", "--support", "cat,dog,mat", "--top", "3", "--quiet"
    )
    assert (err, code) == ("", 0)
    some = ["cat", "dog", "mat"]
    expected = [
        lm.fill(PAIR, method="orders", support=some, top=3),
        lm.fill(PAIR, method="hcb", support=some, top=3),
        lm.fill(PAIR, method="log-pool", support=4, top=3),
        lm.fill(PAIR, method="orders", support={0: ["cat", "dog"], 1: 3}, top=3),
        # words put the candidates of the options aside
        lm.fill(PAIR, targets={1: ["mat", "cat"]}, top=3),
        lm.fill(PAIR, targets=[["cat"], ["unhappy", "mat"]], piece_prior={1: 0.7, 2: 0.3}, top=3),
        lm.fill(ONE, targets=["unhappy"], top=3),
        lm.fill(plain, blanks=["unhappy"], method="orders", support=some, top=3),
        lm.fill(plain, blanks=[4, (4, 11)], method="orders", support=some, top=3),
    ]
    assert [row["fills"] for row in rows] == expected
    named = ["orders", "hcb", "log-pool", *["orders"] * 4, "mlm", "orders"]
    assert [row["method"] for row in rows] == named
    assert rows[5]["diagnostics"] == {
        "piece_prior": {"1": 0.7, "2": 0.3},
        "unknown_tokens": [],
    }
    assert [row["text"] for row in rows] == [line["text"] for line in lines]


@pytest.mark.slow
def test_options_of_words_hold_where_a_line_has_none(answered, lm):
    lines = [{"text": ONE}, {"text": ONE, "support": ["cat", "dog"]}]
    options = ("--targets", "cat,unhappy", "--piece-prior", "uniform")
    rows, _, _ = answered(lines, *options)
    assert rows[0]["fills"] == lm.fill(ONE, targets=["cat", "unhappy"], piece_prior="uniform")
    assert rows[1]["fills"] == lm.fill(ONE, support=["cat", "dog"])


@pytest.mark.slow
def test_other_fields_pass_through_and_stay_inert(answered):
    odd = {"id": 7, "note": "\x1b[31m[unused1]\u202e\u2028\x00", "deep": [{"a": None}, 1.5, "日"]}
    rows, _, _ = answered([{**odd, "text": ONE}])
    assert {name: rows[0][name] for name in odd} == odd
    assert list(rows[0])[:4] == [*odd, "text"]


BAD = [
    ("the cat sat.", "no blank: write [MASK]"),
    ("not json", "is not JSON: Expecting value at its character 1"),
    ("[1]", "is not a JSON object but [1] (list)"),
    ('{"text": NaN}', "holds NaN or an infinite number"),
    ('{"text": "the [MASK].", "x": 1e999}', "holds NaN or an infinite number"),
    ("[" * 100_000, "is JSON that cannot be read"),
    ({"text": 3}, "the row has 3 (int) under 'text', where a text should be"),
    ({}, "has no column 'text'; it has none at all"),
    ({"text": "\ud800"}, "half of a surrogate pair"),
    ({"text": ONE, "method": "hbc"}, "did you mean 'hcb'?"),
    ({"text": ONE, "method": 3}, "a method is one of"),
    ({"text": ONE, "support": True}, "or a list of tokens, not True"),
    ({"text": ONE, "support": {"x": 3}}, "support names blank 'x'; this text has blanks 0 to 0"),
    ({"text": ONE, "support": [["cat"]]}, "a token is a string or an id, not list"),
    ({"text": ONE, "support": 3, "targets": ["cat"]}, "support and targets both restrict what"),
    ({"text": ONE, "targets": 3}, "targets is a list of words, or one per blank, not 3"),
    ({"text": ONE, "targets": [3]}, "3 is neither"),
    ({"text": ONE, "targets": {"1": ["cat"]}}, "targets name blank 1"),
    ({"text": ONE, "targets": ["cat", "\x1b[31m"]}, "\\x1b[31m"),
    ({"text": ONE, "targets": ["cat"], "piece_prior": 3}, "piece_prior is 'uniform' or a"),
    ({"text": ONE, "targets": ["cat"], "piece_prior": {"1": "x"}}, "together at most 1"),
    ({"text": ONE, "targets": ["cat"], "piece_prior": {"1": 2}}, "together at most 1"),
    (
        {"text": ONE, "targets": ["cat"], "piece_prior": {"1": 10**400}},
        "together at most 1",
    ),
    ({"text": ONE, "support": 10**400}, "this model has 1 to 36"),
    ({"text": "the cat", "blanks": 3}, "blanks is a list of spans, words or token indices"),
    ({"text": "the cat", "blanks": ["dog"]}, "'dog' does not occur in the text"),
]


@pytest.mark.slow
def test_every_bad_line_has_a_reason_and_stops_no_other(answered, tmp_path):
    lines = [{"text": ONE, "id": 1}, *(line for line, _ in BAD[1:]), {"text": ONE, "id": 2}]
    rows, err, code = answered(lines, "--top", "1")
    assert code == 0
    count = len(BAD) + 1
    assert err.startswith(f"unmask: 2 of {count} texts answered; the others have a reason instead")
    assert [row["id"] for row in (rows[0], rows[-1])] == [1, 2]
    for row, (_, said) in zip(rows[1:-1], BAD[1:], strict=True):
        assert said in row["reason"]
        assert row["reason"].isprintable()
        assert row["fills"] is None
    # a line that is not JSON is named
    assert rows[1]["reason"].startswith(f"line 2 of '{tmp_path / 'in.jsonl'}' is not JSON")


@pytest.mark.slow
def test_answers_to_a_pipe_are_there_before_the_next_line_is_read(folder, capsys, monkeypatch):
    seen: list[str] = []

    def lines():
        for _ in range(3):
            seen.append(capsys.readouterr().out)
            yield ONE.encode() + b"\n"

    source = lines()
    stdin = SimpleNamespace(buffer=SimpleNamespace(read1=lambda _: next(source, b"")))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["fill", "-", "-m", folder, "--quiet", "--top", "1"]) == 0
    # the first row is read for the names of its columns
    assert [text.count("\n") for text in seen] == [0, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "target"),
    [("csv", "parquet"), ("tsv", "csv"), ("jsonl", "tsv"), ("parquet", "jsonl")],
)
def test_tables_in_and_out(ending, target, folder, tmp_path, capsys, lm):
    rows = [{"n": "=1", "text": ONE}, {"n": "2", "text": PAIR}]
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    else:
        (tmp_path / f"in.{ending}").write_text(written(rows, ["n", "text"], ending))
    source, output = str(tmp_path / f"in.{ending}"), str(tmp_path / f"out.{target}")
    options = ["-o", output, "--top", "1", "--quiet", "--method", "orders"]
    assert main(["fill", source, "-m", folder, *options]) == 0
    answers = [record.row for record in open_input([output]).rows_or_raise()]
    assert [(row["n"], row["text"]) for row in answers] == [("=1", ONE), ("2", PAIR)]
    fills = [row["fills"] for row in answers]
    fills = [json.loads(cell) if isinstance(cell, str) else cell for cell in fills]
    assert [ranked[0]["sequence"] for ranked in fills] == [
        lm.fill(text, top=1, method="orders")[0]["sequence"] for text in (ONE, PAIR)
    ]
    assert not list(tmp_path.glob("*.partial*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["IN/long.txt"], "is longer than 1.0 MB"),
        (["IN/in.txt", "--output", "IN/none/x"], "give a file in a folder that exists"),
    ],
)
def test_what_cannot_be_read_or_written(arguments, said, folder, tmp_path, capsys):
    (tmp_path / "in.txt").write_text(ONE)
    (tmp_path / "long.txt").write_text("x" * 1_000_001)
    asked = [argument.replace("IN", str(tmp_path)) for argument in arguments]
    assert main(["fill", *asked, "-m", folder]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert said in err
    assert (tmp_path / "in.txt").read_text() == ONE
