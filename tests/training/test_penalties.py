"""The penalties against slow definitions: zero where answers fit together, and their gradients."""

import itertools

import pytest
import torch
from torch import Tensor

from unmask.training import compatibility_penalty, marginal_divergence
from unmask.training.penalties import contradiction, doubly_centred, interaction


def random_table(*shape: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def conditionals(joint: Tensor) -> tuple[Tensor, Tensor]:
    """log q(a | b) and log q(b | a), both laid out [a, b]."""
    return joint.log() - joint.sum(0).log(), joint.log() - joint.sum(1, keepdim=True).log()


def cycles(table: Tensor) -> float:
    """The mean square of what a 2 x 2 cycle adds up to, over all pairs of rows and of columns."""
    rows, columns = (list(itertools.product(range(n), repeat=2)) for n in table.shape)
    squares = [
        float(table[i, j] - table[k, j] - table[i, m] + table[k, m]) ** 2
        for i, k in rows
        for j, m in columns
    ]
    return sum(squares) / len(squares)


def test_it_is_zero_on_the_conditionals_of_a_joint() -> None:
    joint = random_table(5, 7).exp()
    assert float(compatibility_penalty(*conditionals(joint / joint.sum()))) < 1e-28


def test_it_is_exactly_zero_where_nothing_is_rounded() -> None:
    # powers of 2, and differences by normalisers that are whole numbers
    a_given_b = torch.randint(-8, 8, (4, 4), generator=torch.Generator().manual_seed(1)).double()
    b_given_a = a_given_b + torch.arange(4.0)[:, None] - 2 * torch.arange(4.0)
    assert float(compatibility_penalty(a_given_b, b_given_a)) == 0.0


def test_normalisers_cancel() -> None:
    a_given_b, b_given_a = random_table(6, 5), random_table(6, 5, seed=1)
    shifted = compatibility_penalty(
        # a context of a is a column, one of b a row
        a_given_b + 9 * random_table(5, seed=2),
        b_given_a - 7 * random_table(6, 1, seed=3),
    )
    plain = compatibility_penalty(a_given_b, b_given_a)
    assert float(shifted) == pytest.approx(float(plain), rel=1e-12)
    normalised = compatibility_penalty(a_given_b.log_softmax(0), b_given_a.log_softmax(1))
    assert float(normalised) == pytest.approx(float(plain), rel=1e-12)
    # nothing else does
    assert float(compatibility_penalty(a_given_b * 2, b_given_a)) != pytest.approx(float(plain))


def test_contradiction_is_a_quarter_of_the_mean_square_of_all_cycles() -> None:
    a_given_b, b_given_a = random_table(4, 3), random_table(4, 3, seed=1)
    found = float(contradiction(a_given_b, b_given_a))
    assert found == pytest.approx(cycles(a_given_b - b_given_a) / 4, rel=1e-12)
    assert found > 0.1
    moved = float(interaction(a_given_b, b_given_a))
    assert moved == pytest.approx((cycles(a_given_b) + cycles(b_given_a)) / 4, rel=1e-12)
    penalty = float(compatibility_penalty(a_given_b, b_given_a))
    assert penalty == pytest.approx(found / moved, rel=1e-12)


def test_it_is_from_0_to_2() -> None:
    table = random_table(5, 4)
    assert float(compatibility_penalty(table, -table)) == pytest.approx(2.0)
    # nothing in common
    one = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    apart = torch.stack([torch.block_diag(one, 0 * one), torch.block_diag(0 * one, one)])
    assert float(compatibility_penalty(*apart)) == pytest.approx(1.0)
    # nothing at all
    assert float(compatibility_penalty(0 * table, 0 * table)) == 0.0


def test_smaller_interactions_do_not_lower_it() -> None:
    tables = [random_table(3, 4, 5, seed=seed).requires_grad_() for seed in (0, 1)]
    penalty = compatibility_penalty(*tables)
    larger = compatibility_penalty(*(table * 10 for table in tables))
    assert float(larger.detach()) == pytest.approx(float(penalty.detach()), rel=1e-12)
    penalty.backward()
    along = 0.0
    for table in tables:
        assert table.grad is not None
        along += float((table.grad * table.detach()).sum())
    assert along == pytest.approx(0.0, abs=1e-12)


def test_interactions_that_are_noise_become_smaller() -> None:
    tables = [(random_table(3, 4, 5, seed=seed) / 10) for seed in (0, 1)]
    found = float(compatibility_penalty(*tables))
    assert found == pytest.approx(float(contradiction(*tables).mean()) / 0.1, rel=1e-12)
    assert float(compatibility_penalty(*(table / 2 for table in tables))) < 0.3 * found


def test_centring_is_multiplying_by_the_centring_matrix_on_both_sides() -> None:
    table = random_table(4, 6)
    left, right = (torch.eye(n, dtype=torch.float64) - 1 / n for n in table.shape)
    torch.testing.assert_close(doubly_centred(table), left @ table @ right)


def test_its_gradient_is_that_of_finite_differences() -> None:
    tables = [random_table(2, 4, 3, seed=seed).requires_grad_() for seed in (0, 1)]
    assert torch.autograd.gradcheck(compatibility_penalty, tables)


def test_pairs_are_added_up_before_they_are_divided() -> None:
    a_given_b, b_given_a = random_table(3, 4, 4), random_table(3, 4, 4, seed=1)
    found = float(compatibility_penalty(a_given_b, b_given_a))
    two = list(zip(a_given_b, b_given_a, strict=True))
    apart, moved = (sum(float(of(*one)) for one in two) for of in (contradiction, interaction))
    assert found == pytest.approx(apart / moved, rel=1e-12)


# --- marginals ---------------------------------------------------------------------------------


def test_the_divergence_is_zero_where_marginals_are_those_of_the_joint() -> None:
    joint = random_table(5, 7).exp()
    joint = joint / joint.sum()
    log_a_given_b, _ = conditionals(joint)
    log_a, log_b = joint.sum(1).log(), joint.sum(0).log()
    assert abs(float(marginal_divergence(log_a, log_a_given_b.T, log_b))) < 1e-14
    other = random_table(5, seed=4).log_softmax(0)
    assert float(marginal_divergence(other, log_a_given_b.T, log_b)) > 0.1


def test_it_is_the_kl_divergence_to_the_naive_mean() -> None:
    masked = random_table(5).softmax(0)
    given = random_table(7, 5, seed=1).softmax(1)
    weights = random_table(7, seed=2).softmax(0)
    mean = sum(float(w) * row for w, row in zip(weights, given, strict=True))
    assert isinstance(mean, Tensor)
    naive = sum(float(t * (t / m).log()) for t, m in zip(mean, masked, strict=True))
    found = marginal_divergence(masked.log(), given.log(), weights.log())
    assert float(found) == pytest.approx(naive, rel=1e-12)


def test_weights_that_do_not_add_up_give_a_divergence_from_zero_on() -> None:
    masked = random_table(5).log_softmax(0)
    same = masked.expand(3, 5)
    weights = torch.tensor([0.2, 0.1, 0.3], dtype=torch.float64).log()
    found = float(marginal_divergence(masked, same, weights))
    assert found == pytest.approx(0.6 * torch.tensor(0.6).log().item() - 0.6 + 1)
    assert found > 0


def test_its_gradient_moves_the_masked_distribution_alone() -> None:
    logits = random_table(5).requires_grad_()
    given = random_table(7, 5, seed=1).requires_grad_()
    log_weights = (random_table(7, seed=2).log_softmax(0) - 0.3).requires_grad_()
    marginal_divergence(logits.log_softmax(0), given.log_softmax(1), log_weights).backward()
    assert given.grad is None
    assert log_weights.grad is None
    mean = (given.softmax(1) * log_weights.exp()[:, None]).sum(0).detach()
    # of -sum t log softmax(z): the total times softmax(z), less t
    torch.testing.assert_close(logits.grad, mean.sum() * logits.detach().softmax(0) - mean)


def test_that_gradient_is_that_of_finite_differences() -> None:
    given = random_table(7, 5, seed=1).log_softmax(1)
    log_weights = random_table(7, seed=2).log_softmax(0)

    def divergence(logits: Tensor) -> Tensor:
        return marginal_divergence(logits.log_softmax(0), given, log_weights)

    assert torch.autograd.gradcheck(divergence, [random_table(5).requires_grad_()])
