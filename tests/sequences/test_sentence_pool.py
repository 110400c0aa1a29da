"""Pools of orders: the truth for compatible conditionals, brute force for others, intervals."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from tiny_models import build
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import LanguageModel, Settings
from unmask.sequences import log_ratios, normaliser, read_length_prior, score_texts
from unmask.sequences.intervals import binary_divergence, chernoff_interval
from unmask.sequences.order_pool import Normaliser
from unmask.sequences.token_rows import TokenReader, inverted
from unmask.sequences.walks import drawn_orders

QUIET = Settings(progress=False)
SIZE, LENGTH = 3, 4
EVERY_TEXT = list(product(range(SIZE), repeat=LENGTH))


def toy(noise: float = 0.0, length: int = LENGTH, *, factored: bool = True) -> LanguageModel:
    model = ToyMaskedLM(toy_joint(SIZE, length), noise=noise, factored=factored)
    return LanguageModel(model, ToyTokenizer(SIZE))


def written(tokens: tuple[int, ...]) -> str:
    return " ".join(f"t{token}" for token in tokens)


def log_by_order(lm: LanguageModel, text: tuple[int, ...], order: list[int]) -> float:
    """log p_s(text): fill a masked text in this order, from the toy's own logits."""
    row, total = [lm.model.mask_id] * len(text), 0.0
    for place in order:
        logits = lm.model._logits(row, place)
        total += logits[text[place]] - np.logaddexp.reduce(logits)
        row[place] = text[place]
    return total


def brute_force(lm: LanguageModel, orders: int, seed: int) -> np.ndarray:
    """log p_s(text) of every text by every order."""
    drawn = drawn_orders(LENGTH, orders, (seed, LENGTH, orders)).tolist()
    return np.array([[log_by_order(lm, text, order) for order in drawn] for text in EVERY_TEXT])


# --- scores ------------------------------------------------------------------------------------


@pytest.mark.parametrize("factored", [True, False])
def test_a_pool_of_compatible_conditionals_is_the_truth(factored: bool):
    lm = toy(factored=factored)
    scores = score_texts(lm, [written(t) for t in EVERY_TEXT], method="log-pool", samples=20)
    for text, score in zip(EVERY_TEXT, scores, strict=True):
        true = math.log(lm.model.joint[text])
        assert score.score == pytest.approx(true, abs=1e-5)
        assert score.log_lower - 1e-5 <= true <= score.log_upper + 1e-5
        assert (score.tokens, score.words) == (LENGTH, ())
    found = normaliser(lm, LENGTH, samples=20)
    assert found.log_weights.abs().max() < 1e-5
    assert found.log_z == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_pool_of_incompatible_conditionals_is_its_definition(seed: int):
    lm, orders = toy(noise=1.0), 5
    log_p = brute_force(lm, orders, seed)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=0), 1, atol=1e-9)
    log_mean, z = log_p.mean(axis=1), np.exp(log_p.mean(axis=1)).sum()
    found = normaliser(lm, LENGTH, orders=orders, seed=seed, samples=400, confidence=0.999)
    low, high = found.interval()
    assert low < math.log(z) < high
    assert z < 0.9
    # what the samples should look like: their weights' mean and spread under the mixture
    mixture = np.exp(log_p).mean(axis=1)
    weights = np.exp(log_mean) / mixture
    spread = math.sqrt((mixture * (weights - z) ** 2).sum() / 400)
    assert abs(math.exp(found.log_z) - z) < 4 * spread
    texts = [written(t) for t in EVERY_TEXT]
    scores = score_texts(
        lm, texts, method="log-pool", orders=orders, seed=seed, samples=400, confidence=0.999
    )
    expected = log_mean - found.log_z
    np.testing.assert_allclose([s.score for s in scores], expected, atol=1e-5)
    np.testing.assert_allclose([s.log_lower for s in scores], log_mean - high, atol=1e-5)
    np.testing.assert_allclose([s.log_upper for s in scores], log_mean - low, atol=1e-5)


