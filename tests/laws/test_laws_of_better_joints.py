"""What holds of the joints that go past the paper, and of nothing else."""

import examples
import numpy as np
import pytest
import reference
from examples import EXAMPLES, SEARCHED, SOLVABLE, Example, build, log_table

import unmask

# what gives back a true joint, given its conditionals and its marginals as m
RECOVERING: list[tuple[str, dict[str, object]]] = [
    ("ag", {}),
    ("weighted-ag", {}),
    ("pseudo-gibbs", {}),
    ("log-pool", {}),
    ("orders", {"mean": "arithmetic"}),
    ("orders", {"mean": "geometric"}),
    ("sweep", {"contexts": 1000, "floor": 1e-9}),
]

NORMALISED_AS_THEY_STAND = ["pseudo-gibbs", "orders", "sweep"]


def by_name(example: Example) -> str:
    return example.name


def gap(one: examples.Array, other: examples.Array) -> float:
    return float(np.abs(one - other).max())


def with_marginals(example: Example, m_a: examples.Array, m_b: examples.Array) -> Example:
    logits = example.logits_A, example.logits_B
    return Example(example.name, *logits, m_a, m_b, example.truth)


def marginals(joint: unmask.Joint) -> tuple[examples.Array, examples.Array]:
    a, b = (np.exp(log_table(joint.marginal(axis))) for axis in (0, 1))
    return a, b


# compatible conditionals give back the true joint


@pytest.mark.parametrize(("method", "options"), RECOVERING, ids=str)
@pytest.mark.parametrize("shape", [(2, 2), (7, 3), (40, 40), (300, 200)])
def test_the_truth_is_recovered(
    method: str, options: dict[str, object], shape: tuple[int, int]
) -> None:
    example = examples.compatible(*shape, seed=9)
    # the stored logits are float32, so the tables are compatible only to their rounding
    assert gap(log_table(build(method, example, **options)), np.log(example.truth)) < 2e-5


@pytest.mark.parametrize("method", SEARCHED)
def test_the_truth_is_recovered_from_wrong_marginals(method: str) -> None:
    example = examples.compatible(40, 30, seed=9)
    rng = np.random.default_rng(0)
    wrong = with_marginals(example, rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(30)))
    assert gap(log_table(build(method, wrong)), np.log(example.truth)) < 2e-5


@pytest.mark.parametrize(("method", "options"), RECOVERING[4:], ids=str)
def test_marginals_that_are_taken_on_trust_must_be_right(
    method: str, options: dict[str, object]
) -> None:
    example = examples.compatible(40, 30, seed=9)
    rng = np.random.default_rng(0)
    wrong = with_marginals(example, rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(30)))
    assert gap(log_table(build(method, wrong, **options)), np.log(example.truth)) > 0.01


def test_few_contexts_do_not_sweep_up_the_truth() -> None:
    example = examples.compatible(40, 40, seed=9)
    assert gap(log_table(build("sweep", example, contexts=2)), np.log(example.truth)) > 0.01


@pytest.mark.parametrize("strength", [0.3, 10.0])
def test_pseudo_counts_keep_independence(strength: float) -> None:
    """Counts from the truth itself, however many, do not move the fit away from it."""
    rng = np.random.default_rng(1)
    m_a, m_b = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(20))
    logits_A, logits_B = np.log(m_a)[:, None] + np.zeros(20), np.log(m_b) + np.zeros((30, 1))
    example = Example("independent", logits_A, logits_B, m_a, m_b)
    joint = build("ag", example, pseudo_counts=strength)
    assert gap(log_table(joint), np.log(np.outer(m_a, m_b))) < 1e-5


# what each is, seen from its own marginals


