"""What bfloat16 costs, as a measured number, and what compiling must not change."""

import math

import pytest
import torch
from assets import real_model
from remembering_lm import CLOZE, RememberingLM
from tiny_models import build, two_blanks

import unmask
from unmask import Cloze, ModelError
from unmask.model import compiling
from unmask.model.output_layer import OutputEmbedding
from unmask.model.precision import rounding_error

TEXT = "Two [MASK] are playing [MASK] on the beach."


def shifted(by: torch.Tensor) -> RememberingLM:
    """The same model with other logits."""
    model = RememberingLM()
    model.output_embedding = OutputEmbedding(model.layer.weight, model.layer.bias + by)
    return model


# --- the measured error ------------------------------------------------------------------------


def test_a_model_does_not_differ_from_itself():
    error = rounding_error(RememberingLM(), RememberingLM(), CLOZE)
    assert (error.largest, error.mean, error.rows) == (0.0, 0.0, 24)


def test_the_error_is_that_of_the_log_probabilities_of_likely_tokens():
    by = torch.zeros(12)
    by[4] = 0.5
    reference, reduced = RememberingLM(), shifted(by)
    found = rounding_error(reference, reduced, Cloze("", CLOZE.ids, (4,)))
    logits = reference.layer.logits(reference.readouts(torch.tensor([CLOZE.ids]), [4])[0, 0])
    expected = (torch.log_softmax(logits + by, 0) - torch.log_softmax(logits, 0)).abs()
    assert found.rows == 1
    assert found.largest == pytest.approx(float(expected.max()), abs=1e-6)
    assert found.mean == pytest.approx(float(expected.mean()), abs=1e-6)


def test_tokens_that_hardly_occur_do_not_count():
    rare = torch.zeros(12)
    rare[4] = -40.0
    by = rare.clone()
    by[4] = -30.0
    found = rounding_error(shifted(rare), shifted(by), CLOZE)
    assert found.largest < 1e-6


def test_rows_are_a_sample_of_both_directions():
    model = RememberingLM()
    rounding_error(model, RememberingLM(), CLOZE, rows=6)
    assert [(len(rows), at) for rows, at in model.asked] == [(3, [2]), (3, [4])]
    assert [row[4] for row in model.asked[0][0]] == [0, 6, 11]


@pytest.mark.real
def test_a_model_in_bfloat16_says_how_far_it_is_off():
    lm = unmask.load(real_model("caption-bert"), dtype="bfloat16")
    error = lm.rounding_error(TEXT)
    assert 1e-3 < error.mean < 0.05
    assert error.mean < error.largest < 1
    assert error.rows == 128
    assert "nats on average" in str(error)
    # the same numbers from the tables that a joint would use
    exact = unmask.load(real_model("caption-bert"))
    cloze, support = exact.cloze(TEXT), list(range(40, 90))
    tables = [m.tables(cloze, support=support).a_given_b.log_prob(slice(None)) for m in (exact, lm)]
    assert float((tables[0] - tables[1]).abs().mean()) < 5 * error.mean


@pytest.mark.real
def test_a_model_in_float32_is_not_off():
    lm = unmask.load(real_model("caption-bert"))
    assert lm.rounding_error(TEXT, rows=8).largest == 0.0


def test_a_model_in_hand_has_nothing_to_compare_with():
    lm = unmask.load(build("bert"))
    with pytest.raises(ModelError, match="BertForMaskedLM was given as a model in hand"):
        lm.rounding_error(two_blanks(lm.tokenizer))


@pytest.mark.parametrize("name", ["bert", "albert", "modernbert", "esm"])
def test_bfloat16_is_trimmed_like_float32(name: str):
    model, tokenizer = build(name)
    expected = len(unmask.load((model, tokenizer)).model.trimming.cut)
    assert len(unmask.load((model.bfloat16(), tokenizer)).model.trimming.cut) == expected


# --- compiled models ---------------------------------------------------------------------------


def test_a_compiler_that_is_missing_is_one_sentence(monkeypatch):
    def broken(*_, **__):
        def run(*_, **__):
            raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found\nmore\nlines")

        return run

    monkeypatch.setattr(compiling.torch, "compile", broken)
    model, tokenizer = build("bert")
    with pytest.raises(
        ModelError, match=r"No working C\+\+ compiler.*load without compile"
    ) as caught:
        unmask.load((model, tokenizer), compile=True)
    assert "\n" not in str(caught.value)
    # the model in hand is as it was
    assert "forward" not in vars(model.base_model)


def test_a_compiler_that_computes_something_else_is_noticed(monkeypatch):
    def wrong(plain, **_):
        def run(*args, **options):
            found = plain(*args, **options)
            found.last_hidden_state.mul_(1.001)
            return found

        return run

    monkeypatch.setattr(compiling.torch, "compile", wrong)
    with pytest.raises(ModelError, match="something else"):
        unmask.load(build("bert"), compile=True)


def test_only_the_head_of_a_compiled_model_is_trimmed(monkeypatch):
    monkeypatch.setattr(compiling.torch, "compile", lambda plain, **_: plain)
    lm, plain = unmask.load(build("bert"), compile=True), unmask.load(build("bert"))
    inside = set(lm.model.model.base_model.modules())
    assert lm.model.trimming.cut == (True,) * 4
    assert not inside & set(lm.model.trimming.modules)
    text = two_blanks(lm.tokenizer)
    found, expected = (m.tables(text).a_given_b.log_prob(slice(None)) for m in (lm, plain))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_a_compiled_model_gives_the_same_tables():
    lm, plain = unmask.load(build("bert"), compile=True), unmask.load(build("bert"))
    text = two_blanks(lm.tokenizer)
    for size in (None, 7, 1):
        settings = unmask.Settings(batch_size=size)
        found, expected = (
            m.tables(text, settings=settings).b_given_a.log_prob(slice(None)) for m in (lm, plain)
        )
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert math.isfinite(lm.joint(text).entropy())