def test_samples_are_drawn_from_the_mixture_of_orders():
    lm, orders, samples = toy(noise=1.0), 5, 1000
    log_p = brute_force(lm, orders, 0)
    found = normaliser(lm, LENGTH, orders=orders, samples=samples)
    weights = np.exp(log_p.mean(axis=1)) / np.exp(log_p).mean(axis=1)
    # a weight tells which text was drawn
    assert np.diff(np.sort(weights)).min() > 1e-6
    nearest = np.abs(found.log_weights.exp().numpy()[:, None] - weights).argmin(axis=1)
    counts = np.bincount(nearest, minlength=len(EVERY_TEXT))
    expected = samples * np.exp(log_p).mean(axis=1)
    kept = expected > 5
    chi_squared = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert chi_squared < kept.sum() + 4 * math.sqrt(2 * kept.sum())


def test_rows_are_shared_among_orders_and_counted():
    lm = toy(noise=1.0)
    before = lm.model.rows_asked
    (score,) = score_texts(lm, ["t0 t1 t2 t0"], method="log-pool", orders=24, samples=10)
    # every set of filled places but the full one
    assert score.forward_passes == 2**LENGTH - 1
    assert lm.model.rows_asked - before == score.forward_passes + score.normaliser_passes
    # what was read while drawing is not read again, but where a row has several reads
    assert score.normaliser_passes <= 10 * (2**LENGTH - 1 + LENGTH)
    before = lm.model.rows_asked
    one = normaliser(lm, LENGTH, orders=1, samples=10)
    # one order is a distribution as it stands: nothing is drawn
    assert one.forward_passes == lm.model.rows_asked - before == 0
    assert one.log_z == 0
    assert one.interval() == (0.0, 0.0)


def test_a_normaliser_is_made_once_a_length():
    lm = toy(noise=1.0)
    scores = score_texts(lm, ["t0 t1 t2 t0", "t1 t1 t1 t1"], method="log-pool", samples=10)
    passes = sum(score.forward_passes for score in scores) + scores[0].normaliser_passes
    assert lm.model.rows_asked == passes
    assert scores[0].normaliser_passes == scores[1].normaliser_passes


def test_neither_batches_nor_company_change_a_score(monkeypatch):
    lm = toy(noise=1.0)
    texts = [written(t) for t in EVERY_TEXT[:7]]
    together = score_texts(lm, texts, method="log-pool", samples=30)
    assert score_texts(lm, texts[3:4], method="log-pool", samples=30) == together[3:4]
    for size in (1, 5):
        how = Settings(batch_size=size, progress=False)
        assert score_texts(lm, texts, method="log-pool", samples=30, settings=how) == together
    monkeypatch.setattr("unmask.sequences.order_pool._READS_PER_BLOCK", 70)
    monkeypatch.setattr("unmask.sequences.order_pool.TOKENS_PER_CHUNK", 70)
    assert score_texts(lm, texts, method="log-pool", samples=30) == together


def test_special_tokens_stay_in_place():
    lm = unmask.load(build("bert"))
    text = "the cats sat"
    (score,) = score_texts(lm, [text], method="log-pool", orders=3, samples=8, settings=QUIET)
    ids, means = lm.tokenizer(text)["input_ids"], []
    for order in drawn_orders(4, 3, (0, 4, 3)).tolist():
        row, total = [ids[0], *[lm.model.mask_id] * 4, ids[-1]], 0.0
        for place in order:
            logits = lm.model._logits(torch.tensor([row]))[0, place + 1].double()
            total += float(torch.log_softmax(logits, dim=0)[ids[place + 1]])
            row[place + 1] = ids[place + 1]
        means.append(total)
    log_z = normaliser(lm, 4, orders=3, samples=8, settings=QUIET).log_z
    assert score.score == pytest.approx(np.mean(means) - log_z, abs=1e-4)


