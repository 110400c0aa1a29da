"""How far a model contradicts itself: every number against its definition, and the statistics."""

import math
from itertools import pairwise
from typing import Any

import naive_consistency as naive
import numpy as np
import pytest
import torch
from scipy.stats import wilcoxon
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.plots.consistency import by_distance, deviations
from unmask.resampling import FEWEST, Resampling, means
from unmask.sequences.consistency.measuring import (
    PAIRS,
    ContrastedText,
    _pair_measures,
    masked_pair,
    read_texts,
)
from unmask.sequences.consistency.result import Consistency
from unmask.sequences.consistency.statistics import median_test
from unmask.sequences.paths import drawn_orders

QUIET = unmask.Settings(progress=False)
SIZE, LENGTH = 4, 4
TEXTS = ["t0 t1 t2 t3", "t3 t3 t1 t0", "t2 t1 t1 t2"]
CONTRASTS = ["t1 t1 t2 t3", None, "t2 t1 t1"]


def toy(noise: float) -> tuple[unmask.LanguageModel, ToyMaskedLM]:
    model = ToyMaskedLM(toy_joint(SIZE, LENGTH), noise=noise)
    return unmask.LanguageModel(model, ToyTokenizer(SIZE), name="toy"), model


def ids_of(text: str) -> list[int]:
    return [int(word[1:]) for word in text.split()]


def asked(noise: float, **options: Any) -> tuple[Consistency, ToyMaskedLM]:
    lm, model = toy(noise)
    answers = lm.consistency(TEXTS, contrasts=CONTRASTS, settings=QUIET, orders=30, **options)
    return answers, model


# --- against the definitions ---------------------------------------------------------------------


def test_a_model_with_one_joint_does_not_contradict_itself() -> None:
    answers, model = asked(0.0)
    for row in answers.rows:
        if row["part"] in PAIRS:
            assert row["incompatibility"] < 1e-6
            assert row["marginal_divergence"] < 1e-6
            ways = ("first_then_second", "second_then_first", "pseudo_gibbs", "ensemble")
            for name in ways:
                assert row[name] == pytest.approx(row["log_pool"], abs=1e-5)
        else:
            truth = math.log(model.joint[tuple(ids_of(row["text"]))])
            assert row["text_log_p"] == pytest.approx(truth, abs=1e-5)
    by_key = {one.key: one for one in answers.statistics}
    for key, one in by_key.items():
        if not key.startswith("ensemble"):
            assert one.estimate.value == pytest.approx(0, abs=1e-4), key
    assert by_key["order_difference_adjacent"].p_value == 1.0
    assert by_key["verdict_flips"].estimate.value == 0
    # of texts with as many tokens alone
    assert by_key["verdict_flips"].texts == 1


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_every_number_is_that_of_its_definition(noise: float) -> None:
    answers, model = asked(noise)
    for row in answers.rows:
        ids = ids_of(row["text"])
        if row["part"] in PAIRS:
            at = ids[row["first"]], ids[row["second"]]
            expected = naive.answers(*naive.tables(model, ids, row["first"], row["second"]), at)
            assert {name: row[name] for name in expected} == pytest.approx(expected, abs=2e-6)
            assert (row["first_token"], row["second_token"]) == tuple(f"t{one}" for one in at)
            assert row["distance"] == row["second"] - row["first"] > 0
            assert row["part"] == "random" or row["distance"] == 1
    for number, text in enumerate(TEXTS):
        rows = [row for row in answers.rows if row["text"] == text and row["part"] == "order"]
        # 30 orders are asked for, and there are 24
        logs = sorted(row["text_log_p"] for row in rows)
        assert logs == pytest.approx(sorted(naive.all_orders(model, ids_of(text))), abs=1e-5)
        has_verdict = [row["contrast_log_p"] is not None for row in rows]
        assert has_verdict == [number == 0] * len(rows)


def test_conditionals_that_exclude_each_other_have_a_j_of_one_bit() -> None:
    """One says that both tokens are the same, the other that they are not."""
    same = torch.tensor([[0.0, -30.0], [-30.0, 0.0]])
    marginals = unmask.MaskedMarginals(
        torch.full((2,), -math.log(2)), torch.full((2,), -math.log(2))
    )
    tables = unmask.PairTables.from_logits(
        unmask.DenseLogits(same), unmask.DenseLogits(same.flip(0)), marginals=marginals
    )
    row = _pair_measures(tables, (0, 0))
    assert row["incompatibility"] == pytest.approx(1, abs=1e-6)
    # m_b q(a | b) has it half the time, m_a q(b | a) never
    assert row["second_then_first"] == pytest.approx(math.log(1 / 2), abs=1e-6)
    assert row["first_then_second"] == pytest.approx(-math.log(2) - 30, abs=1e-5)
    assert row["ensemble"] == pytest.approx(math.log(1 / 4), abs=1e-6)
    assert row["marginal_divergence"] == pytest.approx(0, abs=1e-9)


