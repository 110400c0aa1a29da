"""What HCB's normaliser is made of, held against whole tables, and its page against its rows."""

from pathlib import Path

import hcb_contexts
import marked_page
import pytest
import torch
from tiny_models import build

import unmask
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.run import read_run
from unmask.queries.joint_model import read_cloze

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def lm() -> unmask.LanguageModel:
    return unmask.load(build("bert"))


@pytest.fixture(scope="module")
def pair(lm: unmask.LanguageModel) -> MaskedPair:
    special = set(lm.tokenizer.all_special_ids)
    ids = [one for one in range(len(lm.tokenizer)) if one not in special][:6]
    words = " ".join(lm.tokenizer.convert_ids_to_tokens(ids))
    cloze = read_cloze(lm, words, blanks=[2, 4])
    return MaskedPair("one", "one", "random", cloze, None, 2)


def whole(lm: unmask.LanguageModel, pair: MaskedPair) -> tuple[torch.Tensor, torch.Tensor]:
    """q(a | b) and q(b | a), as logarithms laid out [a, b]."""
    tables = lm.tables(pair.cloze, support="vocabulary", settings=hcb_contexts.QUIET)
    a_given_b, b_given_a = tables.both()
    every = slice(0, tables.shape[0])
    return a_given_b.log_prob(every), b_given_a.log_prob(every)


@pytest.mark.slow
def test_the_page_is_made_of_its_rows_and_they_are_those_of_table_1() -> None:
    rows = hcb_contexts.read(RESULTS / "hcb-contexts.jsonl")
    page, tables = RESULTS / "replication.md", hcb_contexts.tables(rows)
    assert marked_page.stale(marked_page.made(page, {}, tables)) == []
    known = {
        (row.model, row.example_id, row.construction): row.pairwise_nll
        for folder in RESULTS.glob("table1-*/snli")
        for row in read_run(folder).rows
    }
    compared = 0
    for row in rows:
        for name in ("mlm", "hcb"):
            before = known.get((row["model"], row["id"], name))
            if before is not None:
                compared += 1
                assert row[name] == pytest.approx(before, abs=1e-4)
    assert compared >= 40
