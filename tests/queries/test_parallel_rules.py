"""Rules of parallel decoding, against cases computed by hand, and at the ends of thresholds."""

import math

import numpy as np
import pytest
import torch

import unmask
from unmask.names import RULES
from unmask.queries.decode import rules
from unmask.queries.decode.rules import FUNCTIONS, Step

# confidences .5, .9, .8, .6 over three tokens
PROBABILITIES = [[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.1, 0.1, 0.8], [0.6, 0.0, 0.4]]
PAIRS = [(0, 1, 0.3), (0, 2, 0.02), (0, 3, 0.05), (1, 2, 0.2), (1, 3, 0.01), (2, 3, 0.08)]


def symmetric() -> torch.Tensor:
    values = torch.full((4, 4), math.nan, dtype=torch.float64)
    for one, other, value in PAIRS:
        values[one, other] = values[other, one] = value
    return values


def step(dependence: torch.Tensor | None) -> Step:
    log_probs = torch.tensor(PROBABILITIES, dtype=torch.float64).log()
    return Step(log_probs, None, np.random.default_rng(0), dependence)


def nats(*probabilities: float) -> float:
    return -sum(p * math.log(p) for p in probabilities if p)


@pytest.mark.parametrize(
    ("rule", "threshold", "filled"),
    [
        ("surest", 0, [1]),
        ("left-to-right", 0, [0]),
        # ahead by .2, .85, .7, .2
        ("margin", 0, [1]),
        ("all-at-once", 0, [1, 2, 3, 0]),
        ("confidence", 0.6, [1, 2, 3]),
        ("confidence", 0.61, [1, 2]),
        ("confidence", 0.95, [1]),
        # two blanks: the smaller entropy; three: the two smaller ones
        ("entropy-bound", nats(0.05, 0.9, 0.05) - 1e-9, [1]),
        ("entropy-bound", nats(0.05, 0.9, 0.05) + 1e-9, [1, 2]),
        ("entropy-bound", nats(0.05, 0.9, 0.05) + nats(0.1, 0.1, 0.8) - 1e-9, [1, 2]),
        ("entropy-bound", nats(0.05, 0.9, 0.05) + nats(0.1, 0.1, 0.8) + 1e-9, [1, 2, 3]),
        # sums: 2 with 1: .2; 3 with 1 and 2: .09; 0 with all: .37
        ("mutual-information", 0.1, [1, 3]),
        ("mutual-information", 0.21, [1, 2, 3]),
        ("mutual-information", 0.36, [1, 2, 3]),
        ("mutual-information", 0.38, [1, 2, 3, 0]),
    ],
)
def test_by_hand(rule: str, threshold: float, filled: list[int]) -> None:
    assert FUNCTIONS[rule](step(symmetric()), threshold) == filled


def test_every_rule_has_a_name_and_a_function() -> None:
    assert set(RULES) == set(FUNCTIONS)
    for rule, about in RULES.items():
        if about.threshold is None:
            assert rules.checked_rule(rule, None) == (rule, None)
            with pytest.raises(unmask.errors.MethodError, match="has no threshold"):
                rules.checked_rule(rule, 1)
        else:
            if about.default is None:
                with pytest.raises(unmask.errors.MethodError, match="needs a threshold"):
                    rules.checked_rule(rule, None)
            else:
                assert rules.checked_rule(rule, None) == (rule, about.default)
            for bad in (-1, math.nan, "x", True):
                with pytest.raises(unmask.errors.MethodError, match="takes a threshold from 0"):
                    rules.checked_rule(rule, bad)
    assert rules.checked_rule("confidence", 1) == ("confidence", 1.0)
    with pytest.raises(unmask.errors.MethodError, match=r"from 0 to 1 \(probability .*, not 90"):
        rules.checked_rule("confidence", 90)
    with pytest.raises(unmask.errors.MethodError, match="no rule 'best'"):
        rules.checked_rule("best", 1)


def test_a_name_close_to_a_rule_is_named() -> None:
    with pytest.raises(unmask.errors.MethodError, match="did you mean 'entropy-bound'"):
        rules.checked_rule("entropy_bound", 1)


def test_a_function_has_no_threshold() -> None:
    assert rules.checked_rule(rules.surest, None) == (rules.surest, None)
    with pytest.raises(unmask.errors.MethodError, match=r"bind its own with functools\.partial"):
        rules.checked_rule(rules.surest, 1)


def test_the_dependence_that_a_rule_reads_must_be_there() -> None:
    with pytest.raises(unmask.errors.MethodError, match="give it with the step"):
        FUNCTIONS["head"](step(None), 0.1)


@pytest.mark.parametrize(
    "answer", [[2, 0], (2, 0), np.array([2, 0]), torch.tensor([2, 0]), [np.int64(2), 0]]
)
def test_numbers_of_blanks_come_in_many_types(answer: object) -> None:
    assert rules.own_choice(lambda _: answer, step(None), None) == [2, 0]


@pytest.mark.parametrize(
    "answer", [[], None, 1, [4], [-1], [0, 0], [1.0], [True, False, False, True], "0", {0}]
)
def test_an_answer_that_names_no_blanks_is_refused(answer: object) -> None:
    def mine(_: Step) -> object:
        return answer

    with pytest.raises(unmask.errors.MethodError, match=r"the rule 'mine' returned .* from 0 to 3"):
        rules.own_choice(mine, step(None), None)
