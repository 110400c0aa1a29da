"""Every construction and metric against the slow float64 definitions."""

import numpy as np
import pytest

import examples
import reference
import unmask
from examples import EXAMPLES, Example, log_table, tolerance
from unmask.constructions import ALIASES, method_name


def expected(method: str, example: Example) -> examples.Array:
    A, B = example.A, example.B
    mode = (int(example.m_a.argmax()), int(example.m_b.argmax()))
    return {
        "mlm": lambda: reference.mlm(example.m_a, example.m_b),
        "mrf": lambda: reference.mrf(A, B),
        "mrf-logit": lambda: reference.mrf_logit(example.logits_A, example.logits_B),
        "hcb": lambda: reference.hcb(A, B, mode),
        "ag": lambda: reference.ag(A, B, 50),
    }[method]()


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_joint_is_the_papers(method: str, example: Example) -> None:
    truth = np.log(expected(method, example))
    joint = unmask.construct(method, example.tables())
    close = tolerance(example.logits_A, example.logits_B, np.log(example.A), np.log(example.B))
    np.testing.assert_allclose(log_table(joint), truth, rtol=0, atol=close)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_metrics_of_all_joints_in_one_pass_are_the_papers(example: Example) -> None:
    tables = example.tables()
    joints = {m: unmask.construct(m, tables) for m in unmask.CONSTRUCTIONS}
    found = unmask.pair_metrics(joints, tables, example.gold)
    for method in joints:
        truth = expected(method, example)
        right = reference.metrics(
            truth, example.A, example.B, example.gold, own_unary=method == "mlm"
        )
        close = tolerance(example.logits_A, example.logits_B, np.log(truth))
        for name, value in found[method].to_dict().items():
            assert value == pytest.approx(right[name], abs=close), (method, name)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_ag_takes_exactly_the_steps_asked_for(steps: int) -> None:
    example = examples.heavy_tailed(30, 20, seed=3)
    joint = unmask.construct("ag", example.tables(), steps=steps)
    truth = np.log(reference.ag(example.A, example.B, steps))
    np.testing.assert_allclose(log_table(joint), truth, rtol=0, atol=1e-6)
    off = np.log(reference.ag(example.A, example.B, steps + 1))
    assert np.abs(log_table(joint) - off).max() > 1e-3


def test_ag_without_room_for_a_copy_of_the_tables_is_the_same() -> None:
    example = examples.near_deterministic(60, 50, seed=5)
    roomy = unmask.construct("ag", example.tables())
    tight = unmask.construct("ag", example.tables(memory_limit=0))
    np.testing.assert_allclose(log_table(roomy), log_table(tight), rtol=0, atol=1e-5)


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


def test_aliases_and_case() -> None:
    assert all(method_name(alias) == name for alias, name in ALIASES.items())
    assert method_name("Arnold_Gokhale") == "ag"


def test_unknown_method_names_the_nearest() -> None:
    with pytest.raises(unmask.MethodError, match=r"'mrff'.*did you mean 'mrf'.*mlm, mrf"):
        unmask.construct("mrff", examples.random(2, 2, 0).tables())


def test_options_are_checked_before_any_work() -> None:
    tables = examples.random(4, 4, 0).tables()
    with pytest.raises(unmask.MethodError, match="mrf has no option 'pivot'; it takes none"):
        unmask.construct("mrf", tables, pivot=1)
    with pytest.raises(unmask.MethodError, match="steps from 1, or None, not 0"):
        unmask.construct("ag", tables, steps=0)
    with pytest.raises(unmask.MethodError, match="pivot_axis is 0 or 1, not 2"):
        unmask.construct("hcb", tables, pivot_axis=2)


def test_ag_says_what_it_did() -> None:
    joint = unmask.construct("ag", examples.heavy_tailed(40, 40, 0).tables())
    assert joint.diagnostics["steps"] == 50
    change = joint.diagnostics["last_change"]
    assert isinstance(change, float)
    assert 0 < change < 1
    assert "converged" not in joint.diagnostics


def _logits(values: examples.Array) -> unmask.DenseLogits:
    import torch

    return unmask.DenseLogits(torch.tensor(values, dtype=torch.float32))
