"""Ten architectures against a loop that anyone would write: the plain model, one context a pass."""

import math
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
def test_the_toys_are_worth_testing_with(name: str):
    _, _, expected = prepared(name)
    entropy = -(expected.log_a_given_b.exp() * expected.log_a_given_b).sum(dim=0)
    assert float(entropy.mean()) < 0.85 * math.log(len(entropy))
    # a table whose contexts do not matter could not tell a transposed one from a right one
    assert float(expected.log_a_given_b.std(dim=1).mean()) > 100 * TOLERANCE
    assert float((expected.log_a_given_b - expected.log_b_given_a).abs().max()) > 1


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tables_are_those_of_a_naive_loop(name: str):
    lm, text, expected = prepared(name)
    assert_tables(lm.tables(text, support="vocabulary"), expected)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in DENSE])
def test_factored_tables_are_those_of_a_naive_loop(name: str):
    lm, text, expected = prepared(name)
    few = unmask.Settings(memory_limit=0, batch_size=5)
    tables = lm.tables(text, support="vocabulary", settings=few)
    assert_tables(tables, expected)
    assert isinstance(tables.a_given_b.logits, unmask.FactoredLogits)
    assert isinstance(tables.b_given_a.logits, unmask.FactoredLogits)


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
def test_which_are_factored_and_who_is_told(name: str):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lm = unmask.load(build(name))
    said = [str(w.message) for w in caught if "dense logits" in str(w.message)]
    if name not in DENSE:
        assert lm.model.output_embedding is not None
        assert not said
        return
    # the fall-back is deserved: that layer does not even have a row for every token
    assert len(lm.model.model.get_output_embeddings().weight) != lm.model.vocabulary_size
    assert lm.model.output_embedding is None
    assert len(said) == 1
    assert "DebertaV2ForMaskedLM" in said[0]


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


@pytest.mark.filterwarnings("ignore:.*dense logits")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_saved_folder_gives_the_same_tables(name: str, tmp_path):
    model, tokenizer = build(name)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    _, text, expected = prepared(name)
    lm = unmask.load(tmp_path)
    assert_tables(lm.tables(text, support="vocabulary"), expected)
    assert (lm.model.output_embedding is None) == (name in DENSE)


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
