"""Tokens that are hidden: BERT's 15%, blanks as an evaluation has them, or any share."""

from collections import Counter
from itertools import permutations

import pytest
import torch

from unmask.training.masking import Vocabulary, mask_any_share, mask_blanks, mask_plainly
from unmask.training.texts import Batch, batch_places, generator, padded

MASK = 4
VOCABULARY = Vocabulary(MASK, torch.arange(1000) >= 5)


def some_batch(rows: int = 3000, length: int = 14) -> Batch:
    ids = torch.randint(5, 1000, (rows, length), generator=generator("ids"))
    # special tokens at the ends, an unknown one in the middle
    ids[:, 0], ids[:, -1], ids[:, 7] = 2, 3, 1
    return Batch(ids, torch.ones_like(ids))


def test_plain_masks_are_berts() -> None:
    batch = some_batch(400, 50)
    masked = mask_plainly(batch, VOCABULARY, generator(0))
    chosen = masked.chosen
    assert not chosen[:, [0, 7, -1]].any()
    assert torch.equal(masked.targets, batch.ids[chosen])
    assert torch.equal(masked.batch.ids[~chosen], batch.ids[~chosen])
    assert float(chosen.float().sum()) / (400 * 47) == pytest.approx(0.15, abs=0.01)
    hidden = masked.batch.ids[chosen]
    assert float((hidden == MASK).float().mean()) == pytest.approx(0.8, abs=0.03)
    assert float((hidden == masked.targets).float().mean()) == pytest.approx(0.1, abs=0.03)


def test_something_is_always_to_be_guessed() -> None:
    for seed in range(20):
        batch = padded([[2, 9, 3]], 0)
        assert int(mask_plainly(batch, VOCABULARY, generator(seed)).chosen.sum()) == 1
        assert int(mask_blanks(batch, VOCABULARY, generator(seed)).chosen.sum()) == 1
        assert int(mask_any_share(batch, VOCABULARY, generator(seed)).chosen.sum()) == 1


def test_blanks_are_one_two_adjacent_two_random_or_a_span() -> None:
    batch = some_batch()
    masked = mask_blanks(batch, VOCABULARY, generator(1))
    assert torch.equal(masked.batch.ids == MASK, masked.chosen)
    assert torch.equal(masked.targets, batch.ids[masked.chosen])
    assert not masked.chosen[:, [0, 7, -1]].any()
    runs = Counter()
    for row in masked.chosen:
        places = row.nonzero().flatten().tolist()
        runs[len(places), places[-1] - places[0] == len(places) - 1] += 1
    assert set(runs) == {(1, True), (2, True), (2, False), *((n, True) for n in (3, 4, 5))}
    assert runs[1, True] / 3000 == pytest.approx(0.25, abs=0.03)
    # of two random places among 11, 9 of 55 pairs are neighbours
    assert runs[2, False] / 3000 == pytest.approx(0.25 * 46 / 55, abs=0.03)
    assert runs[2, True] / 3000 == pytest.approx(0.25 * (1 + 9 / 55), abs=0.03)
    # half of the 11 tokens, and six or five stand together: the lengths 5 and 6 are both 5
    assert runs[5, True] / 3000 == pytest.approx(0.125, abs=0.02)


def test_any_share_is_as_likely_and_weighs_the_same() -> None:
    batch = some_batch(3300)
    masked = mask_any_share(batch, VOCABULARY, generator(1))
    assert torch.equal(masked.batch.ids == MASK, masked.chosen)
    assert torch.equal(masked.targets, batch.ids[masked.chosen])
    assert not masked.chosen[:, [0, 7, -1]].any()
    counts = masked.chosen.sum(1)
    shares = torch.bincount(counts, minlength=12).double() / 3300
    assert shares[0] == 0
    # 11 numbers from 1 to 11, each a place as likely
    assert (shares[1:] - 1 / 11).abs().max() < 4 * (1 / 11 / 3300) ** 0.5
    where = masked.chosen[:, [1, 2, 6, 8, 12]].double().mean(0)
    assert (where - 6 / 11).abs().max() < 0.04
    assert masked.weights is not None
    torch.testing.assert_close(masked.weights, (11 / counts).repeat_interleave(counts))


def test_the_weighted_loss_is_the_mean_over_all_orders() -> None:
    # a loss that depends on what else is masked; its mean over the orders, by going through them
    length = 4
    surprise = torch.rand((length, 2**length), generator=generator("surprise"))
    orders = list(permutations(range(length)))
    total = 0.0
    for order in orders:
        for step, place in enumerate(order):
            total += float(surprise[place, sum(1 << other for other in order[step:])])
    batch = padded([[2, *range(10, 10 + length), 3]] * 40_000, 0)
    masked = mask_any_share(batch, VOCABULARY, generator(2))
    inner = masked.chosen[:, 1:-1]
    state = (inner * 2 ** torch.arange(length)).sum(1)
    losses = surprise.T[state][inner]
    expected = total / len(orders) / length
    assert float(masked.mean(losses)) == pytest.approx(expected, abs=0.01)
    assert float(losses.mean()) != pytest.approx(expected, abs=0.01)


def test_the_same_seed_hides_the_same() -> None:
    batch = some_batch(50)
    for mask in (mask_blanks, mask_plainly, mask_any_share):
        one, again = (mask(batch, VOCABULARY, generator(3)) for _ in range(2))
        assert torch.equal(one.batch.ids, again.batch.ids)
        other = mask(batch, VOCABULARY, generator(4))
        assert not torch.equal(one.batch.ids, other.batch.ids)


def test_ids_that_are_no_outcome_are_never_hidden() -> None:
    # some models read more ids than they predict
    batch = padded([[2, 1500, 9, 3]], 0)
    for seed in range(10):
        masked = mask_plainly(batch, VOCABULARY, generator(seed))
        assert masked.chosen.nonzero().tolist() == [[0, 2]]


@pytest.mark.parametrize("pad", [True, False])
def test_batches_hold_every_text_once(pad: bool) -> None:
    texts = [[2, *[9] * (1 + n % 9), 3] for n in range(100)]
    made = batch_places(texts, 40, generator(0), pad=pad)
    assert sorted(place for some in made for place in some) == list(range(100))
    for some in made:
        lengths = [len(texts[place]) for place in some]
        assert len(lengths) * max(lengths) <= 40
        assert pad or len(set(lengths)) == 1
    assert len(batch_places(texts, 40, generator(1), pad=pad)) == len(made)
    assert batch_places(texts, 40, generator(1), pad=pad) != made


def test_padding_is_not_attended_to() -> None:
    batch = padded([[2, 9, 3], [2, 9, 9, 9, 3]], 0)
    assert batch.ids.tolist() == [[2, 9, 3, 0, 0], [2, 9, 9, 9, 3]]
    assert batch.attention.tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert len(batch.first(1)) == 1
