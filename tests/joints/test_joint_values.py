"""Joints as values: they are pickled, keep to the memory allowed, and say what they were not given.

Every construction of one, two and three blanks.
"""

import inspect
import pickle
from dataclasses import replace
from functools import partial

import pytest
import torch

import unmask
from unmask.constructions import CONSTRUCTIONS
from unmask.errors import SupportError, UnmaskError
from unmask.joints.joint import Joint
from unmask.joints.lazy_orders import LazyOrders, LazyPair

ONE, PAIR = "the [MASK] sat.", "the [MASK] sat on the [MASK]."
THREE = "the [MASK] [MASK] on the [MASK]."
QUIET = unmask.Settings(progress=False, announce=False)
TIGHT = replace(QUIET, memory_limit=0)
FILLS = {ONE: ("cat",), PAIR: ("cat", "mat"), THREE: ("cat", "sat", "mat")}


def again(joint: Joint) -> Joint:
    found: Joint = pickle.loads(pickle.dumps(joint))
    assert type(found) is type(joint)
    return found


CASES = [(ONE, "mlm"), *((PAIR, name) for name in CONSTRUCTIONS)]
CASES += [(THREE, name) for name in CONSTRUCTIONS]


@pytest.mark.parametrize(("text", "method"), CASES)
def test_a_pickled_joint_is_the_same_distribution(text, method, lm) -> None:
    few = ["cat", "dog", "sat", "mat"] if text == THREE else "vocabulary"
    joint = lm.joint(text, method=method, support=few, settings=QUIET)
    fresh = again(joint)
    # what is computed on the way is kept beside the joint, and must not be in the way
    log_prob, fills = joint.log_prob(*FILLS[text]), [fill.tokens for fill in joint.top(3)]
    entropy, agreement = joint.entropy(), joint.agreement()
    for found in (fresh, again(joint)):
        assert found.log_prob(*FILLS[text]) == pytest.approx(log_prob, abs=1e-6)
        assert [fill.tokens for fill in found.top(3)] == fills
        assert found.entropy() == pytest.approx(entropy, abs=1e-6)
        assert found.agreement() == agreement
        assert found.diagnostics == joint.diagnostics


def test_joints_of_other_makes_are_pickled_too(lm) -> None:
    wide = lm.joint(THREE, method="orders", support="vocabulary", settings=TIGHT)
    assert isinstance(wide.engine, LazyOrders)
    assert again(wide).log_prob("cat", "sat", "mat") == wide.log_prob("cat", "sat", "mat")
    lazy = lm.joint(PAIR, method="orders", settings=QUIET)
    assert isinstance(lazy.engine, LazyPair)
    assert again(lazy).log_prob("cat", "mat") == lazy.log_prob("cat", "mat")
    part = lm.joint(PAIR, settings=QUIET).conditional(1, given={0: "cat"})
    assert again(part).log_prob("mat") == part.log_prob("mat")


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["mrf", "orders", "log-pool"])
def test_the_marginal_of_all_blanks_makes_no_table(method, lm) -> None:
    joint = lm.joint(PAIR, method=method, settings=TIGHT)
    whole = joint.marginal(0, 1)
    assert whole.engine is joint.engine
    assert whole.log_prob("cat", "mat") == joint.log_prob("cat", "mat")


def test_turned_blanks_are_rejected_where_their_table_does_not_fit(lm) -> None:
    joint = lm.joint(PAIR, method="mrf", settings=replace(QUIET, memory_limit=1000))
    size = joint.shape[0]
    with pytest.raises(UnmaskError) as raised:
        joint.marginal(1, 0)
    assert str(raised.value) == (
        f"marginal(1, 0) makes a table of {size} x {size} cells, {8 * size**2 / 1000:.1f} kB, "
        "above the memory limit of 1.0 kB; raise the memory limit, or take marginal(0, 1), which "
        "makes none"
    )
    turned = lm.joint(PAIR, method="mrf", settings=QUIET).marginal(1, 0)
    assert turned.log_prob("mat", "cat") == pytest.approx(joint.log_prob("cat", "mat"), abs=1e-6)


# --- slips of the hand -------------------------------------------------------------------------


def test_a_conditional_says_what_given_takes(lm) -> None:
    joint = lm.joint(PAIR, method="mrf", settings=QUIET)
    for given in ("cat", ["cat"], ("cat", 0), None, 3):
        with pytest.raises(SupportError) as raised:
            inspect.unwrap(Joint.conditional)(joint, 1, given=given)
        assert "given is a dictionary from blanks to tokens, as given={0: " in str(raised.value)
    with pytest.raises(SupportError, match="there is no blank 2"):
        joint.conditional(1, given={2: "cat"})


def sampled_joints(lm) -> list[Joint]:
    pair = lm.joint(PAIR, method="mrf", settings=QUIET)
    lazy = lm.joint(PAIR, method="orders", settings=QUIET)
    wide = lm.joint(THREE, method="orders", support="vocabulary", settings=TIGHT)
    return [pair, lazy, wide, lm.joint(ONE)]


def test_samples_say_what_a_seed_is(lm) -> None:
    for joint in sampled_joints(lm):
        # unwrapped: the checks of annotations, which users do not have, would answer before
        sample = partial(inspect.unwrap(type(joint).sample), joint)
        for wrong in (-1, "x", 1.5, None):
            with pytest.raises(SupportError, match="a seed is a whole number from 0, or a"):
                sample(3, seed=wrong)
        for n in ("3", 1.5, -1, True, 10**12):
            with pytest.raises(SupportError, match="sample takes a number of draws from 0"):
                sample(n)
        assert joint.sample(3, seed=1) == joint.sample(3, seed=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("text", [ONE, PAIR, THREE])
def test_an_option_that_is_misspelt_is_guessed(text, lm) -> None:
    wanted = r"has no option 'suport'; did you mean support\?"
    with pytest.raises(UnmaskError, match=wanted):
        lm.joint(text, suport=20)
    with pytest.raises(UnmaskError, match="has no option 'step'; did you mean steps"):
        lm.joint(text, method="ag", step=3)
    with pytest.raises(UnmaskError, match="has no option 'xyzzy'; it takes none"):
        lm.joint(text, xyzzy=3)
