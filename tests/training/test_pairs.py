"""Pairs of blanks filled with drawn tokens: what is run, what is drawn, what comes of it."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor
from toy_lm import toy_joint
from toy_network import JointNetwork, PairwiseNetwork

from unmask.training.drawing import draw_tokens
from unmask.training.masking import Vocabulary
from unmask.training.pairs import BlankPairs, choose_pairs, measure_pairs, passes_per_pair
from unmask.training.texts import Batch, generator

SIZE, LENGTH = 6, 4
VOCABULARY = Vocabulary(SIZE, torch.ones(SIZE, dtype=torch.bool))


def some_pairs(count: int = 3) -> BlankPairs:
    ids = torch.randint(SIZE, (count, LENGTH), generator=generator("ids"))
    places = torch.tensor([[0, 1], [1, 3], [0, 3]])[:count]
    return BlankPairs(Batch(ids, torch.ones_like(ids)), places)


@pytest.mark.parametrize("tokens", [2, 4, SIZE])
def test_passes_are_two_for_each_token_and_one_with_both_masked(tokens: int) -> None:
    network = JointNetwork(toy_joint(SIZE, LENGTH))
    measure_pairs(network, some_pairs(), VOCABULARY, tokens, generator(0))
    assert network.passes == 3 * passes_per_pair(tokens)
    assert network.batches == [3, 3 * 2 * tokens]


def test_answers_of_one_joint_have_no_penalty() -> None:
    network = JointNetwork(toy_joint(SIZE, LENGTH))
    terms = measure_pairs(network, some_pairs(), VOCABULARY, SIZE, generator(0))
    assert float(terms.contradiction.max()) < 1e-26
    assert float(terms.compatibility) < 1e-26
    assert float(terms.interaction.min()) > 1e-3
    # with every token drawn, weights are the marginals themselves; they are in float32
    assert float(terms.marginals.abs().max()) < 1e-6


def test_noise_is_a_contradiction() -> None:
    network = JointNetwork(toy_joint(SIZE, LENGTH), noise=0.5)
    terms = measure_pairs(network, some_pairs(), VOCABULARY, SIZE, generator(0))
    # two tables with independent noise: twice its variance, minus the rows and columns
    expected = 2 * 0.5**2 * (1 - 1 / SIZE) ** 2
    assert float(terms.contradiction.mean()) == pytest.approx(expected, rel=0.5)
    assert float(terms.compatibility) > 0
    assert float(terms.marginals.min()) > 1e-4


def test_the_block_is_that_of_single_questions() -> None:
    """Each logit of both blocks against a row that is written out by hand."""
    network, pairs = PairwiseNetwork(SIZE, LENGTH), some_pairs(1)
    found = measure_pairs(network, pairs, VOCABULARY, SIZE, generator(0))
    first, second = pairs.places[0].tolist()
    difference = np.zeros((SIZE, SIZE))
    for a in range(SIZE):
        for b in range(SIZE):
            difference[a, b] = _logit(network, pairs, first, a, second, b)
            difference[a, b] -= _logit(network, pairs, second, b, first, a)
    centred = difference - difference.mean(0) - difference.mean(1)[:, None] + difference.mean()
    assert float(found.contradiction[0].detach()) == pytest.approx(float((centred**2).mean()))


def _logit(
    network: PairwiseNetwork, pairs: BlankPairs, place: int, token: int, other: int, filled: int
) -> float:
    ids = pairs.batch.ids[:1].clone()
    ids[0, place], ids[0, other] = SIZE, filled
    chosen = torch.zeros(ids.shape, dtype=torch.bool)
    chosen[0, place] = True
    return float(network.logits(Batch(ids, torch.ones_like(ids)), chosen)[0, token].detach())


def test_the_gradient_through_the_network_is_that_of_finite_differences() -> None:
    network, pairs = PairwiseNetwork(SIZE, LENGTH), some_pairs()

    def penalty() -> Tensor:
        found = measure_pairs(network, pairs, VOCABULARY, 4, generator(5))
        return found.compatibility

    penalty().backward()
    assert network.table.grad is not None
    gradient = network.table.grad.clone()
    steepest = gradient.abs().flatten().topk(12).indices.tolist()
    flat = network.table.detach().flatten()
    for place in [*steepest, *range(0, len(flat), 97)]:
        values = []
        for step in (1e-5, -1e-5):
            flat[place] += step
            values.append(float(penalty().detach()))
            flat[place] -= step
        expected = (values[0] - values[1]) / 2e-5
        assert float(gradient.flatten()[place]) == pytest.approx(expected, abs=1e-8)


def test_penalties_that_are_not_wanted_have_no_gradient() -> None:
    expected = {
        "compatibility": {"contradiction", "interaction", "loss"},
        "marginals": {"marginals"},
    }
    for wanted, moving in expected.items():
        network = PairwiseNetwork(SIZE, LENGTH)
        asked = {name: name == wanted for name in expected}
        terms = measure_pairs(network, some_pairs(), VOCABULARY, 4, generator(1), **asked)
        assert {name for name, term in terms._asdict().items() if term.requires_grad} == moving


def test_the_loss_is_that_of_either_own_token_given_the_others() -> None:
    network, pairs = PairwiseNetwork(SIZE, LENGTH), some_pairs()
    found = measure_pairs(network, pairs, VOCABULARY, 4, generator(5))
    for row, (first, second) in enumerate(pairs.places.tolist()):
        nlls = []
        for place in (first, second):
            ids = pairs.batch.ids[row : row + 1].clone()
            own = int(ids[0, place])
            ids[0, place] = SIZE
            chosen = torch.zeros(ids.shape, dtype=torch.bool)
            chosen[0, place] = True
            logits = network.logits(Batch(ids, torch.ones_like(ids)), chosen)[0]
            nlls.append(-float(logits.log_softmax(-1)[own].detach()))
        assert float(found.loss[row].detach()) == pytest.approx(sum(nlls) / 2)


# --- which tokens ------------------------------------------------------------------------------


def test_the_own_token_is_first_and_no_token_comes_twice_or_is_special() -> None:
    log_p = torch.randn((40, 30), generator=generator("p")).log_softmax(-1)
    allowed = torch.ones(30, dtype=torch.bool)
    allowed[:5] = False
    own = torch.randint(5, 30, (40,), generator=generator("own"))
    drawn = draw_tokens(log_p, own, allowed, 8, generator(0))
    assert torch.equal(drawn.tokens[:, 0], own)
    assert all(len(set(row)) == 8 for row in drawn.tokens.tolist())
    assert int(drawn.tokens.min()) >= 5
    again = draw_tokens(log_p, own, allowed, 8, generator(0))
    assert torch.equal(drawn.tokens, again.tokens)


def test_likely_tokens_are_drawn_more_often() -> None:
    p = torch.tensor([0.5, 0.3, 0.1, 0.06, 0.03, 0.01])
    log_p, allowed = p.log().expand(4000, 6), torch.ones(6, dtype=torch.bool)
    drawn = draw_tokens(log_p, torch.full((4000,), 5), allowed, 2, generator(0))
    counts = Counter(drawn.tokens[:, 1].tolist())
    # one token beside the own: in proportion to p
    for token in range(5):
        assert counts[token] / 4000 == pytest.approx(float(p[token]) / 0.99, abs=0.02)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_weighted_sums_are_unbiased(count: int) -> None:
    p = torch.tensor([0.5, 0.3, 0.1, 0.06, 0.03, 0.01])
    value = torch.tensor([3.0, -1.0, 4.0, 1.0, -5.0, 9.0])
    repeats = 40_000
    drawn = draw_tokens(
        p.log().expand(repeats, 6),
        torch.full((repeats,), 3),
        torch.ones(6, dtype=torch.bool),
        count,
        generator(count),
    )
    each = (drawn.log_weights.exp() * value[drawn.tokens]).sum(1).double()
    error = float(each.std()) / repeats**0.5
    assert abs(float(each.mean()) - float(p @ value)) < 4 * error
    # without weights the sum would be far off
    assert abs(float(value[drawn.tokens].sum(1).mean()) - float(p @ value)) > 20 * error


def test_all_tokens_have_their_own_probability_as_weight() -> None:
    p = torch.tensor([[0.5, 0.3, 0.2, 0.0001]])
    allowed = torch.tensor([True, True, True, False])
    drawn = draw_tokens(p.log(), torch.tensor([1]), allowed, 3, generator(0))
    found = dict(zip(drawn.tokens[0].tolist(), drawn.log_weights[0].exp().tolist(), strict=True))
    assert found == pytest.approx({0: 0.5, 1: 0.3, 2: 0.2})


# --- which places ------------------------------------------------------------------------------


def test_pairs_are_adjacent_or_any_two_ordinary_tokens() -> None:
    ids = torch.randint(5, 50, (3000, 8), generator=generator("ids"))
    ids[:, 0], ids[:, 7], ids[:, 4] = 2, 3, 1
    ordinary = torch.arange(50) >= 5
    # rows of a single ordinary token cannot be pairs
    ids[:100, 2:] = 0
    batch = Batch(ids, (ids != 0).long())
    pairs = choose_pairs(batch, Vocabulary(4, ordinary), 5000, generator(0))
    assert pairs is not None
    assert len(pairs) == 2900
    found = Counter(map(tuple, pairs.places.tolist()))
    allowed = (1, 2, 3, 5, 6)
    assert set(found) == {(i, j) for i in allowed for j in allowed if i < j}
    adjacent = sum(found[two] for two in ((1, 2), (2, 3), (5, 6)))
    # half, and of the others 3 of 10
    assert adjacent / 2900 == pytest.approx(0.5 + 0.5 * 0.3, abs=0.03)
    assert ordinary[pairs.own].all()


def test_no_pairs_without_two_tokens_or_without_room() -> None:
    ids = torch.tensor([[2, 7, 3]])
    batch = Batch(ids, torch.ones_like(ids))
    vocabulary = Vocabulary(4, torch.arange(50) >= 5)
    assert choose_pairs(batch, vocabulary, 4, generator(0)) is None
    two = Batch(torch.tensor([[2, 7, 8, 3]]), torch.ones((1, 4), dtype=torch.long))
    assert choose_pairs(two, vocabulary, 0, generator(0)) is None
