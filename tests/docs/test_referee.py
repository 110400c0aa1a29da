"""The referee of rules of parallel decoding: its joints, what a rule samples, and the page."""

import math

import numpy as np
import pytest
import referee
import torch


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


def test_the_own_information_of_a_perfect_model_is_that_of_the_joint() -> None:
    exact = small(3)

    class Perfect:
        def __call__(self, ids: torch.Tensor) -> "Perfect":
            self.logits = torch.zeros(*ids.shape, exact.size + 1, dtype=torch.float64)
            for row, given in enumerate(ids.masked_fill(ids == exact.size, -1).tolist()):
                blanks = [place for place, token in enumerate(given) if token < 0]
                self.logits[row, blanks, : exact.size] = exact.denoise(tuple(given))[0]
            return self

    ids = torch.tensor([[2, 1, 2], [2, 2, 2]])
    for bits, given in zip(referee.own_bits(Perfect(), exact, ids), ids.tolist(), strict=True):
        partial = tuple(-1 if token == 2 else token for token in given)
        expected = exact.denoise(partial)[1].clone().fill_diagonal_(0)
        torch.testing.assert_close(bits.clone().fill_diagonal_(0), expected, atol=1e-9, rtol=1e-6)


@pytest.mark.slow
def test_a_learnt_joint_is_judged_as_a_given_one() -> None:
    exact = small(4)
    exact.judged = np.arange(len(exact.texts))
    model = referee.train(exact, steps=30)
    for rule, threshold in (("surest", 0.0), ("all-at-once", 0.0), ("mutual-information", 0.1)):
        judged = referee.judge_model(model, exact, rule, threshold)
        # of the possible and the impossible, which this joint has none of
        assert np.exp(judged.log_q).sum() == pytest.approx(1, abs=1e-5)
        assert (judged.steps.mean() == 3) == (rule == "surest")