def test_the_answers_to_a_text_do_not_depend_on_others_nor_on_the_batch() -> None:
    lm, _ = toy(0.5)
    alone = [lm.consistency([text], settings=QUIET, orders=3).rows for text in TEXTS]
    small = unmask.Settings(progress=False, batch_size=2)
    together = lm.consistency(TEXTS, settings=small, orders=3).rows
    for one, other in zip([row for rows in alone for row in rows], together, strict=True):
        assert {**one} == pytest.approx({**other}, nan_ok=True)


def test_bad_texts_and_options_end_in_one_line() -> None:
    lm, _ = toy(0.0)
    for texts, options, message in (
        ("t0 t1", {}, "texts is a list of texts, not 't0 t1'"),
        (["t0"], {}, "text 0: the text has no two neighbouring words"),
        (["t0 t1", ""], {}, "text 1: "),
        (["t0 t1"], {"orders": 1}, "orders is a number from 2"),
        (["t0 t1"], {"contrasts": []}, "there are 1 texts but 0 contrasts"),
        (["t0 t1"], {"max_passes": 7}, "max_passes=7"),
    ):
        with pytest.raises(unmask.UnmaskError, match=message):
            lm.consistency(texts, settings=QUIET, **options)


# --- the statistics -------------------------------------------------------------------------------


def pair_row(text: str, part: str = "adjacent", **changes: Any) -> dict[str, Any]:
    logs = dict.fromkeys(("log_pool", "pseudo_gibbs", "first_then_second", "ensemble"), -4.0)
    row = {"text_id": text, "part": part, "incompatibility": 0.1, "mutual_information": 1.0}
    row |= {"distance": 1, "marginal_divergence": 0.2, **logs, "second_then_first": -5.0}
    return row | changes


def order_row(text: str, order: str, log_p: float, contrast: float | None = None) -> dict[str, Any]:
    row = {"text_id": text, "part": "order", "order": order, "tokens": 5, "text_log_p": log_p}
    return row | {"contrast_log_p": contrast}


def test_statistics_are_those_of_their_definitions() -> None:
    drawn = enumerate((-11, -13, -9, -10))
    rows = [
        pair_row("a"),
        pair_row("b", incompatibility=0.3, mutual_information=3.0, ensemble=-3.0, distance=2),
        pair_row("c", incompatibility=None),
        {"text_id": None, "part": None, "reason": "the text is empty"},
        *(order_row("a", f"random-{number}", log_p, -12.0) for number, log_p in drawn),
    ]
    answers = Consistency(rows, {})
    by_key = {one.key: one for one in answers.statistics}
    value = {key: one.estimate.value for key, one in by_key.items()}
    assert value["incompatibility_adjacent"] == pytest.approx(0.2)
    assert by_key["incompatibility_adjacent"].texts == 2
    # of sums, over the texts that have both
    assert value["incompatibility_share_adjacent"] == pytest.approx(0.4 / 4)
    assert value["construction_spread_adjacent"] == pytest.approx(0.5)
    assert value["order_difference_adjacent"] == pytest.approx(1.0)
    assert value["ensemble_gain_adjacent"] == pytest.approx((0.25 + 0.75 + 0.25) / 3)
    assert value["ensemble_minus_log_pool_adjacent"] == pytest.approx(0.5 / 3)
    assert value["order_deviation"] == pytest.approx(np.std([-11, -13, -9, -10], ddof=1) / 5)
    # three of four orders prefer the text: of the six pairs of orders three disagree
    assert value["verdict_flips"] == pytest.approx(3 / 6)
    assert "incompatibility_random" not in value
    low, high = by_key["incompatibility_adjacent"].estimate.low, 0.1
    assert low == pytest.approx(high)
    bins = by_distance(answers)
    assert [(name, count) for name, _, count in bins] == [("1", 1), ("2", 1)]
    assert sorted(deviations(answers)) == pytest.approx([-0.45, -0.05, 0.15, 0.35])


def test_two_models_are_compared_on_the_texts_that_both_have() -> None:
    first = Consistency([pair_row("a"), pair_row("b", incompatibility=0.2)], {"model": "x"})
    second = Consistency(
        [pair_row("b", incompatibility=0.5), pair_row("c", incompatibility=0.9)], {"model": "y"}
    )
    head, _, j, share, *_ = [line.split(" | ") for line in first.compare(second).splitlines()]
    assert head[-3:] == ["x", "y", "y minus x |"]
    assert [cell.split(" ")[0] for cell in j[-3:]] == ["0.150", "0.700", "+0.300"]
    # a ratio of means has no difference by text
    assert share[-1] == "– |"
    others = first.compare(Consistency([pair_row("z")], {"model": "z"}))
    assert others.splitlines()[2].endswith("| – |")


