"""Single contexts of ten architectures against a loop over the plain model.

Tables of every architecture, over supports and vocabularies, are in `test_all_architectures`.
"""

import warnings
from functools import cache

import pytest
import torch
from naive_tables import Naive, assert_near, naive_tables
from tiny_models import ARCHITECTURES, build, two_blanks

import unmask


@cache
def prepared(name: str) -> tuple[unmask.LanguageModel, str, Naive]:
    """A loaded model, a text with two blanks, and what the loop says of it."""
    model, tokenizer = build(name)
    text = two_blanks(tokenizer)
    expected = naive_tables(model, tokenizer, text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unmask.load((model, tokenizer)), text, expected


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
