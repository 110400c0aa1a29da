"""Tables in memory."""

import gc
import inspect
import os
import weakref

import examples
import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from shape_checks import checked
from tiny_models import build, two_blanks
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.model.row_reader import Outcomes
from unmask.tables.marginals import MaskedMarginals
from unmask.tables.pair_tables import PairTables


def elicited(*, factored: bool = True, **options: int) -> unmask.PairTables:
    model = ToyMaskedLM(toy_joint(9, 2), noise=0.7, factored=factored)
    lm = unmask.LanguageModel(model, ToyTokenizer(9))
    return lm.tables("[MASK] [MASK]", settings=unmask.Settings(**options))


def test_tables_that_do_not_fit_each_other_are_refused() -> None:
    square, wide = (unmask.DenseLogits(torch.zeros(2, n)) for n in (2, 3))
    with pytest.raises(unmask.UnmaskError, match=r"\(2, 2\) and \(2, 3\)"):
        unmask.PairTables.from_logits(square, wide)
    with pytest.raises(unmask.UnmaskError, match="do not fit tables of 2 x 2"):
        unmask.PairTables.from_logits(square, square, supports=(unmask.Support.of("abc"),) * 2)


def test_logits_that_are_not_finite_are_refused() -> None:
    good = unmask.DenseLogits(torch.zeros(2, 3))
    for wrong in (torch.nan, torch.inf, -torch.inf):
        bad = torch.zeros(2, 3)
        bad[1, 1] = wrong
        with pytest.raises(unmask.errors.NumericsError, match=r"q\(a \| b\) are not finite"):
            unmask.PairTables.from_logits(unmask.DenseLogits(bad), good)


def test_hcb_without_the_doubly_masked_distributions_says_what_is_missing() -> None:
    example = examples.random(3, 3, 0)
    tables = example.tables()
    bare = unmask.PairTables.from_logits(tables.a_given_b.logits, tables.b_given_a.logits)
    with pytest.raises(unmask.UnmaskError, match="no doubly masked distributions"):
        unmask.construct("hcb", bare)
    assert unmask.construct("hcb", bare, pivot=0).shape == (3, 3)


def test_dense_tables_take_of_the_memory_limit() -> None:
    tables = examples.random(9, 9, 0).tables()
    assert tables.memory_left() == tables.memory_limit - 8 * 81


def test_captured_mass_of_a_restricted_support() -> None:
    model = ToyMaskedLM(toy_joint(9, 2))
    lm = unmask.LanguageModel(model, ToyTokenizer(9))
    joint = lm.joint("[MASK] [MASK]", method="mlm", support=["t1", "t4"])
    captured = joint.diagnostics["captured_mass"]
    truth = [model.joint.sum(1)[[1, 4]].sum(), model.joint.sum(0)[[1, 4]].sum()]
    assert captured == pytest.approx(truth, abs=1e-6)
    assert joint.marginal(0).log_prob("t4") == pytest.approx(
        np.log(model.joint.sum(1)[4] / truth[0]), abs=1e-6
    )


def test_metrics_refuse_joints_over_other_tokens() -> None:
    joint = unmask.construct("mrf", examples.random(4, 4, 0).tables())
    tables = unmask.PairTables.from_logits(
        unmask.DenseLogits(torch.zeros(4, 4)),
        unmask.DenseLogits(torch.zeros(4, 4)),
        supports=(unmask.Support(torch.tensor([3, 4, 5, 6]), list("abcd")),) * 2,
    )
    with pytest.raises(unmask.errors.SupportError, match="'mrf' is not over the tokens"):
        unmask.pair_metrics({"mrf": joint}, tables, ("a", "b"))


@pytest.mark.parametrize(
    ("log_a", "log_b", "said"),
    [
        (torch.zeros(3).log_softmax(0), torch.zeros(3).log_softmax(0), "3 and 3 tokens do not fit"),
        (torch.zeros(2), torch.zeros(3).log_softmax(0), "sum to one, but these sum to 2 and 1"),
        (torch.full((2,), torch.nan), torch.zeros(3).log_softmax(0), "but these sum to nan and 1"),
    ],
)
def test_marginals_that_are_none_are_refused(
    log_a: torch.Tensor, log_b: torch.Tensor, said: str
) -> None:
    logits = unmask.DenseLogits(torch.zeros(2, 3))
    with pytest.raises(unmask.UnmaskError, match=said):
        unmask.PairTables.from_logits(
            logits, logits, marginals=unmask.MaskedMarginals(log_a.double(), log_b.double())
        )


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
def test_tables_are_freed_with_the_joints_that_used_them(method: str) -> None:
    """A cycle would keep gigabytes until the next collection, which few objects bring about."""
    gc.disable()
    try:
        tables = examples.random(20, 30, 0).tables()
        joint = unmask.construct(method, tables)
        joint.top(3)
        joint.entropy()
        joint.incompatibility()
        gone = weakref.ref(tables)
        del tables, joint
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.skipif(os.environ.get("UNMASK_TEST_SHAPES") == "0", reason="shapes are not checked")
def test_shapes_in_annotations_are_checked_while_tests_run() -> None:
    # from their first call on, however often tests before this one called them
    marginals, logits = (
        checked(inspect.unwrap(one)) for one in (MaskedMarginals.__init__, Outcomes.logits)
    )
    with pytest.raises(TypeCheckError, match="log_b"):
        marginals(object.__new__(MaskedMarginals), torch.zeros(2), torch.zeros(2, 2))
    with pytest.raises(TypeCheckError, match="readouts"):
        logits(Outcomes(2, torch.zeros(2, 3), None, None), torch.zeros(3))
    for one in (MaskedMarginals.__init__, Outcomes.logits):
        assert one is not inspect.unwrap(one), "checked in the modules themselves"


def test_tables_show_themselves_without_eliciting() -> None:
    lm = unmask.load(build("bert"))
    text = two_blanks(lm.tokenizer)
    tables = lm.tables(text, support={0: ["cat", "dog", "man"]})
    about = f"model 'BertForMaskedLM', text '{text}'"
    size = lm.model.vocabulary_size
    assert repr(tables) == f"PairTables(3 x {size}, not elicited yet, {about})"
    assert tables.diagnostics()["forward_passes"] == 0
    _ = tables.b_given_a
    assert repr(tables) == f"PairTables(3 x {size}, dense, {about})"
    logits = torch.zeros(2, 3)
    stored = PairTables.from_logits(unmask.DenseLogits(logits), unmask.DenseLogits(logits))
    assert repr(stored) == "PairTables(2 x 3, dense)"
    hostile = lm.tables(f"the a\x1b[31m {lm.tokenizer.mask_token} {lm.tokenizer.mask_token}")
    assert repr(hostile).isprintable()