@pytest.mark.parametrize("name", ["roberta", "albert", "esm"])
def test_other_tokenizers_put_the_same_tokens_around_texts(name: str):
    lm = unmask.load(build(name))
    text = "M K L" if name == "esm" else "the cat on"
    (score,) = score_texts(lm, [text], method="log-pool", orders=2, samples=4, settings=QUIET)
    found = normaliser(lm, score.tokens, orders=2, samples=4, settings=QUIET)
    assert found.interval()[1] == pytest.approx(found.log_z - score.log_lower + score.score)


# --- pairs -------------------------------------------------------------------------------------


def test_pairs_of_one_length_need_no_normaliser():
    lm = toy(noise=1.0)
    pairs = [("t0 t1 t2 t0", "t1 t1 t2 t2"), ("t0 t0 t0 t0", "t0 t0 t0 t0")]
    found = log_ratios(lm, pairs, method="log-pool")
    assert lm.model.rows_asked == sum(ratio.forward_passes for ratio in found)
    for pair, ratio in zip(pairs, found, strict=True):
        first, second = score_texts(lm, pair, method="log-pool", samples=5)
        assert ratio.log_ratio == pytest.approx(first.score - second.score, abs=1e-9)
        assert (ratio.log_lower, ratio.standard_error) == (None, None)


def test_pairs_of_different_lengths_need_a_prior_of_lengths():
    lm, pair = unmask.load(build("bert")), ("the cats sat", "he ran")
    (without,) = log_ratios(lm, [pair], method="log-pool", settings=QUIET)
    assert without.log_ratio is None
    assert "4 and 2 tokens; log-pool compares different lengths only with" in str(without.reason)
    options = {"method": "log-pool", "samples": 16, "orders": 2, "settings": QUIET}
    prior = read_length_prior("poisson:3")
    (ratio,) = log_ratios(lm, [pair], length_prior=prior, **options)
    first, second = score_texts(lm, pair, length_prior=prior, **options)
    assert ratio.log_ratio == pytest.approx(first.score - second.score, abs=1e-5)
    # both intervals at once, so wider than each one's own
    assert ratio.log_lower < first.log_lower - second.log_upper
    assert ratio.log_upper > first.log_upper - second.log_lower
    plain = score_texts(lm, pair, **options)
    added = [score.score - bare.score for score, bare in zip((first, second), plain, strict=True)]
    assert added == pytest.approx([prior.log_prob(4), prior.log_prob(2)], abs=1e-5)


# --- intervals ---------------------------------------------------------------------------------


