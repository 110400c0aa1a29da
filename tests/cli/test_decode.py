"""`unmask decode`: one fill per text, step by step, of one text or of many."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_tokenizers import save_bert

import unmask
from unmask.cli import main
from unmask.queries.decode import training

pytestmark = pytest.mark.usefixtures("read_once")

PAIR = "the [MASK] sat on the [MASK]."
ONE = "the [MASK] sat."


@pytest.fixture
def model(folder: str) -> unmask.LanguageModel:
    return unmask.load(folder)


@pytest.mark.slow
def test_rows_are_what_python_returns(
    folder: str,
    model: unmask.LanguageModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wide = "the cat sat on the unhappy mat."
    lines: list[dict[str, Any]] = [
        {"text": PAIR, "id": 1},
        {"text": "the cat sat."},
        {"text": wide, "blanks": ["unhappy", "cat"]},
        {"text": ONE, "blanks": ""},
    ]
    file = tmp_path / "in.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    options = ["--threshold", "2", "--draw", "--seed", "5", "--support", "cat,dog,mat"]
    assert main(["decode", str(file), "-m", folder, *options]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert err.startswith("unmask: 3 of 4 texts filled; the others have a reason instead")
    assert "no blank: write [MASK]" in rows[1]["reason"]
    assert rows[0]["id"] == 1
    cloze = model.cloze(wide, blanks=["unhappy", "cat"]).one_token_each()
    expected = model.decode(
        [PAIR, cloze, ONE], threshold=2, draw=True, seed=5, support=["cat", "dog", "mat"]
    )
    for row, fill in zip((rows[0], *rows[2:]), expected, strict=True):
        assert row["log_prob"] == pytest.approx(fill["log_prob"], abs=1e-4)
        assert row["groups"] == [list(group) for group in fill["groups"]]
        for name in ("token", "token_str", "sequence", "rule", "threshold", "forward_passes"):
            assert row[name] == fill[name]
        assert row["reason"] is None


@pytest.mark.slow
def test_passes_take_the_head_that_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_STEPS", 100)
    monkeypatch.setattr(training, "BOUNDS", (0.01, 3.0))
    monkeypatch.setattr(training, "_COUNTED_TEXTS", 1)
    model = str(save_bert(tmp_path / "bert"))
    texts = [f"the {word} sat on the red mat." for word in ("cat", "dog", "man", "hat")]
    every = [
        f"{text} {more}" for text in texts for more in ("the cat ran.", "a dog.", "a man ran.")
    ]
    (tmp_path / "texts.txt").write_text("\n".join(every), encoding="utf-8")
    assert main(["head", model, str(tmp_path / "texts.txt")]) == 0
    assert "learnt from" in capsys.readouterr().err
    assert main(["decode", "the [MASK] sat [MASK] the [MASK].", "-m", model, "--passes", "1"]) == 0
    assert capsys.readouterr().err.endswith("; 1 forward pass\n")