@pytest.mark.parametrize("method", NORMALISED_AS_THEY_STAND)
@pytest.mark.parametrize("example", EXAMPLES, ids=by_name)
def test_means_of_two_orders_need_no_normaliser(method: str, example: Example) -> None:
    joint = build(method, example)
    scores = joint.scores(slice(0, joint.shape[0])).numpy()
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", SOLVABLE)
def test_pseudo_gibbs_does_not_move_when_sampled_from(kind: str) -> None:
    example = SOLVABLE[kind](60, 50, 3)
    r_a, r_b = marginals(build("pseudo-gibbs", example))
    np.testing.assert_allclose(example.A @ r_b, r_a, rtol=1e-6, atol=1e-15)
    np.testing.assert_allclose(example.B.T @ r_a, r_b, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("kind", SOLVABLE)
def test_pseudo_gibbs_is_where_a_step_of_ag_weighted_by_itself_stands_still(kind: str) -> None:
    example = SOLVABLE[kind](60, 50, 3)
    joint = build("pseudo-gibbs", example)
    r_a, r_b = marginals(joint)
    step = (r_b * example.A + r_a[:, None] * example.B) / 2
    assert gap(log_table(joint), np.log(step)) < 1e-5


@pytest.mark.parametrize(("method", "weighted"), [("ag", False), ("weighted-ag", True)])
@pytest.mark.parametrize("kind", SOLVABLE)
def test_the_minimum_stands_still_under_its_own_step(
    method: str, weighted: bool, kind: str
) -> None:
    example = SOLVABLE[kind](60, 50, 3)
    w_a = example.m_a[:, None] if weighted else np.ones((60, 1))
    w_b = example.m_b if weighted else np.ones(50)
    joint = build(method, example)
    r_a, r_b = marginals(joint)
    step = (w_b * example.A + w_a * example.B) / (w_b / r_b + w_a / r_a[:, None])
    assert gap(log_table(joint), np.log(step)) < 1e-5


def test_even_weights_change_nothing() -> None:
    example = examples.heavy_tailed(30, 30, seed=4)
    even = with_marginals(example, np.full(30, 1 / 30), np.full(30, 1 / 30))
    assert gap(log_table(build("weighted-ag", even)), log_table(build("ag", example))) < 1e-6


def test_many_pseudo_counts_leave_only_the_marginals_they_pull_to() -> None:
    example = examples.heavy_tailed(30, 20, seed=4)
    A, B, m_a, m_b = example.A, example.B, example.m_a, example.m_b
    right = (A + B) / (1 / m_a[:, None] + 1 / m_b)
    found = log_table(build("ag", example, pseudo_counts=1e8))
    assert gap(found, np.log(right / right.sum())) < 1e-5
    uniform = log_table(build("ag", example, pseudo_counts=1e8, towards="uniform"))
    pulled = (A + B) / (30 + 20)
    assert gap(uniform, np.log(pulled / pulled.sum())) < 1e-5


def test_few_pseudo_counts_hardly_move_the_minimum() -> None:
    example = examples.heavy_tailed(30, 20, seed=4)
    pure = log_table(build("ag", example))
    moved = [gap(log_table(build("ag", example, pseudo_counts=n)), pure) for n in (1e-6, 1e-2, 1.0)]
    assert moved[0] < 1e-4 < moved[1] < moved[2]


# nothing gets below a minimum


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLVABLE)
@pytest.mark.parametrize(("size", "steps"), [(30, 4000), (100, 1000)])
def test_no_number_of_plain_steps_gets_below_ag(kind: str, size: int, steps: int) -> None:
    example = SOLVABLE[kind](size, size + 7, 5)
    tables = example.tables()
    joints = {
        "solved": unmask.construct("ag", tables, pseudo_counts=0.0),
        "stepped": unmask.construct("ag-paper", tables, steps=steps),
        "paper": unmask.construct("ag-paper", tables),
    }
    solved, stepped, paper = (
        one.all_kl for one in unmask.pair_metrics(joints, tables, (0, 0)).values()
    )
    assert solved <= stepped + 1e-12 <= paper + 2e-12


@pytest.mark.parametrize("kind", SOLVABLE)
def test_no_other_joint_is_below_either_minimum(kind: str) -> None:
    example = SOLVABLE[kind](50, 40, 6)
    A, B, m_a, m_b = example.A, example.B, example.m_a, example.m_b
    joints = {method: np.exp(log_table(build(method, example))) for method in unmask.CONSTRUCTIONS}
    plain = {method: reference.ag_objective(A, B, joint) for method, joint in joints.items()}
    assert min(plain.values()) == pytest.approx(plain["ag"], abs=1e-9)
    weighted = {
        method: reference.weighted_ag_objective(A, B, m_a, m_b, joint)
        for method, joint in joints.items()
    }
    assert min(weighted.values()) == pytest.approx(weighted["weighted-ag"], abs=1e-11)