def outcomes(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    if kind == "coins":
        return (rng.random(size) < 0.07).astype(float)
    return rng.beta(0.3, 2.0, size) if kind == "beta" else rng.random(size)


@pytest.mark.parametrize(("kind", "true"), [("coins", 0.07), ("beta", 0.3 / 2.3), ("even", 0.5)])
def test_intervals_fail_no_more_often_than_declared(kind: str, true: float):
    rng, trials, confidence, failures = np.random.default_rng(0), 2000, 0.9, 0
    for _ in range(trials):
        mean = float(outcomes(rng, kind, 60).mean())
        low, high = chernoff_interval(mean, 60, confidence)
        failures += not low <= true <= high
    allowed = 1 - confidence
    assert failures / trials <= allowed + 3 * math.sqrt(allowed * (1 - allowed) / trials)
    # for coins the bound is nearly tight: an interval that never failed would be too wide
    assert failures > 0 or kind != "coins"


@pytest.mark.parametrize("mean", [1e-200, 1e-12, 0.003, 0.5, 0.97, 1 - 1e-6])
@pytest.mark.parametrize("samples", [1, 100, 10**6])
def test_the_ends_are_where_the_bound_is_met(mean: float, samples: int):
    low, high = chernoff_interval(mean, samples, 0.95)
    limit = math.log(2 / 0.05) / samples
    assert 0 <= low < mean < high <= 1
    if high < 1:
        assert binary_divergence(mean, high) == pytest.approx(limit, rel=1e-6)
    else:
        # nearer to one than any float64
        assert (1 - mean) * (math.log(1 - mean) + 37) < limit
    if low > 0:
        assert binary_divergence(mean, low) == pytest.approx(limit, rel=1e-6)
    else:
        # smaller than any float64
        assert mean * (math.log(mean) + 744) < limit
    # never wider than Hoeffding's
    assert low >= mean - math.sqrt(limit / 2) - 1e-9
    assert high <= mean + math.sqrt(limit / 2) + 1e-9


def test_the_ends_of_the_scale_stay_on_it():
    assert chernoff_interval(0.0, 10, 0.95)[0] == 0
    assert chernoff_interval(1.0, 10, 0.95)[1] == 1
    # all ten outcomes 0: q with (1 - q)^10 = 0.025
    assert chernoff_interval(0.0, 10, 0.95)[1] == pytest.approx(1 - 0.025**0.1, rel=1e-9)
    assert chernoff_interval(1.0, 10, 0.95)[0] == pytest.approx(0.025**0.1, rel=1e-9)


@pytest.mark.parametrize("log_weights", [[-900.0] * 5, [-1000.0, -70.0, -80.0]])
def test_what_nothing_bounds_is_infinite(log_weights: list[float]):
    found = Normaliser(3, 8, 0.95, torch.tensor(log_weights, dtype=torch.float64), 0)
    low, high = found.interval()
    assert low == -math.inf
    assert math.isfinite(found.log_z)
    assert -10 < high < 0


# --- drawing -----------------------------------------------------------------------------------


def test_a_draw_inverts_the_cumulative_distribution():
    log_p = torch.tensor([[0.2, 0.0, 0.5, 0.3, 0.0]], dtype=torch.float64).log().repeat(6, 1)
    uniforms = torch.tensor([0.0, 0.199, 0.2, 0.699, 0.7001, 1 - 2**-53], dtype=torch.float64)
    assert inverted(log_p, uniforms).tolist() == [0, 0, 2, 2, 3, 3]


@pytest.mark.parametrize("factored", [True, False])
def test_a_draw_comes_with_its_log_probability(monkeypatch, factored: bool):
    monkeypatch.setattr("unmask.logspace.TILE_CELLS", 7)
    lm = toy(noise=1.0, factored=factored)
    ids = torch.full((50, LENGTH), lm.model.mask_id)
    ids[:, 1] = torch.arange(50) % SIZE
    positions = torch.arange(50) % 2 * 2
    uniforms = torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    reader = TokenReader(lm.model, Settings(batch_size=8), None)
    drawn, log_probs = reader.draw(ids, positions, uniforms)
    again = reader.log_probs(ids, positions[:, None], drawn[:, None, None])[:, 0, 0]
    torch.testing.assert_close(log_probs, again, atol=1e-6, rtol=0)
    assert reader.rows == 100
    for row in range(50):
        logits = lm.model._logits(ids[row].tolist(), int(positions[row]))
        cumulative = np.cumsum(np.exp(logits - np.logaddexp.reduce(logits)))
        assert int(drawn[row]) == int(np.searchsorted(cumulative, float(uniforms[row])))


@pytest.mark.parametrize("tokens", [0, -1, 2.5, "3", 23])
def test_lengths_that_no_text_has_are_refused(tokens: object):
    lm = unmask.load(build("bert"))
    with pytest.raises(unmask.ClozeError, match="a length is a number of tokens from 1 to 22, not"):
        normaliser(lm, tokens)


def test_no_text_is_likelier_than_certain():
    lm = toy(noise=1.0)
    scores = score_texts(
        lm, [written(t) for t in EVERY_TEXT], method="log-pool", samples=1, confidence=0.999
    )
    assert all(score.score <= 0 for score in scores)
    assert all(score.log_upper <= 0 or score.log_upper == math.inf for score in scores)
