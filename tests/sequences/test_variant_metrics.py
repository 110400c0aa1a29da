"""Metrics of variants against scipy and naive definitions; ties, constants, few rows, orders."""

import itertools

import numpy as np
import pytest
from scipy import stats

from unmask import UnmaskError
from unmask.sequences.variant_epistasis import pairwise_epistasis, variant_of
from unmask.sequences.variant_metrics import (
    EPISTASIS_PEARSON,
    EPISTASIS_SPEARMAN,
    RECALL,
    SPEARMAN,
    MetricRow,
    Resampling,
    evaluate_variants,
    evaluation_table,
    pearson,
    spearman,
    top_recall,
)

FEW = Resampling(resamples=50)
MUTATIONS = ("A1C", "D2E", "F3G", "H4I")


def names(k: int = 4, *, wild: bool = True) -> list[str]:
    every = itertools.chain.from_iterable(
        itertools.combinations(MUTATIONS[:k], size) for size in range(0 if wild else 1, k + 1)
    )
    return [":".join(one) or "wt" for one in every]


def once(n: int) -> np.ndarray:
    return np.ones((1, n))


def row(rows: list[MetricRow], metric: str, method: str, mutations: str = "all") -> MetricRow:
    (found,) = (
        one
        for one in rows
        if (one.metric, one.method, one.mutations) == (metric, method, mutations)
    )
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("distinct", [3, 1000])
def test_correlations_are_those_of_scipy_with_ties(seed: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(distinct, size=(2, 40)).astype(float)
    assert spearman(one, other, once(40))[0] == pytest.approx(stats.spearmanr(one, other)[0])
    assert pearson(one, other, once(40))[0] == pytest.approx(stats.pearsonr(one, other)[0])
    # a resample by counts is the resample written out
    picks = rng.integers(40, size=40)
    times = np.bincount(picks, minlength=40)[None].astype(float)
    expected = stats.spearmanr(one[picks], other[picks])[0]
    assert spearman(one, other, times)[0] == pytest.approx(expected)
    expected = stats.pearsonr(one[picks], other[picks])[0]
    assert pearson(one, other, times)[0] == pytest.approx(expected)


@pytest.mark.parametrize("distinct", [4, 1000])
def test_the_recall_is_its_definition(distinct: int) -> None:
    rng = np.random.default_rng(1)
    truth, said = rng.integers(distinct, size=(2, 55)).astype(float)
    best = {n for n in range(55) if truth[n] >= np.percentile(truth, 90)}
    likeliest = {n for n in range(55) if said[n] >= np.percentile(said, 90)}
    expected = len(best & likeliest) / len(best)
    assert top_recall(truth, said, once(55))[0] == pytest.approx(expected)
    assert top_recall(truth, truth, once(55))[0] == 1
    picks = rng.integers(55, size=55)
    times = np.bincount(picks, minlength=55)[None].astype(float)
    again = top_recall(truth, said, times)[0]
    assert again == pytest.approx(top_recall(truth[picks], said[picks], once(55))[0])


def test_epistasis_is_the_mean_over_all_backgrounds() -> None:
    rng = np.random.default_rng(2)
    every = names()
    truth, said = rng.normal(size=(2, 16))
    found = pairwise_epistasis([variant_of(n) for n in every], truth, {"m": said})
    value = dict(zip(map(variant_of, every), truth, strict=True))
    score = dict(zip(map(variant_of, every), said, strict=True)) | {frozenset(): 0.0}
    assert found.pairs == list(itertools.combinations(MUTATIONS, 2))
    assert found.kind == "all"
    for place, (i, j) in enumerate(found.pairs):
        rest = [m for m in MUTATIONS if m not in (i, j)]
        sets = [frozenset(s) for n in range(3) for s in itertools.combinations(rest, n)]
        for values, means in ((value, found.measured), (score, found.scores["m"])):
            each = [
                values[s | {i, j}] - values[s | {i}] - values[s | {j}] + values[s] for s in sets
            ]
            assert means[place] == pytest.approx(np.mean(each))
        assert found.backgrounds[place] == 4


def test_without_a_measured_wild_type_backgrounds_are_not_mixed() -> None:
    truth = {n: float(place**2) for place, n in enumerate(names(3, wild=False))}
    variants = list(map(variant_of, truth))
    values = np.array(list(truth.values()))
    # three pairs either way: the wild type alone, with a constant that all pairs share
    found = pairwise_epistasis(variants, values, {"m": values})
    assert (found.kind, len(found.pairs)) == ("the wild type", 3)
    expected = truth["A1C:D2E"] - truth["A1C"] - truth["D2E"]
    assert found.measured[0] == pytest.approx(expected)
    assert found.scores["m"][0] == pytest.approx(expected)
    # single mutants of a background that is itself a mutant: the others
    kept = [v for v in variants if "A1C" in v]
    deeper = [*kept, variant_of("A1C:H4I"), variant_of("A1C:D2E:H4I")]
    numbers = np.arange(float(len(deeper)))
    found = pairwise_epistasis(deeper, numbers, {"m": numbers})
    assert found.kind == "others"
    assert found.pairs == [("D2E", "F3G"), ("D2E", "H4I")]


def test_epistasis_is_of_variants_that_were_read_in_one_window() -> None:
    every = names(3)
    variants = list(map(variant_of, every))
    truth = np.arange(8.0) ** 2
    windows: list[object] = [None, *[(1, 22)] * 7]
    whole = pairwise_epistasis(variants, truth, {"m": truth})
    same = pairwise_epistasis(variants, truth, {"m": truth}, windows=windows)
    assert same.backgrounds.tolist() == whole.backgrounds.tolist() == [2, 2, 2]
    # F3G of its own is centred elsewhere: it is a background of one pair, and a single of two
    windows[every.index("F3G")] = (4, 25)
    apart = pairwise_epistasis(variants, truth, {"m": truth}, windows=windows)
    assert apart.pairs == whole.pairs
    assert apart.backgrounds.tolist() == [1, 1, 1]
    value = dict(zip(every, truth, strict=True))
    expected = value["A1C:D2E"] - value["A1C"] - value["D2E"] + value["wt"]
    assert apart.measured[0] == pytest.approx(expected)
    rows = evaluate_variants(
        every, truth.tolist(), {"m": truth.tolist()}, windows=range(8), resampling=FEW
    )
    assert row(rows, SPEARMAN, "m").value == pytest.approx(1)
    assert row(rows, EPISTASIS_PEARSON, "m").reason == "fewer than 3 pairs within one window"
    with pytest.raises(UnmaskError, match="8 variants, but 1 windows"):
        evaluate_variants(every, truth.tolist(), {"m": truth.tolist()}, windows=[None])


def test_a_name_is_read_as_the_scorer_reads_it() -> None:
    assert variant_of("A004G: k08L") == variant_of("A4G:K8L") == {"A4G", "K8L"}
    assert variant_of(" WT ") == variant_of("wild type") == frozenset()
    # no mutation, and not the wild type
    assert variant_of("p.Ala4Gly") == {"P.ALA4GLY"}
    assert variant_of("")


def test_a_row_without_a_mutant_is_not_the_wild_type() -> None:
    rng = np.random.default_rng(8)
    every = names(wild=False)
    truth, said = rng.normal(size=(2, len(every))).tolist()
    expected = evaluate_variants(every, truth, {"m": said}, resampling=FEW)
    for score in (None, 5.0):
        found = evaluate_variants(
            ["", *every, " "], [9.0, *truth, 9.0], {"m": [score, *said, score]}, resampling=FEW
        )
        assert found == expected


@pytest.mark.slow
def test_values_intervals_and_paired_differences() -> None:
    rng = np.random.default_rng(3)
    every = [f"A{n}C" for n in range(1, 201)]
    truth = rng.normal(size=200)
    near, far = truth + rng.normal(size=200), truth + 3 * rng.normal(size=200)
    rows = evaluate_variants(every, truth.tolist(), {"near": near.tolist(), "far": far.tolist()})
    good, bad = (row(rows, SPEARMAN, name) for name in ("near", "far"))
    assert good.value == pytest.approx(stats.spearmanr(truth, near)[0])
    for one in (good, bad):
        low, value, high = (n or 0 for n in (one.low, one.value, one.high))
        assert low < value < high
        # about two standard errors of a correlation to each side
        assert (high - low) == pytest.approx(4 / np.sqrt(200), rel=0.7)
    assert good.difference is None
    assert bad.difference == pytest.approx((bad.value or 0) - (good.value or 0))
    assert (bad.difference_high or 0) < 0
    swapped = evaluate_variants(
        every, truth.tolist(), {"near": near.tolist(), "far": far.tolist()}, baseline="far"
    )
    assert row(swapped, SPEARMAN, "near").difference == pytest.approx(-(bad.difference or 0))
    # a method against itself: paired, so that nothing is left of the spread
    same = evaluate_variants(every, truth.tolist(), {"a": near.tolist(), "b": near.tolist()})
    assert row(same, SPEARMAN, "b")[7:10] == (0, 0, 0)


@pytest.mark.slow
def test_the_order_of_rows_and_methods_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    every = names()
    truth, one, other = rng.normal(size=(3, 16))
    first = evaluate_variants(every, truth.tolist(), {"a": one.tolist(), "b": other.tolist()})
    order = rng.permutation(16)
    moved = evaluate_variants(
        [every[n] for n in order],
        truth[order].tolist(),
        {"b": other[order].tolist(), "a": one[order].tolist()},
        baseline="a",
    )
    assert sorted(first, key=repr) == sorted(moved, key=repr)
    again = evaluate_variants(
        every,
        truth.tolist(),
        {"a": one.tolist(), "b": other.tolist()},
        resampling=Resampling(seed=1),
    )
    assert [r.value for r in again] == [r.value for r in first]
    assert [r.low for r in again] != [r.low for r in first]


def test_groups_are_by_number_of_mutations() -> None:
    rng = np.random.default_rng(5)
    every = [
        ":".join(f"A{place}C" for place in range(start, start + size))
        for size in range(1, 8)
        for start in range(1, 11)
    ]
    truth, said = rng.normal(size=(2, len(every)))
    rows = evaluate_variants(every, truth.tolist(), {"m": said.tolist()}, resampling=FEW)
    groups = [one.mutations for one in rows if one.metric == SPEARMAN]
    assert groups == ["all", "1", "2", "3", "4", "5 or more"]
    assert [one.n for one in rows if one.metric == SPEARMAN] == [70, 10, 10, 10, 10, 30]
    some = [n for n, name in enumerate(every) if name.count(":") == 1]
    expected = stats.spearmanr(truth[some], said[some])[0]
    assert row(rows, SPEARMAN, "m", "2").value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("truth", "said", "why"),
    [
        ([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0], "all measured values are equal"),
        ([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 2.0, 2.0], "all scores are equal"),
        ([1.0, 2.0], [1.0, 2.0], "fewer than 3 variants"),
    ],
)
def test_what_is_undefined_has_a_reason(truth: list[float], said: list[float], why: str) -> None:
    rows = evaluate_variants(names(3)[: len(truth)], truth, {"m": said}, resampling=FEW)
    for metric in (SPEARMAN, RECALL):
        found = row(rows, metric, "m")
        assert (found.value, found.low, found.reason) == (None, None, why)
    for metric in (EPISTASIS_PEARSON, EPISTASIS_SPEARMAN):
        assert row(rows, metric, "m").reason == "fewer than 3 pairs"
    assert why in evaluation_table(rows)


