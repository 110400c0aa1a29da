"""any-rate, the model of the repository for many blanks: its page, its card, and what it is for."""

import csv
import json
import re
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from assets import real_model
from huggingface_hub import ModelCard

import unmask

sys.path.insert(0, str(Path(__file__).parents[2] / "runs"))

import any_rate
import marked_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results" / "models.md"
# one token masked, before and after
SINGLE = r"\b(\d\.\d{3})\b"


def test_the_published_table_is_that_of_its_rows() -> None:
    rows = [json.loads(line) for line in PAGE.with_name("any-rate.jsonl").open(encoding="utf-8")]
    assert marked_page.stale(marked_page.made(PAGE, {"any rate": any_rate.table(rows)})) == []


def test_what_sentences_say_of_single_blanks_is_what_training_measured() -> None:
    folder = ROOT / "models" / "any-rate"
    record = json.loads((folder / "tuning.json").read_text("utf-8"))["record"]["evaluations"]
    measured = {f"{record[place]['single_blanks']:.3f}" for place in (0, -1)}
    section = PAGE.read_text("utf-8").split("## any-rate")[1].split("##")[0]
    assert set(re.findall(SINGLE, section.split("where a single one is")[1])) == measured
    card = (folder / "README.md").read_text("utf-8")
    assert set(re.findall(SINGLE, card.split("## Figures")[1])) == measured
    assert ModelCard(card).data.license == "cc-by-sa-4.0"


@pytest.mark.real
@pytest.mark.slow
def test_it_knows_more_of_texts_with_many_blanks_than_tiny_english() -> None:
    corpus = files("unmask.sequences.consistency") / "sentences.csv"
    with Path(str(corpus)).open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)][:40]
    means = [
        sum(one.score for one in unmask.load(real_model(name)).score(texts, method="unmasking"))
        for name in ("tiny-english", "any-rate")
    ]
    assert means[1] > means[0]


@pytest.mark.real
@pytest.mark.slow
def test_its_head_fills_many_blanks_in_few_passes() -> None:
    lm = unmask.load(real_model("any-rate"))
    text = "Two [MASK] are playing [MASK] on the [MASK] [MASK] a [MASK]."
    (few,), one_by_one = lm.fill(text, passes=3), lm.fill_together([text], rule="surest")[0]
    assert few["forward_passes"] < one_by_one["forward_passes"] == 5
    assert "[MASK]" not in few["sequence"]
