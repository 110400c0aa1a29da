"""`unmask score` on a tiny BERT: what goes in, what comes out, and how it ends."""

import csv
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from wilson import wilson_by_roots

from unmask import cli

pytestmark = pytest.mark.usefixtures("read_once")

TEXTS = ["the cat sat on the mat.", "a happy dog ran.", "unhappy cats saw the woman."]
# of equal length, but for the last
PAIRS = [
    ("the cat sat.", "the sat cat."),
    ("a dog ran.", "a dog mat."),
    ("the man saw a dog.", "the man a saw dog."),
    ("the cats sat.", "the cat sat."),
]
Score = Callable[..., tuple[str, str]]


@pytest.fixture
def score(folder: str, capsys: pytest.CaptureFixture[str]) -> Score:
    def run(*arguments: str) -> tuple[str, str]:
        assert cli.main(["score", *arguments, "-m", folder]) == 0
        return capsys.readouterr()

    return run


@pytest.fixture
def rows(score: Score) -> Callable[..., list[dict[str, Any]]]:
    def run(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in score(*arguments, "--json")[0].splitlines()]

    return run


@pytest.fixture
def pairs_file(tmp_path: Path) -> str:
    path = tmp_path / "pairs.jsonl"
    made = [
        {"item": n, "good": good, "bad": bad, "kind": "ab"[n % 2]}
        for n, (good, bad) in enumerate(PAIRS)
    ]
    path.write_text("\n".join(map(json.dumps, made)))
    return str(path)


def given(texts: list[str]) -> list[str]:
    return [word for text in texts for word in ("--text", text)]


# -- texts


@pytest.mark.slow
def test_rows_hold_what_python_returns(rows, lm, folder) -> None:
    found = rows(*given(TEXTS), "--method", "pll,pll-word-l2r")
    assert [row["text"] for row in found] == [text for text in TEXTS for _ in range(2)]
    for method in ("pll", "pll-word-l2r"):
        own = [row for row in found if row["method"] == method]
        for row, one in zip(own, lm.score(TEXTS, method=method), strict=True):
            assert row["score"] == pytest.approx(one.score)
            assert (row["tokens"], row["forward_passes"]) == (one.tokens, one.forward_passes)
    assert (found[0]["unit"], found[0]["model"]) == ("nats", Path(folder).name)


@pytest.mark.parametrize("output", ["table", "folder"])
def test_a_word_without_tokens_has_a_reason_and_no_surprisal(
    output, score, rows, lm, tmp_path
) -> None:
    texts = ["the zebra sat.", "the cat sat."]
    if output == "table":
        found = rows(*given(texts), "--words")
    else:
        (tmp_path / "a.txt").write_text("\n".join(texts))
        _, err = score(str(tmp_path / "a.txt"), "--words", "-o", f"{tmp_path / 'out'}/")
        assert "these words have a reason instead of a surprisal" in err
        assert "not scored" not in err
        (part,) = (tmp_path / "out").glob("**/*.parquet")
        found = parquet.read_table(part).to_pylist()
    assert [row["word"] for row in found if row["reason"]] == ["zebra"]
    assert found[1]["reason"] == "this vocabulary has no pieces for 'zebra'"
    assert found[1]["surprisal"] is None
    others = [word for one in lm.score(texts) for word in one.words if not word.is_unknown]
    surprisals = [row["surprisal"] for row in found if not row["reason"]]
    assert surprisals == pytest.approx([-word.log_prob for word in others])


# -- files


def test_control_characters_and_formulas_are_inert(score, rows, tmp_path) -> None:
    hostile = "=the \x1b[31mcat | <b>sat</b>\u202e"
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": hostile, "=1+1": "@x\r\n", "n": "-1.5"}))
    (row,) = rows(str(path))
    assert (row["text"], row["=1+1"]) == (hostile, "@x\r\n")
    assert rows(str(path)) != []
    out, _ = score(str(path), "--json")
    assert out[:-1].isprintable()
    for format in ("csv", "tsv"):
        out, _ = score(str(path), "--output-format", format)
        assert all(line.replace("\t", "").isprintable() for line in out.splitlines())
        head, *lines = out.splitlines()
        cells = "\n".join(lines)
        assert "'\\=the \\x1b[31mcat | <b>sat</b>\\u202e" in cells
        assert head.startswith("text")
        assert "'\\=1+1" in head
        # quoted in CSV, escaped where cells end at such characters
        assert ("'\\@x\\r\\n" if format == "tsv" else "\"'\\@x") in cells
        assert "-1.5" in cells
        assert "'-1.5" not in cells
    table, _ = score(str(path))
    assert "\x1b" not in table
    assert "\\x1b[31mcat | <b>sat</b>\\u202e" in table


