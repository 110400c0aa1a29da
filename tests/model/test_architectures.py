"""Supports and single contexts of ten architectures against a loop over the plain model.

Whole tables of every architecture are compared in `test_all_architectures`.
"""

import warnings
from functools import cache

import pytest
import torch
from naive_tables import TOLERANCE, Naive, assert_near, assert_tables, naive_tables
from tiny_models import ARCHITECTURES, build, two_blanks
from torch import Tensor

import unmask

# DeBERTa-v2's newer head multiplies by the input embeddings itself and names its 32 x 32 transform
# as the output layer: that layer's input does not determine the logits through its weight
DENSE = {"deberta-v2-new-head"}


@cache
def prepared(name: str) -> tuple[unmask.LanguageModel, str, Naive]:
    """A loaded model, a text with two blanks, and what the loop says of it."""
    model, tokenizer = build(name)
    text = two_blanks(tokenizer)
    expected = naive_tables(model, tokenizer, text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unmask.load((model, tokenizer)), text, expected


def restricted(expected: Naive, a: Tensor, b: Tensor) -> Naive:
    """The naive distributions given that the tokens lie in the supports."""
    return Naive(
        torch.log_softmax(expected.log_a_given_b[a][:, b], dim=0),
        torch.log_softmax(expected.log_b_given_a[a][:, b], dim=1),
        torch.log_softmax(expected.log_a[a], dim=0),
        torch.log_softmax(expected.log_b[b], dim=0),
    )


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_one_context_is_one_column_or_row(name: str):
    lm, text, expected = prepared(name)
    tables = lm.tables(text, support="vocabulary")
    mask = lm.tokenizer.mask_token_id
    for token in (0, 7, mask):
        assert_near(tables.log_a_given([token])[0], expected.log_a_given_b[:, token])
        assert_near(tables.log_b_given([token])[0], expected.log_b_given_a[token])
    # nothing beyond those six rows was run
    assert tables.diagnostics()["forward_passes"] == 6


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_without_special_tokens_the_rest_is_renormalised(name: str):
    lm, text, expected = prepared(name)
    special = set(lm.tokenizer.all_special_ids)
    # nor outputs that no token names
    kept = torch.tensor([i for i in range(len(lm.tokenizer)) if i not in special])
    assert len(kept) == len(lm.tokenizer) - 5
    tables = lm.tables(text, support="no-special")
    assert_tables(tables, restricted(expected, kept, kept))
    mass = float(expected.log_a[kept].exp().sum()), float(expected.log_b[kept].exp().sum())
    assert tables.masked.captured == pytest.approx(mass, abs=TOLERANCE)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("memory_limit", [0, 10**6])
def test_explicit_candidates_are_renormalised_in_their_order(name: str, memory_limit: int):
    if name in DENSE and memory_limit == 0:
        memory_limit = 8 * 9 * 6
    lm, text, expected = prepared(name)
    a, b = [12, 5, 30, 9, 7, 11, 0, 25, 6], [8, 31, 6, 5, 2, 17]
    settings = unmask.Settings(memory_limit=memory_limit)
    tables = lm.tables(text, support={0: a, 1: b}, settings=settings)
    assert tables.shape == (9, 6)
    assert_tables(tables, restricted(expected, torch.tensor(a), torch.tensor(b)))
    # contexts outside the support are not paid for
    assert tables.diagnostics()["forward_passes"] == 9 + 6 + 1


@pytest.mark.slow
def test_outputs_that_no_token_names_are_outcomes_all_the_same():
    lm, text, expected = prepared("deberta-v2")
    tables = lm.tables(text, support="vocabulary")
    assert tables.supports[0].names[-3:] == ["<id 42>", "<id 43>", "<id 44>"]
    assert tables.shape == expected.log_a_given_b.shape == (45, 45)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*dense logits")
def test_outputs_that_no_token_names_are_not_ranked_by_default():
    model, tokenizer = build("deberta-v2")
    with torch.no_grad():
        # the model's own choice, if it may choose them
        for name, parameter in model.named_parameters():
            if name.endswith("bias") and parameter.shape == (45,):
                parameter[-3:] += 50
    lm = unmask.load((model, tokenizer))
    one, three = "the cat [MASK] on the mat.", "the [MASK] [MASK] [MASK] the mat."
    assert lm.fill(one, top=1, support="vocabulary")[0]["token"] >= 42
    for asked in (one, two_blanks(tokenizer), three):
        for fill in lm.fill(asked, top=3):
            assert max(ids if isinstance(ids := fill["token"], list) else [ids]) < 42
