"""The page of parallel fills: scores by definition, choices on dev sentences, the tables."""

import json
import math
from functools import partial

import default_rule
import marked_page
import numpy as np
import parallel
import parallel_fills
import punt
import pytest
import referee
import torch
from compared_rules import top_k
from reading_pages import ROOT, check_sentences
from tiny_models import build

import unmask
from unmask.model.row_reader import RowReader
from unmask.names import DEFAULT_RULE, RULES


@pytest.mark.slow
def test_a_fill_is_scored_by_the_chain_rule_along_random_orders() -> None:
    lm = unmask.load(build("bert"))
    text = lm.cloze("the [MASK] sat [MASK] the [MASK].")
    fills = {
        tuple(lm.tokenizer.convert_tokens_to_ids(words.split()))
        for words in ("cat on mat", "dog on mat", "dog in hat")
    }
    totals = parallel_fills.scores(lm, {"a": text}, {"a": fills})
    assert set(totals) == {("a", fill) for fill in fills}
    rng = np.random.default_rng(parallel_fills.hashed("a", "orders"))
    orders = [rng.permutation(3).tolist() for _ in range(parallel_fills.ORDERS)]
    for fill in fills:
        total = 0.0
        for order in orders:
            row = torch.tensor([text.ids])
            for blank in order:
                at = text.positions[blank]
                with torch.no_grad():
                    logits = lm.model.model(input_ids=row).logits[0, at]
                total += float(logits.log_softmax(dim=0)[fill[blank]])
                row[0, at] = fill[blank]
        assert totals["a", fill] == pytest.approx(total / len(orders), abs=1e-4)


@pytest.mark.slow
def test_draws_are_scored_one_by_one_and_averaged() -> None:
    lm = unmask.load(build("bert"))
    cloze = lm.cloze("the [MASK] sat [MASK] the [MASK].")
    ways = {"surest": (0,), "top-k": (2,)}
    (row,) = parallel_fills.filled(lm, None, {"a": cloze}, ways, orders=2, draws=3)
    drawn = [
        lm.decode(cloze, rule=partial(top_k, threshold=2), draw=True, seed=seed, support="tokens")
        for seed in range(3)
    ]
    log_p, steps, log_q = row["ways"]["top-k 2"]
    assert steps == 2
    assert log_q == pytest.approx(np.mean([one["log_prob"] for one in drawn]), abs=1e-4)
    tokens = {tuple(one["token"]) for one in drawn}
    totals = parallel_fills.scores(lm, {"a": cloze}, {"a": tokens}, 2)
    expected = np.mean([totals["a", tuple(one["token"])] for one in drawn])
    assert log_p == pytest.approx(expected, abs=1e-4)


def test_sentences_of_masks_alone_are_drawn_by_their_seeds() -> None:
    lm = unmask.load(build("bert"))
    texts = parallel_fills.whole(lm, (2, 3), 2)
    assert list(texts) == ["2:0", "2:1", "3:0", "3:1"]
    blanked, seeds = ({name: one[n] for name, one in texts.items()} for n in (0, 1))
    for name, text in blanked.items():
        assert len(text.ids) == len(text.positions) + 2 == int(name[0]) + 2
        assert {text.ids[place] for place in text.positions} == {lm.tokenizer.mask_token_id}
    rows = parallel_fills.filled(lm, None, blanked, {"surest": (0,)}, 1, 1, seeds)
    for row in rows:
        masks = " ".join(["[MASK]"] * row["blanks"])
        drawn = {"rule": "surest", "draw": True, "seed": seeds[row["id"]], "support": "tokens"}
        fill = lm.decode(masks, **drawn)
        assert row["ways"]["surest"][2] == pytest.approx(fill["log_prob"], abs=1e-3)


def test_tested_blanks_are_filled_at_once_or_one_by_one_as_epsilon_says() -> None:
    lm = unmask.load(build("bert"))
    clozes = [
        lm.cloze(text) for text in ("the [MASK] [MASK] on [MASK] mat [MASK]", "a [MASK] [MASK].")
    ]
    texts = {str(n): cloze for n, cloze in enumerate(clozes)}
    axis, reader = lm.support("tokens"), RowReader(lm.model, parallel_fills.QUIET)
    # four blanks have a level of halves and one of quarters; with none below epsilon, then three
    for epsilon, rule, passes in ((math.inf, "all-at-once", (3, 2)), (-1.0, "surest", (9, 3))):
        filled = punt.fill(reader, texts, axis, epsilon)
        expected = lm.decode(clozes, rule=rule, support="tokens")
        ids = axis.ids.tolist()
        for state, fill in zip(filled.values(), expected, strict=True):
            assert [ids[place] for place in state.tokens] == list(fill["token"])
        assert tuple(state.forward_passes for state in filled.values()) == passes
        alone = punt.fill(reader, {"0": texts["0"]}, axis, epsilon)["0"]
        assert alone.tokens == filled["0"].tokens
        assert alone.log_prob == pytest.approx(filled["0"].log_prob, abs=1e-5)
        assert filled["0"].log_prob == pytest.approx(expected[0]["log_prob"], abs=1e-4)


@pytest.mark.slow
def test_the_page_is_what_its_rows_say() -> None:
    path = ROOT / parallel_fills.PAGE
    dev, test = parallel_fills.read(path.with_suffix(".jsonl"))
    few = parallel_fills.read_few(path.with_name("parallel-filling-few.jsonl"))
    rows = default_rule.read(ROOT / default_rule.ROWS)
    result = json.loads(path.with_name(parallel.RESULT).read_text("utf-8"))
    grids = referee.read(ROOT / referee.ROWS)
    tables = parallel_fills.whole_tables(dev, test, few)
    tables |= default_rule.tables(rows, test["xsum"])
    files = marked_page.made(path, parallel_fills.blocks(dev, test), tables)
    files |= marked_page.made(
        path, parallel.blocks(result), parallel.tables(result), parallel.TABLES
    )
    files |= marked_page.made(path, {}, referee.tables(grids), referee.TABLES)
    assert marked_page.stale(files) == []
    # the aims, and what a threshold may lose
    check_sentences(files, {"0.02", "0.1", "0.4", "2.7", "3.4"})


def test_the_default_rule_is_what_the_criterion_chooses_on_dev_rows() -> None:
    rows = default_rule.read(ROOT / default_rule.ROWS)
    dev = default_rule.by_model(rows, "snli-dev")
    assert tuple(dev) == default_rule.MODELS
    named = parallel_fills.named(DEFAULT_RULE, RULES[DEFAULT_RULE].default)
    assert default_rule.chosen(dev) == named
    losses = [fills.mean()[1][fills.ways.index(named)] for fills in dev.values()]
    assert max(losses) <= parallel_fills.ALLOWED
    seen = {row["id"] for row in rows if row["corpus"] == "snli-dev"}
    assert not seen & {row["id"] for row in rows if row["corpus"] == "snli"}
