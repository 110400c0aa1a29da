"""Intervals and standard errors against cases whose answer is known."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import scipy.stats

from unmask import UnmaskError, resampling
from unmask.resampling import (
    Estimate,
    Resampling,
    means,
    paired_differences,
    ratios,
)

QUICK = Resampling(resamples=1000)


def width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("scale", ["mean", "perplexity"])
def test_intervals_are_those_of_scipy(scale: str) -> None:
    """Other draws of the same bootstrap: equal up to the spread of its percentiles."""
    values = np.random.default_rng(12).gamma(2.0, size=200)
    many = Resampling(resamples=20_000)
    (found,) = means([values], range(200), many)
    theirs = scipy.stats.bootstrap(
        (values,),
        np.mean if scale == "mean" else lambda sample, axis: np.exp(np.mean(sample, axis)),
        n_resamples=20_000,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(13),
    )
    ours = found if scale == "mean" else found.exp()
    tolerance = 0.05 * theirs.standard_error
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=tolerance)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=tolerance)
    assert ours.stderr == pytest.approx(theirs.standard_error, rel=0.05)


def test_paired_differences_are_those_of_scipy() -> None:
    own, other = normal(14, 2, 150)
    own += 0.8 * other
    (found,) = paired_differences([own], [other], range(150), Resampling(resamples=20_000))
    theirs = scipy.stats.bootstrap(
        (own, other),
        lambda one, two, axis: np.mean(one, axis) - np.mean(two, axis),
        paired=True,
        n_resamples=20_000,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(15),
    )
    tolerance = 0.05 * theirs.standard_error
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=tolerance)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=tolerance)


@pytest.mark.slow
def test_clustered_intervals_cover_too_and_independent_ones_do_not() -> None:
    sentences = np.repeat(np.arange(40), 5)
    shared = np.repeat(normal(3, 400, 40), 5, axis=1)
    values = shared + 0.3 * normal(4, 400, 200)
    by_sentence = means(values, sentences.tolist(), QUICK)
    by_example = means(values, range(200), QUICK)
    assert np.mean([one.low <= 0 <= one.high for one in by_sentence]) > 0.9
    assert np.mean([one.low <= 0 <= one.high for one in by_example]) < 0.75


def test_a_ratio_is_of_sums_and_its_error_matches_the_resamples() -> None:
    generator = np.random.default_rng(8)
    counts = generator.integers(2, 20, size=300).astype(float)
    nats = counts * 0.7 + generator.normal(size=300)
    (found,) = ratios([nats], counts, range(300))
    assert found.value == pytest.approx(nats.sum() / counts.sum())
    assert width(found) / (2 * 1.96) == pytest.approx(found.stderr, rel=0.05)


def test_the_same_seed_gives_the_same_numbers() -> None:
    values = normal(9, 3, 50)
    assert means(values, range(50), QUICK) == means(values, range(50), QUICK)
    other = means(values, range(50), Resampling(resamples=1000, seed=1))
    assert other != means(values, range(50), QUICK)


def test_neither_blocks_nor_the_order_of_examples_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    values, order = normal(10, 2, 50), np.random.default_rng(0).permutation(50)
    whole = [asdict(one) for one in means(values, range(50), QUICK)]
    shuffled = means(values[:, order], order.tolist(), QUICK)
    monkeypatch.setattr(resampling, "_CELLS", 333)
    blocks = means(values, range(50), QUICK)
    for one, other, expected in zip(shuffled, blocks, whole, strict=True):
        assert asdict(one) == pytest.approx(expected, rel=1e-12)
        assert asdict(other) == pytest.approx(expected, rel=1e-12)


def test_resamples_follow_the_sorted_ids_and_no_hash() -> None:
    values = normal(11, 1, 50)
    names = [f"sentence {place:02}" for place in range(50)]
    assert means(values, names, QUICK) == means(values, range(50), QUICK)


@pytest.mark.parametrize(
    ("columns", "weights", "sentences", "said"),
    [
        ([[]], [], [], "at least one example"),
        ([[1.0, math.nan]], [1.0, 1.0], ["a", "b"], "finite numbers"),
        ([[1.0, 2.0]], [0.0, 0.0], ["a", "b"], "add up to 0"),
    ],
)
def test_what_has_no_mean_is_refused(columns, weights, sentences, said) -> None:
    with pytest.raises(UnmaskError, match=said):
        ratios(columns, weights, sentences)


def test_wrong_resampling_is_refused() -> None:
    with pytest.raises(UnmaskError, match="resamples is a number from 1, not 0"):
        Resampling(resamples=0)
    with pytest.raises(UnmaskError, match="seed"):
        Resampling(seed=-1)
