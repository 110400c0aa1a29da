"""The compiled passes give what the plain ones give, on one thread and on several."""

import os
import signal
import time

import examples
import numpy as np
import pytest
import torch
from examples import Example, log_table

import unmask
from unmask.constructions.paper_steps import step
from unmask.constructions.solvers import pair_graph
from unmask.constructions.solvers.pair_passes import Contest
from unmask.tables import kernels
from unmask.tables.probabilities import probabilities

# whichever comes first compiles
pytestmark = pytest.mark.slow

EXAMPLES = [examples.random(70, 45, 1), examples.random(3, 40, 2), examples.random(40, 1, 3)]


@pytest.fixture
def always_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.available(), "these tests need numba, the extra `fast`"
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)


def both_ways(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> tuple[unmask.PairTables, unmask.PairTables]:
    """The same tables for compiled and for plain passes."""
    compiled, plain = example.tables(), example.tables()
    assert probabilities(compiled).fused()
    monkeypatch.setattr(probabilities(plain), "fused", lambda: False)
    return compiled, plain


def contest(example: Example) -> Contest:
    rng = np.random.default_rng(5)
    rows, columns = example.A.shape
    sizes = (rows, columns, rows, columns)
    return Contest(*(torch.tensor(rng.uniform(0.1, 1, size)) for size in sizes))


@pytest.mark.usefixtures("always_fused")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_pass_of_the_contest(
    example: Example, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, plain = both_ways(example, monkeypatch)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    point = np.random.default_rng(0).normal(-3, 4, sum(example.A.shape))
    how = contest(example)
    found, right = (pair_graph.read_tables(t, point, how) for t in (compiled, plain))
    np.testing.assert_allclose(found.gradient, right.gradient, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.degree, right.degree, rtol=1e-12)
    for one, other in zip(found.edges, right.edges, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.usefixtures("always_fused")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_a_step_and_a_move(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, plain = both_ways(example, monkeypatch)
    start = (torch.tensor(np.log(m)) for m in (example.m_a, example.m_b))
    log_a, log_b = start
    for found, right in zip(
        step(probabilities(compiled), log_a, log_b),
        step(probabilities(plain), log_a, log_b),
        strict=True,
    ):
        torch.testing.assert_close(found, right, atol=1e-12, rtol=0)
    mass = np.random.default_rng(1).normal(0, 1, sum(example.A.shape))
    for found, right in (
        (pair_graph.PairFlows(compiled).balance(mass), pair_graph.PairFlows(plain).balance(mass)),
        (pair_graph.PairFlows(compiled).pushed(mass), pair_graph.PairFlows(plain).pushed(mass)),
    ):
        np.testing.assert_allclose(found, right, atol=1e-12)


@pytest.mark.usefixtures("always_fused")
@pytest.mark.parametrize("method", ["ag", "ag-paper", "weighted-ag", "pseudo-gibbs", "log-pool"])
def test_whole_joints(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, plain = both_ways(EXAMPLES[0], monkeypatch)
    found, right = (log_table(unmask.construct(method, t)) for t in (compiled, plain))
    assert np.abs(found - right).max() < 1e-7


def test_a_point_too_wide_for_exponentials_is_read_in_logarithms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    tables = EXAMPLES[0].tables()
    point = np.linspace(-900, 0, sum(EXAMPLES[0].A.shape))
    here = pair_graph.read_tables(tables, point)
    assert np.isfinite(here.gradient).all()
    assert (here.degree > 0).any()


def test_without_numba_the_plain_passes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    monkeypatch.setattr(kernels, "available", lambda: False)
    tables = EXAMPLES[0].tables()
    assert not probabilities(tables).fused()
    assert unmask.construct("ag", tables).diagnostics["converged"] is True


def test_tables_are_not_copied_beyond_the_limit_or_where_cells_would_vanish() -> None:
    roomy, tight = EXAMPLES[0].tables(), EXAMPLES[0].tables(memory_limit=70 * 45 * 8 + 7)
    assert probabilities(roomy).nbytes == 70 * 45 * 8
    # the dense tables themselves take all there is
    assert probabilities(tight).kept is None
    logits = EXAMPLES[0].logits_A.copy()
    logits[3, 4] = -200
    vanishing = Example(
        "vanishing", logits, EXAMPLES[0].logits_B, *(EXAMPLES[0].m_a, EXAMPLES[0].m_b)
    )
    assert probabilities(vanishing.tables()).kept is None


def test_bands_cover_all_rows_once() -> None:
    for rows in (1, 7, 16, 1000):
        covered = [row for start, stop in kernels.bands(rows) for row in range(start, stop)]
        assert covered == list(range(rows))


def test_a_forked_process_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    kernels.each_band(100, lambda *_: None)
    child = os.fork()
    if child == 0:
        covered: list[int] = []
        kernels.each_band(100, lambda number, start, stop: covered.extend(range(start, stop)))
        os._exit(0 if sorted(covered) == list(range(100)) else 1)
    deadline = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the forked process hangs")
        time.sleep(0.05)
    assert done[1] == 0
