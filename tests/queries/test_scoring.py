"""Pairs of many texts, against brute force and the joints of each text."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from scored_pairs import (
    CLOZES,
    KERNELS,
    METHODS,
    SUPPORTS,
    WHOLE,
    A,
    B,
    assert_near,
    mixed_clozes,
    scores,
    some_pairs,
    toy,
)
from tiny_models import build, two_blanks
from torch import Tensor

import unmask
from unmask import Cloze, LanguageModel, Settings, Support
from unmask.queries.pair_log_probs import pair_log_probs, rows_per_text

# --- against brute force -----------------------------------------------------------------------


def brute_force(
    answer: Callable[[list[int], int], Tensor],
    cloze: Cloze,
    pair: Sequence[int],
    supports: tuple[Support, Support],
    method: str,
) -> float:
    """One row at a time, whole distributions in float64, by the definitions."""

    def distribution(blank: int, other: int | None = None) -> Tensor:
        ids = list(cloze.ids)
        if other is not None:
            ids[cloze.positions[1 - blank]] = int(supports[1 - blank].ids[other])
        logits = answer(ids, cloze.positions[blank]).double()
        return torch.softmax(logits[supports[blank].ids], dim=0)

    a, b = pair
    m_a, m_b = distribution(0), distribution(1)
    if method == "mlm":
        return math.log(m_a[a] * m_b[b])
    return math.log((distribution(0, b)[a] * m_b[b] + distribution(1, a)[b] * m_a[a]) / 2)


def expected_scores(answer, method: str, supports, clozes=CLOZES, **options: Any) -> list[float]:
    pairs = some_pairs(len(clozes), supports).tolist()
    return [
        brute_force(answer, cloze, pair, supports, method, **options)
        for cloze, pair in zip(clozes, pairs, strict=True)
    ]


def toy_answer(ids: list[int], position: int) -> Tensor:
    return toy(factored=False).readouts(torch.tensor([ids]), [position])[0, 0]


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("which", SUPPORTS)
@pytest.mark.parametrize("method", METHODS)
def test_pairs_are_scored_as_defined(method: str, which: str, factored: bool):
    found = scores(toy(factored=factored), method, SUPPORTS[which])
    assert_near(found, expected_scores(toy_answer, method, SUPPORTS[which]))
    assert found.device.type == "cpu"


@pytest.mark.parametrize("method", METHODS)
def test_the_pairs_of_a_text_sum_to_one(method: str):
    cells = torch.cartesian_prod(torch.arange(len(A)), torch.arange(len(B)))
    clozes = [CLOZES[1]] * len(cells)
    found = pair_log_probs(toy(), clozes, cells, (A, B), Settings(), method=method)
    assert float(found.exp().sum()) == pytest.approx(1, abs=1e-6)


@pytest.fixture(scope="module")
def bert() -> LanguageModel:
    return unmask.load(build("bert"))


@pytest.fixture(scope="module")
def capped() -> LanguageModel:
    """The same with logits that are no linear function of its readouts."""
    model, tokenizer = build("bert")
    linear = model.cls.forward
    model.cls.forward = lambda hidden: 4 * torch.tanh(linear(hidden) / 4)
    with pytest.warns(UserWarning, match="dense logits"):
        return unmask.load((model, tokenizer))


@pytest.mark.slow
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("candidates", ["vocabulary", "no-special", [30, 9, 12, 8, 41]])
@pytest.mark.parametrize("method", METHODS)
def test_texts_of_several_lengths_share_a_call(bert, capped, method: str, candidates, dense: bool):
    lm = capped if dense else bert
    clozes, supports = mixed_clozes(lm), (lm.support(candidates),) * 2

    @torch.no_grad()
    def answer(ids: list[int], position: int) -> Tensor:
        return lm.model.model(input_ids=torch.tensor([ids])).logits[0, position]

    found = scores(lm.model, method, supports, clozes)
    assert_near(found, expected_scores(answer, method, supports, clozes), KERNELS)


@pytest.mark.parametrize("method", METHODS)
def test_the_joint_of_one_text_says_the_same(bert, method: str):
    cloze, supports = bert.cloze(two_blanks(bert.tokenizer)), (bert.support(),) * 2
    found = scores(bert.model, method, supports, [cloze])
    pair = some_pairs(1, supports)[0].tolist()
    assert_near(found, [bert.joint(cloze, method=method).log_prob(*pair)], KERNELS)


# --- bad input ---------------------------------------------------------------------------------

GOOD = {"clozes": CLOZES[:2], "pairs": [[0, 0], [1, 1]], "method": "orders"}
BAD = [
    ({"method": "ag"}, unmask.MethodError, r"'ag'.*mlm, orders.*lm\.joint.*log_prob"),
    ({"options": {"steps": 3}}, unmask.MethodError, "orders.*steps.*takes none"),
]


@pytest.mark.parametrize(("change", "error", "says"), BAD)
def test_bad_input_is_refused(change, error, says: str):
    given = {**GOOD, **change}
    clozes, pairs = given.pop("clozes"), torch.tensor(given.pop("pairs"))
    with pytest.raises(error, match=says) as caught:
        pair_log_probs(toy(), clozes, pairs, (WHOLE, WHOLE), Settings(), **given)
    assert "\n" not in str(caught.value)


def test_a_method_is_a_name():
    with pytest.raises(unmask.MethodError, match=r"None.*mlm, orders"):
        rows_per_text(None, (WHOLE, WHOLE))


# --- a trained model ---------------------------------------------------------------------------

TEXTS = [
    ("A man is playing a [MASK] [MASK].", ("bass", "guitar")),
    ("Two [MASK] are [MASK] in the park.", ("dogs", "playing")),
    ("A [MASK] [MASK].", ("young", "girl")),
    ("The [MASK] is [MASK] a horse on the beach in the evening.", ("woman", "riding")),
]
# kernels for other batch shapes add in another order: 1.3e-5 a log-probability, measured
BATCH_SPREAD = 1e-4


@pytest.mark.real
@pytest.mark.parametrize("candidates", ["vocabulary", "no-special"])
@pytest.mark.parametrize("method", METHODS)
def test_a_trained_model_scores_as_its_joints_do(tiny_english, method: str, candidates: str):
    lm = tiny_english
    clozes, support = [lm.cloze(text) for text, _ in TEXTS], lm.support(candidates)
    pairs = torch.tensor([[support.index(token) for token in pair] for _, pair in TEXTS])
    found = pair_log_probs(lm.model, clozes, pairs, (support,) * 2, Settings(), method=method)
    expected = [
        lm.joint(cloze, method=method, support=candidates).log_prob(*pair)
        for cloze, (_, pair) in zip(clozes, TEXTS, strict=True)
    ]
    assert_near(found, expected, BATCH_SPREAD)