@pytest.mark.parametrize(("count", "is_bold"), [(FEWEST - 1, False), (FEWEST, True)])
def test_a_difference_is_bold_from_so_many_texts_on(count: int, is_bold: bool) -> None:
    names = [f"text {number}" for number in range(count)]
    first = Consistency([pair_row(name) for name in names], {"model": "x"})
    second = Consistency([pair_row(name, incompatibility=0.5) for name in names], {"model": "y"})
    table = first.compare(second)
    assert table.splitlines()[2].endswith("| **+0.400 [0.400, 0.400]** |") == is_bold
    assert f"fewer than {FEWEST} texts are not bold" in table or is_bold


def test_a_bootstrap_interval_of_few_misses_the_mean_more_often_than_it_promises() -> None:
    generator, missed = np.random.default_rng(0), {5: 0, FEWEST: 0}
    for count in missed:
        for values in generator.normal(size=(1000, count)):
            (mean,) = means([values], range(count), Resampling(resamples=400))
            missed[count] += mean.leaves_out_zero()
    assert missed[5] / 1000 == pytest.approx(0.15, abs=0.035)
    assert missed[FEWEST] / 1000 == pytest.approx(0.07, abs=0.025)


def test_the_median_is_tested_by_signed_ranks_and_rounding_says_nothing() -> None:
    gaps = [0.3, -0.1, 0.2, 0.5, 0.4, -0.05, 0.15]
    assert median_test([*gaps, 1e-5, -1e-6]) == pytest.approx(wilcoxon(gaps).pvalue)
    assert median_test([1e-5] * 50) == median_test([]) == 1.0


# --- a trained model ------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.slow
def test_texts_by_a_trained_model_are_those_of_plain_passes(
    tiny_english: unmask.LanguageModel,
) -> None:
    """Both orders of a pair and of a text, from transformers alone, in float64."""
    lm = tiny_english
    words = ["dogs", "men"]
    texts = [
        f"Two {one} are near the {place}."
        for one in words
        for place in ("sea", "bus", "man", "lake")
    ]
    rows = lm.consistency(texts, settings=QUIET, orders=2, max_passes=101).rows
    network = lm.model.model
    mask = lm.tokenizer.mask_token_id

    def log_p(ids: list[int], hidden: list[int], place: int) -> float:
        row = torch.tensor([[mask if p in hidden else t for p, t in enumerate(ids)]])
        with torch.no_grad():
            logits = network(input_ids=row).logits[0, place].double()
        return float(torch.log_softmax(logits, dim=0)[ids[place]])

    for text in texts:
        ids = lm.tokenizer(text)["input_ids"]
        own = [row for row in rows if row["text"] == text]
        for row in own[:2]:
            a, b = 1 + row["first"], 1 + row["second"]
            first = log_p(ids, [a, b], a) + log_p(ids, [b], b)
            second = log_p(ids, [a, b], b) + log_p(ids, [a], a)
            assert row["first_then_second"] == pytest.approx(first, abs=1e-4)
            assert row["second_then_first"] == pytest.approx(second, abs=1e-4)
        places = list(range(1, len(ids) - 1))
        orders = drawn_orders(len(places), 2, (0, len(places))).tolist()
        logs = [row["text_log_p"] for row in own if row["part"] == "order"]
        for order, total in zip(orders, logs, strict=True):
            walk = [places[rank] for rank in order]
            expected = sum(log_p(ids, walk[step:], place) for step, place in enumerate(walk))
            assert total == pytest.approx(expected, abs=1e-3)
    assert all(0 <= row["incompatibility"] <= 1 for row in rows if row["part"] in PAIRS)


@pytest.mark.slow
def test_blanks_differ_between_texts_and_seeds() -> None:
    lm, _ = toy(0.0)
    chosen = [
        tuple(
            (row["first"], row["second"])
            for row in lm.consistency(["t0 t1 t2 t3"], settings=QUIET, orders=2, seed=seed).rows[:2]
        )
        for seed in range(12)
    ]
    assert len(set(chosen)) > 4
    assert any(one != other for one, other in pairwise(chosen))


def test_blanks_are_words_and_not_punctuation(tiny_english: unmask.LanguageModel) -> None:
    lm = tiny_english
    texts = ["Two dogs, a man (old) and 3 cats ran.", "Well, no: it ran!"]
    for seed in range(20):
        for text in read_texts(lm, [(one, None) for one in texts]):
            assert isinstance(text, ContrastedText)
            for part in PAIRS:
                cloze = masked_pair(lm, text.text, part, seed)
                names = lm.tokenizer.convert_ids_to_tokens(list(cloze.gold or ()))
                assert all(any(map(str.isalnum, name)) for name in names), names
    (reason,) = read_texts(lm, [("A, a!", None)])
    assert reason == "the text has no two neighbouring words"