def test_scores_that_add_up_have_no_epistasis_to_compare() -> None:
    rng = np.random.default_rng(6)
    weights = dict(zip(MUTATIONS, rng.normal(size=4), strict=True))
    every = names()
    added = [sum(weights[m] for m in variant_of(n)) for n in every]
    truth = rng.normal(size=16).tolist()
    rows = evaluate_variants(every, truth, {"sum": added}, resampling=FEW)
    assert row(rows, SPEARMAN, "sum").value is not None
    assert row(rows, EPISTASIS_PEARSON, "sum").reason == "all scores are equal"


def test_only_variants_with_every_number_count() -> None:
    every = names()
    truth: list[float | None] = [float(n) for n in range(16)]
    said: list[float | None] = [float(n) for n in range(16)]
    truth[3], said[5] = None, float("nan")
    nothing: list[float | None] = [None] * 16
    rows = evaluate_variants(every, truth, {"m": said, "none": nothing}, resampling=FEW)
    assert {one.method for one in rows} == {"m"}
    assert row(rows, SPEARMAN, "m").n == 14


def test_what_cannot_be_evaluated_is_one_line() -> None:
    with pytest.raises(UnmaskError, match="2 variants, but 'm' has 1 numbers"):
        evaluate_variants(["A1C", "D2E"], [1.0, 2.0], {"m": [1.0]})
    with pytest.raises(UnmaskError, match="needs measured variants"):
        evaluate_variants(["A1C"], [None], {"m": [1.0]})
    with pytest.raises(UnmaskError, match="by every method"):
        evaluate_variants(["A1C", "D2E"], [1.0, 2.0], {"a": [1.0, None], "b": [None, 1.0]})
    with pytest.raises(UnmaskError, match="no scores by 'x'"):
        evaluate_variants(["A1C"], [1.0], {"m": [1.0]}, baseline="x")


def test_the_table_says_what_the_rows_say() -> None:
    rng = np.random.default_rng(7)
    truth, said = rng.normal(size=(2, 16))
    rows = evaluate_variants(names(), truth.tolist(), {"a\x1b": said.tolist()}, resampling=FEW)
    text = evaluation_table(rows)
    assert len(text.splitlines()) == 1 + len(rows)
    assert "\x1b" not in text
    first = row(rows, SPEARMAN, "a\x1b")
    assert f"{first.value:+.3f}" in text
    assert f"[{first.low:+.3f}, {first.high:+.3f}]" in text
