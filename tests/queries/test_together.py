"""Blanks that may be filled at the same time, and filling them group by group."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from assets import real_model
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.queries.dependence.together import greedy_groups

QUIET = unmask.Settings(progress=False)


def test_groups_are_greedy_and_share_no_more_than_the_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        size = int(rng.integers(1, 9))
        values = torch.from_numpy(rng.random((size, size)))
        values = values + values.T
        order, bound = rng.permutation(size).tolist(), float(rng.random() * 2)
        groups = greedy_groups(values, order, bound)
        assert sorted(blank for group in groups for blank in group) == list(range(size))
        assert groups[0][0] == order[0]
        for number, group in enumerate(groups):
            for one, other in combinations(group, 2):
                assert float(values[one, other]) <= bound
            # no blank of a later group had room in an earlier one
            for later in groups[number + 1 :]:
                for blank in later:
                    before = [o for o in group if order.index(o) < order.index(blank)]
                    assert any(float(values[blank, other]) > bound for other in before)


def two_pairs() -> unmask.LanguageModel:
    """Blanks 0 and 1 are equal, blanks 2 and 3 too; the pairs know nothing of each other."""
    pair = np.full((3, 3), 0.01)
    np.fill_diagonal(pair, [0.5, 0.3, 0.2])
    joint = np.einsum("ab,cd->abcd", pair, pair)
    return unmask.LanguageModel(ToyMaskedLM(joint), ToyTokenizer(3))


def test_dependent_blanks_are_in_different_groups() -> None:
    lm = two_pairs()
    groups = lm.independent_blanks("[MASK] [MASK] [MASK] [MASK]", settings=QUIET)
    assert [len(group) for group in groups] == [2, 2]
    for group in groups:
        assert {blank // 2 for blank in group} == {0, 1}
    assert lm.independent_blanks("[MASK] [MASK] [MASK] [MASK]", at_most=9, settings=QUIET) == [
        (0, 1, 2, 3)
    ]
    assert lm.independent_blanks("t0 [MASK] t1 t1", settings=QUIET) == [(0,)]


def test_filling_together_takes_the_likeliest_given_the_groups_before() -> None:
    model = ToyMaskedLM(toy_joint(6, 4))
    lm = unmask.LanguageModel(model, ToyTokenizer(6))
    text = "[MASK] [MASK] t1 [MASK]"
    (found,) = lm.fill(text, together=0.02, settings=QUIET)
    ids = [6, 6, 1, 6]
    log_prob = 0.0
    for group in found["groups"]:
        at = [(0, 1, 3)[blank] for blank in group]
        logits = {p: model._logits(ids, p) for p in at}
        for position, values in logits.items():
            ids[position] = int(values.argmax())
            log_prob += float(values.max())
    assert found["token"] == [ids[0], ids[1], ids[3]]
    assert found["score"] == pytest.approx(math.exp(log_prob), rel=1e-5)
    assert found["method"] == "together"
    assert found["forward_passes"] == model.rows_asked


def test_at_the_ends_of_the_bound() -> None:
    lm = unmask.LanguageModel(ToyMaskedLM(toy_joint(6, 3), noise=0.3), ToyTokenizer(6))
    (one_by_one,) = lm.fill("[MASK] [MASK] [MASK]", together=0, settings=QUIET)
    assert [len(group) for group in one_by_one["groups"]] == [1, 1, 1]
    (at_once,) = lm.fill("[MASK] [MASK] [MASK]", together=100, settings=QUIET)
    assert len(at_once["groups"]) == 1
    independent = lm.joint("[MASK] [MASK] [MASK]", method="mlm", settings=QUIET).top(1)[0]
    assert tuple(at_once["token"]) == independent.ids


def test_an_array_of_ids_is_a_support() -> None:
    text = "[MASK] [MASK] t0 t1"
    listed, array = (
        two_pairs().fill(text, together=0.1, support=support, settings=QUIET)
        for support in ([0, 1], np.array([0, 1]))
    )
    assert listed == array


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"together": -1}, "a bound on mutual information is a number of bits from 0"),
        ({"together": "x"}, "a bound on mutual information is a number of bits from 0"),
        ({"together": 0.1, "method": "ag"}, "together fills blank by blank and takes no method"),
        ({"together": 0.1, "targets": ["t1"]}, "takes no targets"),
        ({"together": 0.1, "support": 5}, "together takes one support for all blanks"),
        ({"together": 0.1, "support": {0: "vocabulary"}}, "one support for all blanks"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options: dict[str, object], said: str) -> None:
    lm = two_pairs()
    with pytest.raises(unmask.UnmaskError, match=said):
        lm.fill("[MASK] [MASK] t0 t1", **options)  # type: ignore[arg-type]


@pytest.mark.real
def test_blanks_of_an_ordinary_text() -> None:
    lm = unmask.load(str(real_model("tiny-english")))
    text = "Two dogs are running through the grass."
    (found,) = lm.fill(text, blanks=["running", "dogs"], together=0.05, settings=QUIET)
    assert found["sequence"].startswith("Two ")
    assert sorted(blank for group in found["groups"] for blank in group) == [0, 1]
