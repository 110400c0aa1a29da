"""What holds of the joints that go past the paper, and of nothing else."""

import examples
import numpy as np
import pytest
from examples import EXAMPLES, SOLVABLE, Example, build, log_table

from unmask.tables.stationary import stationary_law

# what gives back a true joint, given its conditionals and its marginals as m
RECOVERING: list[tuple[str, dict[str, object]]] = [
    ("log-pool", {}),
    ("orders", {"mean": "arithmetic"}),
    ("orders", {"mean": "geometric"}),
]


def by_name(example: Example) -> str:
    return example.name


def gap(one: examples.Array, other: examples.Array) -> float:
    return float(np.abs(one - other).max())


def with_wrong_marginals(example: Example) -> Example:
    rng = np.random.default_rng(0)
    m_a, m_b = (rng.dirichlet(np.ones(size)) for size in example.A.shape)
    return Example(example.name, example.logits_A, example.logits_B, m_a, m_b, example.truth)


@pytest.mark.parametrize(("method", "options"), RECOVERING, ids=str)
@pytest.mark.parametrize("shape", [(2, 2), (7, 3), (40, 40), (300, 200)])
def test_the_truth_is_recovered(
    method: str, options: dict[str, object], shape: tuple[int, int]
) -> None:
    example = examples.compatible(*shape, seed=9)
    # the stored logits are float32, so the tables are compatible only to their rounding
    assert gap(log_table(build(method, example, **options)), np.log(example.truth)) < 2e-5


def test_the_pool_recovers_the_truth_from_wrong_marginals() -> None:
    wrong = with_wrong_marginals(examples.compatible(40, 30, seed=9))
    assert gap(log_table(build("log-pool", wrong)), np.log(wrong.truth)) < 2e-5


@pytest.mark.parametrize(("method", "options"), RECOVERING[1:], ids=str)
def test_marginals_that_are_taken_on_trust_must_be_right(
    method: str, options: dict[str, object]
) -> None:
    wrong = with_wrong_marginals(examples.compatible(40, 30, seed=9))
    assert gap(log_table(build(method, wrong, **options)), np.log(wrong.truth)) > 0.01


@pytest.mark.parametrize("example", EXAMPLES, ids=by_name)
def test_the_mean_of_two_orders_needs_no_normaliser(example: Example) -> None:
    joint = build("orders", example)
    scores = joint.scores(slice(0, joint.shape[0])).numpy()
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", SOLVABLE)
def test_the_law_does_not_move_when_sampled_from(kind: str) -> None:
    example = SOLVABLE[kind](60, 50, 3)
    law = stationary_law(example.tables())
    r_a, r_b = law.log_a.exp().numpy(), law.log_b.exp().numpy()
    np.testing.assert_allclose(example.A @ r_b, r_a, rtol=1e-9)
    np.testing.assert_allclose(example.B.T @ r_a, r_b, rtol=1e-9)


@pytest.mark.parametrize("kind", SOLVABLE)
def test_the_pool_is_the_geometric_mean_of_both_factorisations(kind: str) -> None:
    example = SOLVABLE[kind](60, 50, 3)
    law = stationary_law(example.tables())
    log_r_a, log_r_b = law.log_a.numpy()[:, None], law.log_b.numpy()
    scores = (np.log(example.A) + np.log(example.B) + log_r_a + log_r_b) / 2
    right = scores - np.logaddexp.reduce(scores, axis=None)
    assert gap(log_table(build("log-pool", example)), right) < 1e-9
