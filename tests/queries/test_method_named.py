"""Every answer names its construction, and every number its unit."""

import math

import pytest
import torch
from tiny_tokenizers import tiny_bert, word_piece
from transformers import pipeline

import unmask
import unmask.pipelines

PAIR, ONE = "the [MASK] [MASK] on the mat.", "the [MASK] sat."
QUIET = unmask.Settings(progress=False, announce=False)


@pytest.fixture(scope="module")
def lm() -> unmask.LanguageModel:
    return unmask.load((tiny_bert(), word_piece()))


@pytest.fixture(scope="module")
def fill_mask():
    # looked at, it registers the task
    assert unmask.JointFillMaskPipeline is not None
    return pipeline("joint-fill-mask", model=tiny_bert(), tokenizer=word_piece(), device="cpu")


def methods(fills: list[dict]) -> set[str]:
    assert fills
    return {fill["method"] for fill in fills}


@pytest.mark.slow
def test_fills_name_their_method(lm):
    assert methods(lm.fill(PAIR)) == {"log-pool"}
    assert methods(lm.fill(PAIR, method="mrf")) == {"mrf"}
    assert methods(lm.fill("[MASK] [MASK] [MASK] [MASK] [MASK].", top=2)) == {"orders"}
    assert methods(lm.fill(PAIR, targets=["cat", "dog"])) == {"orders"}
    assert methods(lm.fill(PAIR, targets=["cat", "dog"], method="mlm")) == {"mlm"}


def test_one_blank_has_the_models_own_distribution_whatever_is_asked(lm, fill_mask):
    for fills in (
        lm.fill(ONE),
        lm.fill(ONE, method="ag"),
        lm.fill(ONE, targets=["cat", "dog"]),
        fill_mask(ONE),
    ):
        assert methods(fills) == {"mlm"}


@pytest.mark.slow
def test_the_pipeline_has_the_same_default(lm, fill_mask):
    assert methods(fill_mask(PAIR)) == {"log-pool"}
    assert methods(fill_mask(PAIR, method="orders")) == {"orders"}
    assert fill_mask(PAIR) == lm.fill(PAIR, top=5)
    assert fill_mask(PAIR, method="orders") == lm.fill(PAIR, top=5, method="orders")


@pytest.mark.slow
def test_every_door_has_the_same_default_or_none(lm):
    assert lm.joint(PAIR).method == methods(lm.fill(PAIR)).pop()
    with pytest.raises(unmask.MethodError, match="name a method"):
        lm.log_prob([PAIR], [("cat", "sat")])


def test_log_prob_is_that_of_orders(lm):
    (found,) = lm.log_prob([PAIR], [("cat", "sat")], method="orders")
    by = {
        name: lm.joint(PAIR, method=name).log_prob("cat", "sat") for name in ("orders", "log-pool")
    }
    assert float(found) == pytest.approx(by["orders"], abs=1e-6)
    assert abs(by["orders"] - by["log-pool"]) > 1e-3
    assert "orders" in str(lm.log_prob.__doc__)


def test_joints_name_it(lm):
    assert "by log-pool" in repr(lm.joint(PAIR))


def test_scores_and_ratios_name_it(lm):
    assert lm.score(["the cat sat"], settings=QUIET)[0].to_dict()["method"] == "pll"
    pairs = [("the cat sat", "the dog sat"), ("the cat", "the cat sat")]
    for name in ("hcb-path", "pll"):
        found = lm.log_ratios(pairs, method=name, orders=2, settings=QUIET)
        assert [one.to_dict()["method"] for one in found] == [name, name]


def test_the_units_are_what_they_say(lm):
    joint = lm.joint(PAIR)
    told = joint.to_dict()
    assert told["units"]["entropy"] == "nats"
    whole = torch.cat([joint.log_rows(slice(0, len(joint.supports[0])))]).double()
    assert told["entropy"] == pytest.approx(float(-(whole.exp() * whole).sum()), rel=1e-6)
    assert joint.entropy(base_two=True) == pytest.approx(told["entropy"] / math.log(2))
