"""any-rate, the model of the repository for many blanks: its page, its card, and what it is for."""

import csv
import json
import re
from importlib.resources import files
from pathlib import Path

import any_rate
import marked_page
import pytest
import torch
from assets import real_model
from huggingface_hub import ModelCard
from reading_pages import ROOT
from transformers import BertConfig, BertForMaskedLM

import unmask

PAGE = ROOT / "docs" / "results" / "models.md"
# one token masked, before and after
SINGLE = r"\b(\d\.\d{3})\b"


def test_the_published_table_is_that_of_its_rows() -> None:
    rows = [json.loads(line) for line in PAGE.with_name("any-rate.jsonl").open(encoding="utf-8")]
    assert marked_page.stale(marked_page.made(PAGE, {}, {"any-rate": any_rate.table(rows)})) == []


def test_what_sentences_say_of_single_blanks_is_what_training_measured() -> None:
    folder = ROOT / "models" / "any-rate"
    record = json.loads((folder / "tuning.json").read_text("utf-8"))["record"]["evaluations"]
    measured = {f"{record[place]['single_blanks']:.3f}" for place in (0, -1)}
    section = PAGE.read_text("utf-8").split("## any-rate")[1].split("##")[0]
    assert (
        set(re.findall(SINGLE, section.split("where a single token is")[1].split("\n\n")[0]))
        == measured
    )
    card = (folder / "README.md").read_text("utf-8")
    assert set(re.findall(SINGLE, card.split("## Figures")[1])) == measured
    assert ModelCard(card).data.license == "cc-by-sa-4.0"


def test_of_a_sentence_any_number_of_tokens_is_masked_and_weighed() -> None:
    ids = torch.full((6000, 7), 9)
    ids[:, 0], ids[:, -2], ids[:, -1] = 2, 3, 0
    batch = any_rate.mask_any_share(ids, any_rate.generator("test"))
    masked = batch.chosen.sum(1)
    assert torch.equal(batch.chosen, batch.ids == any_rate.MASK)
    assert not batch.chosen[:, [0, 5, 6]].any()
    assert torch.equal(batch.targets, ids[batch.chosen])
    assert torch.bincount(masked, minlength=5)[1:].tolist() == pytest.approx([1500] * 4, rel=0.1)
    assert batch.chosen[:, 1:5].float().mean(0).tolist() == pytest.approx([2.5 / 4] * 4, rel=0.05)
    # in every sentence they add up to its tokens
    sums = torch.stack([one.sum() for one in batch.weights.split(masked.tolist())])
    torch.testing.assert_close(sums, torch.full((6000,), 4.0))


def test_a_tiny_run_learns_and_repeats() -> None:
    sentences = [[2, *range(first, first + 6), 3] for first in (5, 15) for _ in range(10)]
    config = BertConfig(
        vocab_size=25, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=8, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip

    def losses(seed: int) -> list[float]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = BertForMaskedLM(config).train()
        return any_rate.learn(model, sentences, 1210, 1e-2, seed)

    made = losses(0)
    # the last batch of an epoch of 20 is cut, so that the passes are as many as requested
    assert len(made) == 61
    assert sum(made[-5:]) < 0.5 * sum(made[:5])
    assert made == losses(0) != losses(1)


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
    few, one_by_one = lm.decode(text, passes=3), lm.decode(text, rule="surest")
    assert few["forward_passes"] < one_by_one["forward_passes"] == 5
    assert "[MASK]" not in few["sequence"]
