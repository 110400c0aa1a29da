"""Every construction and metric against the slow float64 definitions."""

import re
from functools import cache

import examples
import numpy as np
import pytest
import reference
import torch
from examples import EXAMPLES, Example, build, converged, log_table, tolerance

import unmask
from unmask.constructions import ag

NAN, INF = float("nan"), float("inf")


NAMED = {example.name: example for example in EXAMPLES}


@cache
def held(method: str, name: str) -> examples.Array:
    """What one of EXAMPLES must give, computed once."""
    return expected(method, NAMED[name])


def expected(method: str, example: Example) -> examples.Array:
    A, B, m_a, m_b = example.A, example.B, example.m_a, example.m_b
    mode = (int(m_a.argmax()), int(m_b.argmax()))
    return {
        "mlm": lambda: reference.mlm(m_a, m_b),
        "mrf": lambda: reference.mrf(A, B),
        "mrf-logit": lambda: reference.mrf_logit(example.logits_A, example.logits_B),
        "hcb": lambda: reference.hcb(A, B, mode),
        "ag": lambda: reference.ag(A, B, 50),
        "log-pool": lambda: reference.log_pool(A, B),
        "orders": lambda: reference.orders(A, B, m_a, m_b, "arithmetic"),
    }[method]()


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_joint_is_as_defined(method: str, example: Example) -> None:
    joint = build(method, example)
    assert converged(joint)
    close = tolerance(example.logits_A, example.logits_B, np.log(example.A), np.log(example.B))
    right = np.log(held(method, example.name))
    np.testing.assert_allclose(log_table(joint), right, rtol=0, atol=close)


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
def test_a_blank_may_have_a_single_candidate(method: str, shape: tuple[int, int]) -> None:
    example = examples.random(*shape, seed=0)
    joint = build(method, example)
    assert converged(joint)
    right = np.log(expected(method, example))
    np.testing.assert_allclose(log_table(joint), right, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_metrics_of_all_joints_in_one_pass_are_the_papers(example: Example) -> None:
    tables = example.tables()
    joints = {method: unmask.construct(method, tables) for method in unmask.CONSTRUCTIONS}
    found = unmask.pair_metrics(joints, tables, example.gold)
    for method in joints:
        truth = held(method, example.name)
        right = reference.metrics(
            truth, example.A, example.B, example.gold, own_unary=method == "mlm"
        )
        close = tolerance(example.logits_A, example.logits_B, np.log(truth))
        for name, value in found[method].to_dict().items():
            assert value == pytest.approx(right[name], abs=close), (method, name)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_ag_takes_exactly_the_steps_asked_for(steps: int) -> None:
    example = examples.heavy_tailed(30, 20, seed=3)
    joint = build("ag", example, steps=steps)
    truth = np.log(reference.ag(example.A, example.B, steps))
    np.testing.assert_allclose(log_table(joint), truth, rtol=0, atol=1e-6)
    off = np.log(reference.ag(example.A, example.B, steps + 1))
    assert np.abs(log_table(joint) - off).max() > 1e-3


@pytest.mark.parametrize("example", EXAMPLES[::2], ids=lambda e: e.name)
def test_geometric_mean_of_the_orders(example: Example) -> None:
    joint = build("orders", example, mean="geometric")
    right = reference.orders(example.A, example.B, example.m_a, example.m_b, "geometric")
    close = tolerance(example.logits_A, example.logits_B, np.log(example.A), np.log(example.B))
    np.testing.assert_allclose(log_table(joint), np.log(right), rtol=0, atol=close)


@pytest.mark.parametrize("pivot", [0, 3, 19])
def test_hcb_with_a_pivot_on_either_axis(pivot: int) -> None:
    example = examples.random(20, 24, seed=1)
    tables = example.tables()
    on_a = unmask.construct("hcb", tables, pivot=pivot)
    np.testing.assert_allclose(
        log_table(on_a), np.log(reference.hcb(example.A, example.B, (pivot, 7))), atol=1e-9
    )
    on_b = unmask.construct("hcb", tables, pivot=pivot, pivot_axis=1)
    swapped = reference.hcb(example.B.T, example.A.T, (pivot, 2)).T
    np.testing.assert_allclose(log_table(on_b), np.log(swapped), atol=1e-9)
    assert on_b.diagnostics["pivot"] == str(pivot)


def test_appendix_b_of_the_paper() -> None:
    """Compatible conditionals whose MRF is 1.27 nats from the truth given b."""
    joint = np.array([[97.0, 1.0], [1.0, 1.0]]) / 100
    tables = unmask.PairTables.from_logits(*(_logits(np.log(joint)) for _ in range(2)))
    derived = unmask.construct("mrf", tables).conditional(0, given={1: 1})
    true = joint[:, 1] / joint[:, 1].sum()
    found = np.exp([derived.log_prob(a) for a in (0, 1)])
    assert float((true * np.log(true / found)).sum()) == pytest.approx(1.27, abs=5e-3)


def test_options_are_checked_before_any_work() -> None:
    tables = examples.random(4, 4, 0).tables()
    with pytest.raises(unmask.errors.MethodError, match="mrf has no option 'pivot'; it takes none"):
        unmask.construct("mrf", tables, pivot=1)
    with pytest.raises(unmask.errors.MethodError, match="give one of them"):
        unmask.construct("ag", tables, steps=50, tolerance=0.1)


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        ("hcb", "pivot_axis", 2),
        *[("ag", "steps", value) for value in (0, -1, 1.5, None, True, "many")],
        *[("ag", "tolerance", value) for value in (-0.5, 0, NAN, INF, True, "some")],
        *[("orders", "mean", value) for value in ("harmonic", None, 2)],
    ],
)
def test_values_that_an_option_cannot_have_are_named(
    method: str, option: str, value: object
) -> None:
    with pytest.raises(unmask.errors.MethodError, match=rf"{option}.*not {re.escape(repr(value))}"):
        build(method, examples.random(4, 4, 0), **{option: value})


def test_ag_says_what_it_did() -> None:
    joint = build("ag", examples.heavy_tailed(40, 40, 0))
    assert joint.method == joint.diagnostics["method"] == "ag"
    assert joint.diagnostics["steps"] == 50
    change = joint.diagnostics["last_change"]
    assert 0 < change < 1
    assert "converged" not in joint.diagnostics


def test_ag_goes_on_to_a_tolerance_and_says_what_it_reached() -> None:
    example = examples.heavy_tailed(30, 20, 0)
    joint = build("ag", example, tolerance=1e-9)
    assert joint.diagnostics["converged"] is True
    assert float(str(joint.diagnostics["residual"])) < joint.diagnostics["tolerance"] == 1e-9
    settled = reference.ag_converged(example.A, example.B, tolerance=1e-12)
    np.testing.assert_allclose(log_table(joint), np.log(settled), rtol=0, atol=1e-5)
    passes = joint.diagnostics["passes"]
    stepped = build("ag", example, steps=passes)
    np.testing.assert_array_equal(log_table(stepped), log_table(joint))
    assert stepped.diagnostics["last_change"] == joint.diagnostics["residual"]


def test_ag_gives_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ag, "_MOST_STEPS", 20)
    joint = build("ag", examples.heavy_tailed(30, 20, 0), tolerance=1e-9)
    assert (joint.diagnostics["converged"], joint.diagnostics["passes"]) == (False, 20)
    assert float(str(joint.diagnostics["residual"])) > 1e-9


def _logits(values: examples.Array) -> unmask.DenseLogits:
    return unmask.DenseLogits(torch.tensor(values, dtype=torch.float32))
