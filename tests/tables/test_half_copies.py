"""Tables rounded to half precision: half the room, and an error that is small and known."""

import examples
import numpy as np
import pytest
import torch
from examples import log_table

import unmask
from unmask.constructions import CONSTRUCTIONS
from unmask.constructions.solvers import pair_graph
from unmask.tables import kernels
from unmask.tables.probabilities import probabilities

# whichever comes first compiles
pytestmark = pytest.mark.slow

EXAMPLE = examples.heavy_tailed(70, 45, 3)
# half a unit in the last of bfloat16's eight bits
ROUNDING = 2.0**-8


def half() -> unmask.PairTables:
    return unmask.PairTables(EXAMPLE.tables().source, unmask.Settings(half_tables=True))


@pytest.mark.parametrize("compiled", [True, False])
def test_every_cell_is_rounded_relatively(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled:
        monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    exact, rounded = probabilities(EXAMPLE.tables()), probabilities(half())
    assert rounded.fused() is compiled
    assert rounded.nbytes * 2 == exact.nbytes
    for found, right in zip(rounded.tile(slice(0, 70)), exact.tile(slice(0, 70)), strict=True):
        assert float((found / right - 1).abs().max()) <= ROUNDING * 1.01


def test_compiled_passes_read_it_as_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    point = np.random.default_rng(0).normal(-3, 2, 70 + 45)
    right = pair_graph.read_tables(half(), point)
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    tables = half()
    assert probabilities(tables).fused()
    found = pair_graph.read_tables(tables, point)
    np.testing.assert_allclose(found.gradient, right.gradient, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.degree, right.degree, rtol=1e-12)


@pytest.mark.parametrize("method", list(CONSTRUCTIONS))
def test_joints_move_by_a_few_roundings(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = log_table(unmask.construct(method, EXAMPLE.tables()))
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    found = log_table(unmask.construct(method, half()))
    # a fixed number of steps from uniform has not settled, and carries roundings along
    assert np.abs(found - right).max() < (12 if method == "ag-paper" else 4) * ROUNDING


def test_it_fits_where_whole_precision_does_not() -> None:
    source = EXAMPLE.tables().source
    limit = 70 * 45 * (8 + 4)
    tight = unmask.Settings(memory_limit=limit)
    roomy = unmask.Settings(memory_limit=limit + 70 * 45 * 8, half_tables=True)
    assert probabilities(unmask.PairTables(source, tight)).kept is None
    kept = probabilities(unmask.PairTables(source, roomy)).kept
    assert kept is not None
    assert kept[0].dtype == torch.bfloat16


@pytest.mark.parametrize("method", ["ag", "log-pool", "mrf", "hcb", "mlm"])
def test_divergences_are_of_conditionals_that_sum_to_one(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that are rounded do not, and the scale of a joint is arbitrary."""
    exact = EXAMPLE.tables()
    right = unmask.pair_metrics({"": unmask.construct(method, exact)}, exact, (3, 4))[""]
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    tables = half()
    found = unmask.pair_metrics({"": unmask.construct(method, tables)}, tables, (3, 4))[""]
    assert found.gold_kl == pytest.approx(right.gold_kl, rel=0.02, abs=1e-4)
    assert found.all_kl == pytest.approx(right.all_kl, rel=0.02, abs=1e-4)


def test_compatible_conditionals_stay_compatible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    log_joint = torch.from_numpy(np.random.default_rng(2).normal(0, 3, (60, 40)))
    logits = unmask.DenseLogits(log_joint.float())
    source = unmask.PairTables.from_logits(logits, logits).source
    tables = unmask.PairTables(source, unmask.Settings(half_tables=True))
    joint = unmask.construct("ag", tables)
    assert abs(unmask.pair_metrics({"": joint}, tables, (3, 4))[""].gold_kl) < 2e-5
    assert joint.incompatibility() < 2e-5