# -- pairs


@pytest.mark.slow
def test_pairs_hold_what_python_returns(rows, lm, pairs_file) -> None:
    methods = ("pll", "pll-word-l2r", "hcb-path")
    found = rows(pairs_file, "--pairs", "good,bad", "--method", ",".join(methods), "--orders", "4")
    assert [row["method"] for row in found] == [*methods] * len(PAIRS)
    for method in methods:
        options = {"draws": 4} if method == "hcb-path" else {}
        expected = lm.log_ratios(PAIRS, method=method, **options)
        own = [row for row in found if row["method"] == method]
        for row, one in zip(own, expected, strict=True):
            ratio = one.log_ratio
            assert row["log_ratio"] == (None if ratio is None else pytest.approx(ratio, abs=1e-6))
            assert row["reason"] == one.reason
            assert row["correct"] == (None if ratio is None else float(ratio > 0))
    reasons = [row["reason"] for row in found if row["method"] == "hcb-path"]
    assert reasons[:3] == [None] * 3
    assert "equally many" in reasons[3]


def test_accuracy_by_hand(score, lm, pairs_file, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out, _ = score(pairs_file, "--pairs", "good,bad", "--method", "hcb-path", "--by", "kind")
    ratios = [one.log_ratio for one in lm.log_ratios(PAIRS, method="hcb-path")]
    wins = [None if ratio is None else ratio > 0 for ratio in ratios]
    pairs, by_kind, overall, notes = out.split("\n\n")
    assert len(pairs.splitlines()) == 1 + len(PAIRS)
    shares = []
    for kind, (place, line) in zip("ab", enumerate(by_kind.splitlines()[1:]), strict=True):
        known = [win for win in wins[place::2] if win is not None]
        low, high = wilson_by_roots(sum(known), len(known))
        shares.append(sum(known) / len(known))
        assert re.split(r"  +", line)[:5] == [
            *(kind, "hcb-path", f"{shares[-1]:.3f}", f"{low:.3f} to {high:.3f}"),
            f"{len(known)} of 2",
        ]
    head, line = overall.splitlines()
    assert re.split(r"  +", head)[:3] == ["overall", "method", "accuracy"]
    assert re.split(r"  +", head)[-1] == "mean of"
    assert re.split(r"  +", line)[0] == "mean over kind"
    assert re.split(r"  +", line)[-1] == "2"
    assert re.split(r"  +", line)[2] == f"{sum(shares) / 2:.3f}"
    assert "hcb-path: 1 of 4 pairs not compared, e.g.: the texts have 5 and 4 tokens" in notes


def test_a_pipe_gets_rows_of_a_file_and_a_terminal_a_table(score, pairs_file, monkeypatch) -> None:
    asked = (pairs_file, "--column", "good", "--quiet")
    piped = list(csv.DictReader(score(*asked)[0].splitlines()))
    assert [row["good"] for row in piped] == [good for good, _ in PAIRS]
    assert score("the cat sat.", "--quiet")[0].startswith("text  ")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    head, first, *_ = score(*asked)[0].splitlines()
    assert re.split(r"  +", head)[:2] == ["good", "score"]
    assert re.split(r"  +", first)[:2] == ["the cat sat.", f"{float(piped[0]['score']):.3f}"]


def test_a_file_that_will_be_replaced_is_named_before_the_model_is_loaded(
    score, pairs_file, tmp_path
) -> None:
    place = tmp_path / "out.csv"
    place.write_text("of another program\n")
    asked = (pairs_file, "--column", "good", "-o", str(place))
    assert cli.main(["score", *asked, "-m", str(tmp_path)]) == 2
    assert place.read_text() == "of another program\n"
    assert f"'{place}' exists, and is replaced when all rows are done\n" in score(*asked)[1]
    assert "exists" not in score(*asked, "--quiet")[1] + score(*asked, "--dry-run")[1]
