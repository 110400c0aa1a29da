"""The solver behind a converged Arnold-Gokhale joint: right answers, and no false claims."""

import examples
import numpy as np
import pytest
import reference
import torch
from examples import SOLVABLE, SOLVED, Example, build, log_table
from reference_solvers import bradley_terry_exactly
from thinned import thinned

import unmask
from unmask import logspace
from unmask.constructions.solvers import fits, pair_graph
from unmask.constructions.solvers.descent import TOLERANCE
from unmask.constructions.solvers.pair_passes import Contest

# 25 of each kind; most are small, so that one core has them all in a minute
SIZES = [(50 + 14 * n, 50 + (37 * n) % 150) for n in range(20)] + [
    (330, 350), (400, 250), (250, 400), (370, 370), (400, 400)
]  # fmt: skip
A_FEW = [(50, 57), (120, 90), (200, 207)]


def right(example: Example) -> examples.Array:
    return reference.ag_minimum(example.A, example.B, example.m_a, example.m_b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLVABLE)
@pytest.mark.parametrize("number", thinned(range(25), 3))
def test_the_minimum_is_found(kind: str, number: int) -> None:
    """A hundred problems against Newton's method on the whole Hessian, run to 1e-10."""
    example = SOLVABLE[kind](*SIZES[number], 100 + number)
    joint = build("ag", example)
    # on some peaked tables the passes run out where the answer is good, but not proved to be
    assert kind == "peaked" or joint.diagnostics["converged"] is True
    assert examples.error(joint, right(example)) < SOLVED


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in SOLVABLE if kind != "peaked"])
@pytest.mark.parametrize("shape", A_FEW)
def test_the_minimum_is_found_in_few_passes(kind: str, shape: tuple[int, int]) -> None:
    example = SOLVABLE[kind](*shape, 11)
    joint = build("ag", example)
    assert joint.diagnostics["converged"] is True
    assert int(str(joint.diagnostics["passes"])) <= 30
    assert examples.error(joint, right(example)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLVABLE)
@pytest.mark.parametrize("shape", A_FEW)
def test_the_weighted_minimum_is_found(kind: str, shape: tuple[int, int]) -> None:
    example = SOLVABLE[kind](*shape, 12)
    joint = build("weighted-ag", example)
    assert joint.diagnostics["converged"] is True
    truth = reference.weighted_ag(example.A, example.B, example.m_a, example.m_b)
    assert examples.error(joint, truth) < SOLVED


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("kind", SOLVABLE)
@pytest.mark.parametrize("shape", A_FEW[:2])
def test_the_regularised_minimum_is_found(
    kind: str, shape: tuple[int, int], strength: float
) -> None:
    example = SOLVABLE[kind](*shape, 13)
    m_a, m_b = example.m_a, example.m_b
    joint = build("ag", example, pseudo_counts=strength)
    assert joint.diagnostics["converged"] is True
    truth = reference.regularised_ag(example.A, example.B, m_a, m_b, strength, m_a, m_b)
    assert examples.error(joint, truth) < SOLVED


