"""The marginals where pseudo-Gibbs sampling settles: right answers, soon, and no false claims."""

import examples
import numpy as np
import pytest
import reference_solvers
import torch
from examples import SOLVABLE, SOLVED, Example

import unmask
from unmask import logspace
from unmask.constructions.solvers import fits
from unmask.constructions.solvers.balance import TOLERANCE

SIZES = [(50, 57), (90, 60), (120, 127), (200, 150), (250, 300), (400, 400)]


def error(found: fits.Fit, example: Example) -> float:
    """The largest error of a log marginal, over tokens that are not negligible."""
    right = reference_solvers.stationary(example.A, example.B)
    return max(
        float(np.abs(log_r.numpy() - np.log(r))[r > 1e-12].max())
        for log_r, r in zip((found.log_a, found.log_b), right, strict=True)
    )


@pytest.mark.parametrize("kind", SOLVABLE)
@pytest.mark.parametrize("seed", range(len(SIZES)))
def test_the_stationary_marginals_are_found(kind: str, seed: int) -> None:
    example = SOLVABLE[kind](*SIZES[seed], seed)
    found = fits.solve_stationary(example.tables())
    assert found.converged is True
    # peaked tables take several runs of GMRES; sampling takes far longer still, see below
    assert kind == "peaked" or found.solution.passes <= 40
    assert error(found, example) < 1e-6
    for log_r in (found.log_a, found.log_b):
        assert float(log_r.exp().sum()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", SOLVABLE)
def test_sampling_for_long_settles_there_too(kind: str) -> None:
    """The reference, which eliminates, against the definition, which iterates."""
    example = SOLVABLE[kind](60, 50, 4)
    *settled, _ = reference_solvers.stationary_by_power(example.A, example.B)
    for r, other in zip(reference_solvers.stationary(example.A, example.B), settled, strict=True):
        assert np.abs(np.log(r) - np.log(other)).max() < 1e-9


@pytest.mark.parametrize(
    "example",
    [
        *[examples.peaked(*size, seed) for seed, size in enumerate(SIZES)],
        examples.blocks(1e-3, 0),
        examples.blocks(1e-4, 0),
    ],
    ids=lambda e: e.name,
)
def test_passes_are_fewer_than_rounds_of_slow_sampling(example: Example) -> None:
    """A round reads each table once, as a pass does."""
    found = fits.solve_stationary(example.tables())
    *_, rounds = reference_solvers.stationary_by_power(example.A, example.B, tolerance=1e-9)
    assert found.solution.passes < rounds


@pytest.mark.parametrize("leak", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_diffuse_blocks_never_converge_to_a_wrong_answer(leak: float, seed: int) -> None:
    example = examples.blocks(leak, seed)
    found = fits.solve_stationary(example.tables())
    assert found.converged
    assert found.solution.passes <= 40
    assert error(found, example) < SOLVED


@pytest.mark.parametrize("size", [10, 30, 60, 100, 150])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_near_determinism_never_converges_to_a_wrong_answer(size: int, seed: int) -> None:
    example = examples.near_deterministic(size, size + 3, seed)
    found = fits.solve_stationary(example.tables())
    assert error(found, example) < SOLVED or not found.converged
    # a small residual is not enough: tokens that nothing ties to the rest are not certain
    assert not found.converged or found.solution.history[-1] < TOLERANCE


@pytest.mark.parametrize("kind", SOLVABLE)
def test_the_start_does_not_matter(kind: str) -> None:
    example = SOLVABLE[kind](70, 80, 5)
    rng = np.random.default_rng(0)
    start = torch.tensor(rng.normal(0, 3, (1, 80))), torch.tensor(rng.normal(0, 3, (70, 1)))
    found = fits.solve_stationary(example.tables(), start)
    assert found.converged
    assert error(found, example) < 1e-6


def test_tables_without_doubly_masked_distributions_will_do() -> None:
    example = examples.heavy_tailed(30, 20, seed=3)
    tables = example.tables()
    bare = unmask.PairTables.from_logits(tables.a_given_b.logits, tables.b_given_a.logits)
    assert error(fits.solve_stationary(bare), example) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("tile_cells", [1, 100, 1000])
def test_the_answer_does_not_depend_on_the_tiles(
    tile_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = examples.heavy_tailed(60, 40, seed=5)
    whole = fits.solve_stationary(example.tables())
    monkeypatch.setattr(logspace, "TILE_CELLS", tile_cells)
    tiled = fits.solve_stationary(example.tables())
    assert torch.allclose(whole.log_a, tiled.log_a, rtol=0, atol=1e-7)
    assert torch.allclose(whole.log_b, tiled.log_b, rtol=0, atol=1e-7)


def test_without_room_for_a_copy_of_the_tables_it_is_the_same() -> None:
    example = examples.heavy_tailed(60, 40, seed=5)
    roomy, tight = (
        fits.solve_stationary(example.tables(memory_limit=limit)) for limit in (10**9, 0)
    )
    assert torch.allclose(roomy.log_a, tight.log_a, rtol=0, atol=1e-6)


@pytest.mark.parametrize("limit", [5, 6, 10])
def test_a_limit_on_passes_is_kept_and_said(limit: int) -> None:
    example = examples.peaked(60, 60, seed=5)
    found = fits.solve_stationary(example.tables(), max_passes=limit)
    assert found.solution.passes <= limit
    assert found.converged is False
    assert found.solution.diagnostics()["residual"] == found.solution.history[-1] > TOLERANCE
