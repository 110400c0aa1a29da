"""`unmask fill`: many texts into JSON lines, in order, as they come."""

import json
from typing import Any

import pytest

from unmask.cli import main

pytestmark = pytest.mark.usefixtures("read_once")

PAIR = "the [MASK] sat on the [MASK]."
ONE = "the [MASK] sat."


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
    ({"text": ONE, "support": [["cat"]]}, "give a dictionary, as support={0: ['cat']}"),
    ({"text": ONE, "support": 3, "targets": ["cat"]}, "support and targets both restrict what"),
    ({"text": ONE, "targets": 3}, "targets is a list of words, or one per blank, not 3"),
    ({"text": ONE, "targets": [3]}, "are a list of words, not 3"),
    ({"text": PAIR, "targets": ["cat", "mat"]}, "such as {0: ['cat'], 1: ['mat']}"),
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
