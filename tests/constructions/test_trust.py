"""J, the one number for how far the two conditionals contradict each other."""

import examples
import numpy as np
import pytest
import reference
from examples import EXAMPLES, SOLVABLE, Example, build

import unmask
from unmask.joints.agreement import APART, CLOSE, Agreement


def contradiction() -> Example:
    """Each blank says that the tokens agree, the other that they differ."""
    agree = np.array([[0.0, -30.0], [-30.0, 0.0]])
    half = np.array([0.5, 0.5])
    return Example("contradiction", agree, -30 - agree, half, half)


def bits(example: Example) -> float:
    return unmask.construct("log-pool", example.tables()).incompatibility()


@pytest.mark.parametrize("kind", SOLVABLE)
@pytest.mark.parametrize("shape", [(2, 5), (7, 3), (40, 40), (200, 150)])
def test_it_is_as_defined(kind: str, shape: tuple[int, int]) -> None:
    example = SOLVABLE[kind](*shape, 2)
    right = reference.incompatibility(example.A, example.B)
    assert bits(example) == pytest.approx(right, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_it_is_at_most_one_bit(example: Example) -> None:
    assert 0 <= bits(example) <= 1


def test_a_plain_contradiction_is_one_bit() -> None:
    assert bits(contradiction()) == pytest.approx(1, abs=1e-9)
    assert bits(contradiction()) <= 1


@pytest.mark.parametrize("kind", SOLVABLE)
def test_swapping_the_blanks_or_relabelling_tokens_changes_nothing(kind: str) -> None:
    example = SOLVABLE[kind](40, 30, 6)
    rng = np.random.default_rng(3)
    found = bits(example)
    for other in (
        example.swapped(),
        example.relabelled(rng.permutation(40), rng.permutation(30)),
    ):
        same = pytest.approx(found, rel=1e-6, abs=1e-12)
        assert bits(other) == same


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
def test_every_joint_of_the_tables_says_it(method: str) -> None:
    example = examples.heavy_tailed(30, 20, seed=1)
    assert build(method, example).incompatibility() == bits(example)


def test_a_joint_that_was_given_has_none_to_say() -> None:
    joint = build("mrf", examples.random(4, 3, seed=0))
    assert joint.marginal(0).incompatibility() is None


def test_plain_words_change_at_the_thresholds() -> None:
    closely = "the two conditionals agree closely"
    assert Agreement(0.0).words() == Agreement(CLOSE - 1e-9).words() == closely
    assert "agree roughly" in Agreement(CLOSE).words()
    assert "agree roughly" in Agreement(APART - 1e-9).words()
    assert Agreement(APART).words().endswith("treat these probabilities as approximate")