@pytest.mark.slow
@pytest.mark.parametrize("leak", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_diffuse_blocks_never_converge_to_a_wrong_answer(leak: float, seed: int) -> None:
    """Every step is small here long before the answer is right."""
    example = examples.blocks(leak, seed)
    joint = build("ag", example)
    assert joint.diagnostics["converged"]
    assert examples.error(joint, right(example)) < SOLVED


@pytest.mark.slow
@pytest.mark.parametrize("leak", [1e-4, 1e-6, 1e-8])
def test_weighted_and_regularised_blocks_never_converge_to_a_wrong_answer(leak: float) -> None:
    example = examples.blocks(leak, seed=3)
    A, B, m_a, m_b = example.A, example.B, example.m_a, example.m_b
    # pseudo-counts as weak as the leak: stronger ones tie the blocks together
    cases = [
        (build("weighted-ag", example), reference.weighted_ag(A, B, m_a, m_b)),
        (
            build("ag", example, pseudo_counts=leak),
            reference.regularised_ag(A, B, m_a, m_b, leak, m_a, m_b),
        ),
    ]
    for joint, truth in cases:
        assert joint.diagnostics["converged"]
        assert examples.error(joint, truth) < SOLVED


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", thinned(range(20), 4))
def test_near_determinism_never_converges_to_a_wrong_answer(
    size: int, seed: int, weighted: bool
) -> None:
    """Blocks that meet once in 1e17 or less: float64 need not balance them, nor claim it did."""
    example = examples.near_deterministic(size, size, seed)
    joint = build("weighted-ag" if weighted else "ag", example)
    if not joint.diagnostics["converged"]:
        return
    wins, losses = example.A, example.B
    if weighted:
        wins, losses = example.m_b * wins, example.m_a[:, None] * losses
    x, y = bradley_terry_exactly(wins, losses)
    assert examples.error(joint, reference.balanced(wins + losses, x, y)) < SOLVED


def test_newton_in_float64_agrees_with_a_hundred_digits() -> None:
    """The two references: where leaks are not lost in rounding, both are right."""
    for example in (examples.heavy_tailed(6, 5, seed=1), examples.peaked(4, 6, seed=2)):
        x, y = bradley_terry_exactly(example.A, example.B)
        exact = reference.balanced(example.A + example.B, x, y)
        np.testing.assert_allclose(right(example), exact, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ag", "weighted-ag"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_cannot_be_solved_is_not_called_converged(method: str, seed: int) -> None:
    """Deterministic maps that contradict each other drive marginals hundreds of nats apart."""
    joint = build(method, examples.near_deterministic(50, 50, seed))
    assert joint.diagnostics["converged"] is False
    assert float(str(joint.diagnostics["residual"])) > TOLERANCE
    assert np.exp(log_table(joint)).sum() == pytest.approx(1, abs=1e-9)


def contest_of(example: Example, strength: float) -> Contest:
    """Contexts weighted by m, and pseudo-wins by m too."""
    m_a, m_b = torch.tensor(example.m_a), torch.tensor(example.m_b)
    return Contest(m_a, m_b, strength * m_a, strength * m_b)


@pytest.mark.parametrize("strength", [None, 0.0, 0.3])
def test_one_pass_has_the_gradient_of_the_objective(strength: float | None) -> None:
    example = examples.heavy_tailed(12, 9, seed=2)
    contest = None if strength is None else contest_of(example, strength)
    wins, losses = example.A, example.B
    if strength is not None:
        wins = example.m_b * wins + strength * example.m_a[:, None]
        losses = example.m_a[:, None] * losses + strength * example.m_b
    point = np.random.default_rng(0).normal(-2, 1, 21)
    here = pair_graph.read_tables(example.tables(), point, contest)

    def objective(at: examples.Array) -> float:
        x, y = at[:12], at[12:]
        linear = losses.sum(1) @ x + wins.sum(0) @ y
        return float(((wins + losses) * np.logaddexp(-x[:, None], -y)).sum() + linear)

    for i, nudge in enumerate(1e-5 * np.eye(21)):
        slope = (objective(point + nudge) - objective(point - nudge)) / 2e-5
        assert here.gradient[i] == pytest.approx(slope, abs=1e-6)
    assert here.gradient.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("towards", ["masked", "uniform"])
def test_no_nearby_marginals_are_below_the_regularised_minimum(towards: str) -> None:
    example = examples.heavy_tailed(20, 15, seed=2)
    p_a, p_b = example.m_a, example.m_b
    if towards == "uniform":
        p_a, p_b = np.full(20, 1 / 20), np.full(15, 1 / 15)
    ones = torch.ones(20, dtype=torch.float64), torch.ones(15, dtype=torch.float64)
    start = ones[1].log()[None], ones[0].log()[:, None]
    pull = 0.7 * torch.tensor(p_a), 0.7 * torch.tensor(p_b)
    found = fits.solve_contest(example.tables(), start, pull=pull)
    x, y = found.log_a.numpy(), found.log_b.numpy()

    def objective(x: examples.Array, y: examples.Array) -> float:
        return reference.regularised_objective(example.A, example.B, x, y, 0.7, p_a, p_b)

    lowest = objective(x, y)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        assert objective(x + scale * rng.normal(size=20), y) > lowest
        assert objective(x, y + scale * rng.normal(size=15)) > lowest


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ag", "weighted-ag"])
def test_the_answer_does_not_depend_on_the_tiles(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = examples.heavy_tailed(60, 40, seed=5)
    whole = log_table(build(method, example))
    monkeypatch.setattr(logspace, "TILE_CELLS", 100)
    tiled = log_table(build(method, example))
    assert np.abs(whole - tiled).max() < 1e-6


@pytest.mark.parametrize("method", ["ag-paper", *examples.SEARCHED])
def test_long_iterations_show_a_bar_on_stderr_if_asked(
    method: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = examples.heavy_tailed(20, 20, seed=1)
    build(method, example)
    assert capsys.readouterr() == ("", "")
    tables = example.tables()
    tables.settings = unmask.Settings(progress=True)
    # the delay that spares short runs the bar, taken away
    monkeypatch.setattr("unmask.tables.pair_tables._BAR_DELAY", 0.0)
    unmask.construct(method, tables)
    out, err = capsys.readouterr()
    assert out == ""
    assert "pass" in err


@pytest.mark.slow
def test_tables_without_doubly_masked_distributions_start_uniform() -> None:
    example = examples.heavy_tailed(30, 20, seed=3)
    tables = example.tables()
    bare = unmask.PairTables.from_logits(tables.a_given_b.logits, tables.b_given_a.logits)
    joint = unmask.construct("ag", bare, pseudo_counts=0.0)
    assert joint.diagnostics["start"] == "uniform"
    assert examples.error(joint, right(example)) < 1e-5
    pulled = unmask.construct("ag", bare, pseudo_counts=1.0, towards="uniform")
    assert pulled.diagnostics["converged"] is True
    with pytest.raises(unmask.UnmaskError, match="no doubly masked distributions"):
        unmask.construct("ag", bare, pseudo_counts=1.0, towards="masked")


@pytest.mark.parametrize("limit", [1, 4])
def test_a_limit_on_passes_is_kept_and_said(limit: int) -> None:
    example = examples.heavy_tailed(60, 60, seed=5)
    tables = example.tables()
    found = fits.solve_contest(tables, fits.starting_point(tables), max_passes=limit).solution
    assert (found.passes, found.converged) == (limit, False)
    assert found.diagnostics()["residual"] == found.history[-1] > TOLERANCE
