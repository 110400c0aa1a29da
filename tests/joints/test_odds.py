"""Odds between fills of a joint, and interactions, against their definitions."""

import itertools
import math

import numpy as np
import pytest
import torch

import unmask
from unmask.joints.joint import Joint
from unmask.text.support import Support


def random_joint(*sizes: int) -> tuple[Joint, np.ndarray]:
    table = np.random.default_rng(len(sizes)).normal(0, 2, sizes)
    joint = Joint.from_scores(torch.tensor(table), tuple(Support.of("ACDEF"[:n]) for n in sizes))
    return joint, table - math.log(np.exp(table).sum())


@pytest.mark.slow
def test_log_odds_and_the_odds_ratio_of_two_blanks():
    joint, log_p = random_joint(4, 3)
    for a, b, a2, b2 in itertools.product(range(4), range(3), range(4), range(3)):
        expected = log_p[a2, b2] - log_p[a, b]
        assert joint.log_odds([a2, b2], [a, b]) == pytest.approx(expected, abs=1e-12)
        ratio = log_p[a2, b2] + log_p[a, b] - log_p[a2, b] - log_p[a, b2]
        found = joint.interaction([a2, b2], [a, b])
        assert found == pytest.approx(ratio, abs=1e-12)
        if a == a2 or b == b2:
            assert found == 0.0


def test_interaction_of_any_number_of_blanks():
    joint, log_p = random_joint(3, 4, 2, 3)
    before, after = (0, 3, 1, 2), (2, 1, 0, 0)
    singles = sum(
        log_p[tuple(after[i] if i == k else before[i] for i in range(4))] - log_p[before]
        for k in range(4)
    )
    expected = log_p[after] - log_p[before] - singles
    assert joint.interaction(after, before) == pytest.approx(expected, abs=1e-12)
    bits = joint.interaction(after, before, base_two=True)
    assert bits == pytest.approx(expected / math.log(2), abs=1e-12)
    assert joint.log_odds(after, before, base_two=True) == pytest.approx(
        (log_p[after] - log_p[before]) / math.log(2), abs=1e-12
    )
    # names and ids are the same tokens
    assert joint.interaction(["D", 1, "A", "A"], ["A", "E", 1, 2]) == (
        joint.interaction(after, before)
    )


def test_one_blank_has_odds_and_no_interaction():
    joint, log_p = random_joint(5)
    assert joint.log_odds(["C"], ["F"]) == pytest.approx(log_p[1] - log_p[4], abs=1e-12)
    assert joint.interaction(["C"], ["F"]) == 0.0


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        (["A"], "mutant is a list of 2 tokens, one per blank, not ['A']"),
        ("AC", "mutant is a list of 2 tokens, one per blank, not 'AC'"),
        (["A", "W"], "blank 1: 'W' is not one of the 3 tokens of this blank"),
    ],
)
def test_fills_that_do_not_fit(mutant, said):
    joint, _ = random_joint(4, 3)
    for ask in (joint.log_odds, joint.interaction):
        with pytest.raises(unmask.errors.SupportError) as raised:
            ask(mutant, ["A", "A"])
        assert str(raised.value) == said
    with pytest.raises(unmask.errors.SupportError, match=r"^wildtype is a list of 2 tokens"):
        joint.log_odds(["A", "A"], ["A"])


def test_what_is_impossible_has_infinite_odds_or_none():
    table = torch.zeros(2, 2)
    table[1, 1] = table[0, 1] = -math.inf
    joint = Joint.from_scores(table, (Support.of("AC"), Support.of("AC")))
    assert joint.log_odds(["C", "C"], ["A", "A"]) == -math.inf
    with pytest.raises(unmask.errors.NumericsError, match="probability zero are undefined"):
        joint.log_odds(["C", "C"], ["A", "C"])
    with pytest.raises(unmask.errors.NumericsError, match="probability zero are undefined"):
        joint.interaction(["C", "C"], ["A", "A"])
