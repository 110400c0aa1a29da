"""The referee of rules of parallel decoding: its joints, what a rule samples, and the page."""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "runs"))

import referee  # noqa: E402


def small(seed: int = 0) -> referee.Exact:
    texts = referee.products(2, 3)
    p = np.random.default_rng(seed).dirichlet([0.5] * len(texts))
    return referee.Exact("small", texts, p, 2)


def entropy(p: np.ndarray) -> float:
    return float(-(p * np.log(np.where(p > 0, p, 1))).sum())


@pytest.mark.slow
def test_the_joints_are_what_they_are_called() -> None:
    for exact in referee.joints():
        assert exact.p.sum() == pytest.approx(1)
        assert (exact.p > 0).all()
    sudoku = referee.squares(True)
    for grid in sudoku.texts[:20].reshape(-1, 4, 4):
        boxes = [grid[r : r + 2, c : c + 2].reshape(-1) for r in (0, 2) for c in (0, 2)]
        assert all(set(line) == set(range(4)) for line in (*grid, *grid.T, *boxes))


def test_the_denoiser_is_the_exact_conditional() -> None:
    exact = small()
    log_probs, bits = exact.denoise((-1, 1, -1))
    table = exact.p.reshape(2, 2, 2)[:, 1] / exact.p.reshape(2, 2, 2)[:, 1].sum()
    torch.testing.assert_close(log_probs.exp()[0], torch.from_numpy(table.sum(axis=1)))
    torch.testing.assert_close(log_probs.exp()[1], torch.from_numpy(table.sum(axis=0)))
    shared = entropy(table.sum(axis=1)) + entropy(table.sum(axis=0)) - entropy(table)
    assert float(bits[0, 1]) == pytest.approx(shared / math.log(2))


@pytest.mark.parametrize("rule", referee.ONE_BY_ONE)
def test_one_at_a_time_is_exact(rule: str) -> None:
    row = referee.summary(small(), referee.judge(small(), rule, 0.0))
    assert row["kl"] == pytest.approx(0, abs=1e-12)
    assert row["tv"] == pytest.approx(0, abs=1e-12)
    assert (row["valid"], row["passes"]) == (pytest.approx(1), pytest.approx(3))


def test_all_at_once_loses_the_total_correlation() -> None:
    exact = small()
    row = referee.summary(exact, referee.judge(exact, "all-at-once", 0.0))
    table = exact.p.reshape(2, 2, 2)
    alone = [table.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
    assert row["kl"] == pytest.approx(sum(map(entropy, alone)) - entropy(exact.p))
    product = np.einsum("a,b,c->abc", *alone)
    assert row["tv"] == pytest.approx(np.abs(table - product).sum() / 2)
    assert row["passes"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [("confidence", 0.7), ("entropy-bound", 0.5), ("stability", 0.6), ("random-sizes", 0.6)],
)
def test_what_a_rule_samples_adds_up_to_one(rule: str, threshold: float) -> None:
    exact = small(2)
    log_q = referee.judge(exact, rule, threshold).log_q
    assert np.exp(log_q).sum() == pytest.approx(1)
    assert float((exact.p * (np.log(exact.p) - log_q)).sum()) > -1e-12


def test_the_curve_between_two_thresholds() -> None:
    assert referee.at_half([(3.0, 0.1), (1.0, 0.5)], 2.0) == pytest.approx(0.3)
    assert math.isnan(referee.at_half([(3.0, 0.1)], 2.0))


@pytest.mark.slow
def test_the_page_has_every_joint_and_rule() -> None:
    exact = small()
    rows = []
    for rule, thresholds in referee.THRESHOLDS.items():
        for threshold in thresholds:
            numbers = referee.summary(exact, referee.judge(exact, rule, threshold))
            about = {"joint": "pairs, dial 1", "length": 3, "rule": rule, "threshold": threshold}
            rows.append({**about, **numbers})
    page = "\n".join(referee.page(rows))
    assert "| pairs, dial 1 | 0.0000 | 0.0000 | 0.0000 |" in page
    assert all(f"| {rule} |" in page for rule in itertools.chain(referee.THRESHOLDS))
