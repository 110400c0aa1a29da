"""Log-ratios along paths: exact for compatible conditionals, a plain loop for others."""

import math
from itertools import permutations

import numpy as np
import pytest
from tiny_models import build
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import LanguageModel, Settings
from unmask.sequences.paths import drawn_orders, plan_walks

QUIET = Settings(progress=False)


def toy(axes: int = 4, size: int = 4, **options: float) -> LanguageModel:
    return LanguageModel(ToyMaskedLM(toy_joint(size, axes), **options), ToyTokenizer(size))


def written(tokens: tuple[int, ...]) -> str:
    return " ".join(f"t{token}" for token in tokens)


def step(lm: LanguageModel, context: list[int], place: int, tokens: tuple[int, int]) -> float:
    """log q(first token | context) - log q(second token | context), from the toy's own logits."""
    row = [*context[:place], lm.model.mask_id, *context[place + 1 :]]
    logits = lm.model._logits(row, place)
    return float(logits[tokens[0]] - logits[tokens[1]])


def along(lm: LanguageModel, first: tuple[int, ...], second: tuple[int, ...], order) -> float:
    context, total = list(second), 0.0
    for place in order:
        total += step(lm, context, place, (first[place], second[place]))
        context[place] = first[place]
    return total


PAIRS = [
    ((0, 1, 2, 3), (0, 2, 2, 3)),
    ((0, 1, 2, 3), (1, 1, 0, 3)),
    ((0, 1, 2, 3), (3, 2, 2, 1)),
    ((0, 1, 2, 3), (3, 2, 1, 0)),
]


def test_every_order_of_compatible_conditionals_gives_the_true_log_ratio():
    lm = toy()
    for orders in (1, 2, 8, 30):
        found = lm.log_ratios([(written(a), written(b)) for a, b in PAIRS], draws=orders)
        for (first, second), ratio in zip(PAIRS, found, strict=True):
            true = math.log(lm.model.joint[first] / lm.model.joint[second])
            assert ratio.log_ratio == pytest.approx(true, abs=1e-5)
            assert ratio.standard_error is None or ratio.standard_error < 1e-5


def test_incompatible_conditionals_are_averaged_over_all_orders_if_they_are_few():
    lm = toy(noise=0.8)
    found = lm.log_ratios([(written(a), written(b)) for a, b in PAIRS], draws=24)
    for (first, second), ratio in zip(PAIRS, found, strict=True):
        places = [i for i in range(4) if first[i] != second[i]]
        each = [along(lm, first, second, order) for order in permutations(places)]
        assert ratio.log_ratio == pytest.approx(np.mean(each), abs=1e-5)
        assert (ratio.orders, ratio.places) == (len(each), len(places))
        if len(places) == 1:
            assert ratio.standard_error is None
        else:
            error = np.std(each, ddof=1) / math.sqrt(len(each))
            assert ratio.standard_error == pytest.approx(error, abs=1e-5)
            assert ratio.standard_error > 0.01


def test_a_part_of_the_orders_is_drawn_by_seed_and_number_of_places():
    lm, (first, second) = toy(noise=0.8), PAIRS[3]
    pair = (written(first), written(second))
    by_seed = []
    for seed in (0, 1):
        (ratio,) = lm.log_ratios([pair], draws=5, seed=seed)
        orders = drawn_orders(4, 5, (seed, 4)).tolist()
        assert len({tuple(order) for order in orders}) == ratio.orders == 5
        expected = np.mean([along(lm, first, second, order) for order in orders])
        assert ratio.log_ratio == pytest.approx(expected, abs=1e-5)
        by_seed.append(ratio.log_ratio)
    assert abs(by_seed[0] - by_seed[1]) > 1e-3


def test_forward_passes_are_shared_among_orders_and_counted():
    lm = toy(noise=0.8)
    for (first, second), rows in zip(PAIRS, (1, 4, 12, 32), strict=True):
        before = lm.model.rows_asked
        (ratio,) = lm.log_ratios([(written(first), written(second))], draws=24)
        # of d places: one of them is read, and any of the others are walked
        assert ratio.forward_passes == lm.model.rows_asked - before == rows


def test_equal_texts_take_no_forward_pass():
    lm = toy()
    (ratio,) = lm.log_ratios([("t0 t1 t2 t3", "t0 t1 t2 t3")])
    assert (ratio.log_ratio, ratio.places, ratio.forward_passes) == (0.0, 0, 0)
    assert lm.model.rows_asked == 0


def test_a_pair_does_not_depend_on_others_nor_on_batches():
    lm = toy(noise=0.8)
    texts = [(written(a), written(b)) for a, b in PAIRS] * 3
    together = lm.log_ratios(texts, draws=5, seed=3)
    for place, pair in enumerate(texts):
        assert lm.log_ratios([pair], draws=5, seed=3) == [together[place]]
    for size in (1, 7):
        how = Settings(batch_size=size, progress=False)
        assert lm.log_ratios(texts, draws=5, seed=3, settings=how) == together


def test_what_has_no_path_says_why():
    lm = unmask.load(build("bert"))
    found = lm.log_ratios(
        [("he ran", "he was old"), ("he [SEP] ran", "he ran [SEP]"), ("he ran", "she ran")],
        settings=QUIET,
    )
    assert [ratio.log_ratio is None for ratio in found] == [True, True, False]
    assert found[0].reason == (
        "the texts have 2 and 3 tokens; hcb-path compares texts with equally many"
    )
    assert "different special tokens" in str(found[1].reason)
    assert (found[0].places, found[2].places, found[2].reason) == (None, 1, None)


@pytest.mark.parametrize(("places", "orders"), [(1, 4), (2, 4), (3, 4), (6, 8), (12, 8)])
def test_walks_read_every_step_of_every_order_once(places: int, orders: int):
    drawn = drawn_orders(places, orders, (5, places))
    walks = plan_walks(drawn)
    needed = set()
    for order, passes in zip(drawn.tolist(), walks.pass_at.tolist(), strict=True):
        for at, number in enumerate(passes):
            assert walks.filled[number].nonzero()[:, 0].tolist() == sorted(order[:at])
            assert walks.place_read[number] == order[at]
            needed.add((frozenset(order[:at]), order[at]))
    assert walks.forward_passes == len(needed)
