"""The solver behind a converged Arnold-Gokhale joint: right answers, and no false claims."""

import numpy as np
import pytest
import torch

import examples
import reference
import unmask
from examples import Example, log_table
from unmask import bradley_terry, logspace

PROBLEMS = [
    make(size, size + 7, seed)
    for make in (examples.random, examples.heavy_tailed, examples.compatible)
    for size in (50, 120, 200)
    for seed in (11, 12)
]


def blocks(leak: float, seed: int) -> Example:
    """Two diffuse blocks that hardly meet, their masses a nat off at the start."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 0.5, (50, 50))
    scores[:25, 25:] += np.log(leak)
    scores[25:, :25] += np.log(leak)
    logits_A, logits_B = (scores + rng.normal(0, 0.1, (50, 50)) for _ in range(2))
    start = np.repeat([np.e, 1.0], 25)
    start /= start.sum()
    return Example(f"blocks-{leak}", examples._f32(logits_A), examples._f32(logits_B), start, start)


def converged(example: Example) -> unmask.Joint:
    return unmask.construct("ag", example.tables(), steps=None)


def error(joint: unmask.Joint, example: Example) -> float:
    """The largest difference of log-probabilities, over pairs that are not negligible."""
    right = np.log(reference.ag_minimum(example.A, example.B, example.m_a, example.m_b))
    return float(np.abs(log_table(joint) - right)[right > np.log(1e-12)].max())


@pytest.mark.parametrize("example", PROBLEMS, ids=lambda e: e.name)
def test_the_minimum_is_found_in_few_passes(example: Example) -> None:
    joint = converged(example)
    assert joint.diagnostics["converged"] is True
    assert int(str(joint.diagnostics["passes"])) <= 30
    assert error(joint, example) < 2e-3


@pytest.mark.parametrize("example", PROBLEMS[::3], ids=lambda e: e.name)
def test_no_number_of_plain_steps_gets_lower(example: Example) -> None:
    tables = example.tables()
    joints = {
        "solved": unmask.construct("ag", tables, steps=None),
        "stepped": unmask.construct("ag", tables, steps=4000),
        "paper": unmask.construct("ag", tables),
    }
    found = unmask.pair_metrics(joints, tables, (0, 0))
    assert (
        found["solved"].all_kl <= found["stepped"].all_kl + 1e-12 <= found["paper"].all_kl + 2e-12
    )


@pytest.mark.parametrize("leak", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_diffuse_blocks_never_converge_to_a_wrong_answer(leak: float, seed: int) -> None:
    """Every step is small here long before the answer is right."""
    example = blocks(leak, seed)
    joint = converged(example)
    assert joint.diagnostics["converged"]
    assert error(joint, example) < 2e-3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_cannot_be_solved_is_not_called_converged(seed: int) -> None:
    """Deterministic maps that contradict each other drive marginals hundreds of nats apart."""
    joint = converged(examples.near_deterministic(50, 50, seed))
    assert joint.diagnostics["converged"] is False
    assert float(str(joint.diagnostics["residual"])) > bradley_terry.TOLERANCE
    assert np.exp(log_table(joint)).sum() == pytest.approx(1, abs=1e-9)


def test_one_pass_has_the_objective_and_its_gradient() -> None:
    example = examples.heavy_tailed(12, 9, seed=2)
    tables = example.tables()
    point = np.random.default_rng(0).normal(-2, 1, 21)
    here = bradley_terry.read_tables(tables, point)
    r_a, r_b = np.exp(point[:12, None]), np.exp(point[None, 12:])
    both = example.A + example.B
    assert here.objective == pytest.approx((both * np.log(1 / r_a + 1 / r_b)).sum() + point.sum())
    for i in range(21):
        nudge = np.zeros(21)
        nudge[i] = 1e-5
        up, down = (
            bradley_terry.read_tables(tables, point + sign * nudge).objective for sign in (1, -1)
        )
        assert here.gradient[i] == pytest.approx((up - down) / 2e-5, abs=1e-6)
    assert here.gradient.sum() == pytest.approx(0, abs=1e-12)


def test_the_answer_does_not_depend_on_the_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    example = examples.heavy_tailed(60, 40, seed=5)
    whole = log_table(converged(example))
    monkeypatch.setattr(logspace, "TILE_CELLS", 100)
    tiled = log_table(converged(example))
    assert np.abs(whole - tiled).max() < 1e-6


@pytest.mark.parametrize("steps", [3, None])
def test_long_iterations_show_a_bar_on_stderr_if_asked(
    steps: int | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = examples.heavy_tailed(20, 20, seed=1).tables()
    unmask.construct("ag", tables, steps=steps)
    assert capsys.readouterr() == ("", "")
    tables.progress = True
    # the delay that spares short runs the bar, taken away
    monkeypatch.setattr("unmask.tables._BAR_DELAY", 0.0)
    unmask.construct("ag", tables, steps=steps)
    out, err = capsys.readouterr()
    assert out == ""
    assert "ag" in err
    assert "pass" in err


def test_tables_without_doubly_masked_distributions_start_uniform() -> None:
    example = examples.heavy_tailed(30, 20, seed=3)
    tables = example.tables()
    bare = unmask.PairTables.from_logits(tables.a_given_b.logits, tables.b_given_a.logits)
    joint = unmask.construct("ag", bare, steps=None)
    assert joint.diagnostics["start"] == "uniform"
    assert error(joint, example) < 1e-5


def test_a_limit_on_passes_is_kept_and_said() -> None:
    example = examples.heavy_tailed(60, 60, seed=5)
    start = (torch.tensor(np.log(m)) for m in (example.m_a, example.m_b))
    found = bradley_terry.solve(example.tables(), *start, max_passes=4)
    assert (found.passes, found.converged) == (4, False)
    assert found.residual == found.history[-1] > bradley_terry.TOLERANCE
