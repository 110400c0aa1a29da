"""Rules of parallel decoding, against cases computed by hand, and at the ends of thresholds."""

import math

import numpy as np
import pytest
import torch

import unmask
from unmask.names import RULES
from unmask.queries.parallel import rules
from unmask.queries.parallel.rules import FUNCTIONS, MaskedStep

# confidences .5, .9, .8, .6 over three tokens
PROBABILITIES = [[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.1, 0.1, 0.8], [0.6, 0.0, 0.4]]
PAIRS = [(0, 1, 0.3), (0, 2, 0.02), (0, 3, 0.05), (1, 2, 0.2), (1, 3, 0.01), (2, 3, 0.08)]


def symmetric() -> torch.Tensor:
    values = torch.full((4, 4), math.nan, dtype=torch.float64)
    for one, other, value in PAIRS:
        values[one, other] = values[other, one] = value
    return values


def step(**more: object) -> MaskedStep:
    log_probs = torch.tensor(PROBABILITIES, dtype=torch.float64).log()
    pairs = {"dependence": symmetric(), "attention": symmetric()}
    return MaskedStep(log_probs, **{**pairs, "draw": np.random.default_rng(0), **more})  # type: ignore[arg-type]


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
        ("top-k", 3, [1, 2, 3]),
        ("top-k", 9, [1, 2, 3, 0]),
        ("confidence", 0.6, [1, 2, 3]),
        ("confidence", 0.61, [1, 2]),
        ("confidence", 0.95, [1]),
        # 2 * .1 = .2, 3 * .2 = .6, 4 * .4 = 1.6, 5 * .5 = 2.5
        ("factor", 0.5, [1]),
        ("factor", 0.61, [1, 2]),
        ("factor", 1.7, [1, 2, 3]),
        ("factor", 2.51, [1, 2, 3, 0]),
        # two blanks: the smaller entropy; three: the two smaller ones
        ("entropy-bound", nats(0.05, 0.9, 0.05) - 1e-9, [1]),
        ("entropy-bound", nats(0.05, 0.9, 0.05) + 1e-9, [1, 2]),
        ("entropy-bound", nats(0.05, 0.9, 0.05) + nats(0.1, 0.1, 0.8) - 1e-9, [1, 2]),
        ("entropy-bound", nats(0.05, 0.9, 0.05) + nats(0.1, 0.1, 0.8) + 1e-9, [1, 2, 3]),
        # 1 first; 2 shares .2 with it, 3 shares .01, 0 shares .3 with it and .05 with 3
        ("attention", 0.1, [1, 3]),
        ("attention", 0.21, [1, 2, 3]),
        ("attention", 0.31, [1, 2, 3, 0]),
        # sums: 2 with 1: .2; 3 with 1 and 2: .09; 0 with all: .37
        ("mutual-information", 0.1, [1, 3]),
        ("mutual-information", 0.21, [1, 2, 3]),
        ("mutual-information", 0.36, [1, 2, 3]),
        ("mutual-information", 0.38, [1, 2, 3, 0]),
    ],
)
def test_by_hand(rule: str, threshold: float, filled: list[int]) -> None:
    assert FUNCTIONS[rule](step(), threshold) == filled


def test_stable_predictions_alone_are_filled() -> None:
    assert FUNCTIONS["stability"](step(), 0.0) == [1]
    before = torch.tensor(PROBABILITIES, dtype=torch.float64)
    # of the third the likeliest token stays, and its probability moves by 30 points
    before[2] = torch.tensor([0.25, 0.25, 0.5])
    assert FUNCTIONS["stability"](step(before=before.log()), 0.55) == [1, 3]
    assert FUNCTIONS["stability"](step(before=before.log()), 0.7) == [1]
    # impossible before and now: nothing moved
    assert 3 in FUNCTIONS["stability"](step(before=before.log()), 0.0)


LIMITS = {
    "top-k": (0, math.inf),
    "confidence": (1.1, 0),
    "factor": (0, math.inf),
    "entropy-bound": (0, math.inf),
    "attention": (0, math.inf),
    "mutual-information": (0, math.inf),
    "random-sizes": (0, math.inf),
}


@pytest.mark.parametrize("rule", LIMITS)
def test_limits_are_one_at_a_time_and_all_at_once(rule: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        size = int(rng.integers(1, 7))
        values = torch.from_numpy(rng.random((size, size)))
        drawn = MaskedStep(
            torch.from_numpy(rng.normal(size=(size, 5))).log_softmax(dim=1),
            dependence=values + values.T,
            attention=values + values.T,
            draw=rng,
        )
        one, every = (FUNCTIONS[rule](drawn, limit) for limit in LIMITS[rule])
        assert len(one) == 1
        assert sorted(every) == list(range(size))
        if rule != "random-sizes":
            assert one == FUNCTIONS["surest"](drawn, 0.0)
            assert every == FUNCTIONS["all-at-once"](drawn, 0.0)


def test_random_sizes_have_the_mean_that_is_asked_for() -> None:
    draw = np.random.default_rng(3)
    log_probs = torch.zeros(8, 2).log_softmax(dim=1)
    sizes = [
        len(FUNCTIONS["random-sizes"](MaskedStep(log_probs, draw=draw), 0.5)) for _ in range(2000)
    ]
    assert set(sizes) == set(range(1, 8))
    assert abs(np.mean(sizes) - 4) < 5 * np.std(sizes) / math.sqrt(2000)


def test_every_rule_has_a_name_and_a_function() -> None:
    assert set(RULES) == set(FUNCTIONS)
    for rule, about in RULES.items():
        if about.threshold is None:
            assert rules.check_rule(rule, None) == 0.0
            with pytest.raises(unmask.MethodError, match="has no threshold"):
                rules.check_rule(rule, 1)
        else:
            with pytest.raises(unmask.MethodError, match="needs a threshold"):
                rules.check_rule(rule, None)
            for bad in (-1, math.nan, "x", True):
                with pytest.raises(unmask.MethodError, match="takes a threshold from 0"):
                    rules.check_rule(rule, bad)
    with pytest.raises(unmask.MethodError, match="no rule 'best'"):
        rules.check_rule("best", 1)


@pytest.mark.parametrize("missing", ["dependence", "attention"])
def test_what_a_rule_reads_must_be_there(missing: str) -> None:
    rule = {"dependence": "mutual-information", "attention": "attention"}[missing]
    with pytest.raises(unmask.MethodError, match=f"give a step with `{missing}`"):
        FUNCTIONS[rule](step(**{missing: None}), 0.1)
