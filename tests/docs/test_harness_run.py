"""runs/harness.py: its items, and the whole of it on a few of them."""

import csv
import json
from pathlib import Path

import harness as run
import pytest
from assets import real_data, real_model

import unmask

ASSETS = pytest.mark.assets("items of BLiMP, SNLI and Tatoeba")


@pytest.mark.real
@pytest.mark.slow
@ASSETS
def test_choices_differ_and_have_equally_many_tokens(tiny_english: unmask.LanguageModel) -> None:
    captions = run.snli_items(tiny_english, real_data("snli/test.jsonl"), 40)
    orders = run.tatoeba_items(tiny_english, real_data("english/tatoeba.txt"), 40)
    for items in (list(captions), list(orders)):
        assert len({item["id"] for item in items}) == 40
        # the right one stands anywhere
        assert {item["right"] for item in items} == {0, 1, 2, 3}
        for item in items:
            lengths = {len(tiny_english.tokenizer.tokenize(one)) for one in item["choices"]}
            assert (len(set(item["choices"])), len(lengths)) == (4, 1)
            assert item["context"]
            assert all(one.startswith(" ") for one in item["choices"])


@pytest.mark.long
@ASSETS
@pytest.mark.parametrize("method", list(run.METHODS)[:1])
def test_both_tools_agree_after_a_kill(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "METHODS", {method: run.METHODS[method]})
    page, work = tmp_path / "page.md", tmp_path / "work"
    page.write_text("", "utf-8")
    given = {"--assets": real_data("snli/test.jsonl").parents[2], "--work": work, "--output": page}
    given |= {"--model": real_model("tiny-english"), "--pairs": 1, "--items": 30, "--unit": 40}
    monkeypatch.setattr("sys.argv", ["harness.py", *(str(x) for one in given.items() for x in one)])
    run.main()
    killed = json.loads((work / run.KILLED).read_text())
    assert killed["code"] == -9
    assert 40 <= killed["answers"] < 374
    with (tmp_path / "tables" / "harness-verdicts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["items"] for row in rows] == ["67", "30", "30"]
    for row in rows:
        assert row["acc by the harness"] == row["acc by unmask score"]
        assert row["other verdicts"] == "0"
        assert float(row["largest difference, nats"]) < 1e-4
