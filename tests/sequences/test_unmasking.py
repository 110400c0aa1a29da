"""Unmasking: log-probabilities of whole texts against a loop in float64; what a rule may see."""

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import build
from torch import Tensor
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask import LanguageModel, Settings
from unmask.model.output_layer import OutputEmbedding
from unmask.sequences import unmasking
from unmask.sequences.unmasking import ORDERS, TIED, first_of_the_best

QUIET = Settings(progress=False)
ADAPTIVE = ("surest", "margin")
# the logits, in float64, of one row of ids at a position
Logits = Callable[[list[int], int], Any]


def loop(logits: Logits, ids: list[int], places: list[int], mask: int, order: str) -> list[float]:
    """Each token's log-probability, one place at a time, from logits of the whole vocabulary."""
    row = [mask if place in places else token for place, token in enumerate(ids)]
    hidden, found = list(places), {}
    while hidden:
        values = {place: np.asarray(logits(row, place), dtype=np.float64) for place in hidden}
        log_probs = {p: v - np.log(np.exp(v - v.max()).sum()) - v.max() for p, v in values.items()}
        chosen, best = hidden[0], -1.0
        for place in hidden if order != "left-to-right" else ():
            first, second = sorted(np.exp(log_probs[place]))[:-3:-1]
            value = first if order == "surest" else first - second
            if value > best:
                chosen, best = place, value
        found[chosen] = float(log_probs[chosen][ids[chosen]])
        row[chosen] = ids[chosen]
        hidden.remove(chosen)
    return [found[place] for place in places]


def own_logits(lm: LanguageModel) -> Logits:
    """What the model itself returns, run in float64."""

    exact = copy.deepcopy(lm.model.model).double()

    def logits(row: list[int], position: int) -> Any:
        with torch.no_grad():
            return exact(input_ids=torch.tensor([row])).logits[0, position].numpy()

    return logits


def toy(size: int = 4, axes: int = 3, **how: Any) -> LanguageModel:
    """Conditionals that contradict each other, so that every order gives something else."""
    how = {"noise": 0.7} | how
    return LanguageModel(ToyMaskedLM(toy_joint(size, axes, seed=1), **how), ToyTokenizer(size))


def every_text(size: int, tokens: int) -> list[str]:
    return [" ".join(f"t{i}" for i in one) for one in itertools.product(range(size), repeat=tokens)]


@pytest.fixture(scope="module")
def bert() -> LanguageModel:
    return unmask.load(build("bert"))


# --- the numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_a_toy_is_scored_as_a_loop_says(order: str, factored: bool):
    lm = toy(factored=factored)
    texts = every_text(4, 3)
    for score in lm.score(texts, method="unmasking", order=order, settings=QUIET):
        ids = lm.tokenizer(score.text)["input_ids"]
        expected = loop(lm.model._logits, ids, [0, 1, 2], lm.model.mask_id, order)
        assert score.score == pytest.approx(math.fsum(expected), abs=1e-5)
        assert [word.log_prob for word in score.words] == pytest.approx(expected, abs=1e-5)
        assert (score.method, score.order, score.forward_passes) == ("unmasking", order, 3)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_probabilities_of_all_texts_of_a_length_sum_to_one(order: str, seed: int):
    model = ToyMaskedLM(toy_joint(4, 3, seed), noise=0.7)
    lm = LanguageModel(model, ToyTokenizer(4))
    scores = lm.score(every_text(4, 3), method="unmasking", order=order, settings=QUIET)
    assert math.fsum(math.exp(one.score) for one in scores) == pytest.approx(1.0, abs=1e-10)
    # a sum of pseudo-likelihoods is something else
    others = lm.score(every_text(4, 3), settings=QUIET)
    assert abs(math.fsum(math.exp(one.score) for one in others) - 1.0) > 1e-3


def test_orders_agree_where_conditionals_are_compatible_and_only_there():
    for noise, agree in ((0.0, True), (0.7, False)):
        lm = toy(noise=noise)
        by_order = [
            [s.score for s in lm.score(every_text(4, 3), method="unmasking", order=order)]
            for order in ORDERS
        ]
        for one, other in itertools.combinations(by_order, 2):
            assert (one == pytest.approx(other, abs=1e-5)) == agree
        truth = np.log(lm.model.joint).ravel().tolist()  # type: ignore[attr-defined]
        assert (by_order[0] == pytest.approx(truth, abs=1e-5)) == agree


TEXTS = ["the cats was on mats.", "old zebra, ran", "the cats sat on old mats."]


@pytest.mark.parametrize("order", ORDERS)
def test_words_of_several_pieces_add_up(bert: LanguageModel, order: str):
    logits = own_logits(bert)
    for score in bert.score(TEXTS, method="unmasking", order=order, settings=QUIET):
        ids = bert.tokenizer(score.text)["input_ids"]
        places = list(range(1, len(ids) - 1))
        expected = loop(logits, ids, places, bert.model.mask_id, order)
        assert score.score == pytest.approx(math.fsum(expected), abs=1e-5)
        starts = list(itertools.accumulate((w.pieces for w in score.words), initial=0))
        by_word = [math.fsum(expected[a:b]) for a, b in itertools.pairwise(starts)]
        assert [word.log_prob for word in score.words] == pytest.approx(by_word, abs=1e-5)
        assert score.tokens == score.forward_passes == len(places)
    assert max(word.pieces for word in score.words) > 1


@pytest.mark.real
@pytest.mark.parametrize("order", ORDERS)
def test_a_real_model_is_scored_as_a_loop_says(tiny_english: LanguageModel, order: str):
    texts = ["A man is skateboarding in the park.", "Two dogs run, antidisestablished!"]
    logits = own_logits(tiny_english)
    for score in tiny_english.score(texts, method="unmasking", order=order, settings=QUIET):
        ids = tiny_english.tokenizer(score.text)["input_ids"]
        expected = loop(
            logits, ids, list(range(1, len(ids) - 1)), tiny_english.model.mask_id, order
        )
        assert score.score == pytest.approx(math.fsum(expected), abs=1e-5)


# --- what the model is shown -------------------------------------------------------------------


class Watched:
    """A model that remembers the rows of every forward pass."""

    def __init__(self, model: Any) -> None:
        self._model, self.rows = model, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def readouts(self, ids: Tensor, positions: Any) -> Tensor:
        self.rows.append(ids.tolist())
        return self._model.readouts(ids, positions)


@pytest.mark.parametrize("order", ORDERS)
def test_special_tokens_are_never_masked_and_unknown_words_are(bert: LanguageModel, order: str):
    watched = Watched(bert.model)
    lm = LanguageModel(watched, bert.tokenizer)
    text = "the [SEP] zebra sat"
    with pytest.warns(unmask.errors.UnknownTokenWarning):
        (score,) = lm.score([text], method="unmasking", order=order, settings=QUIET)
    ids = bert.tokenizer(text)["input_ids"]
    rows = [row for batch in watched.rows for row in batch]
    special = {bert.tokenizer.cls_token_id, bert.tokenizer.sep_token_id}
    for place, token in enumerate(ids):
        masked = [row[place] == bert.model.mask_id for row in rows]
        assert any(masked) == (token not in special)
    assert (score.tokens, score.unknown_tokens, len(rows)) == (3, 1, 3)
    # the first row has all tokens masked, the last one of them
    assert [row.count(bert.model.mask_id) for row in rows] == [3, 2, 1]


@pytest.mark.parametrize("order", ADAPTIVE)
def test_a_choice_does_not_depend_on_tokens_that_are_still_masked(order: str):
    lm = toy()
    watched = Watched(lm.model)
    watched_lm = LanguageModel(watched, lm.tokenizer)
    watched_lm.score(every_text(4, 3), method="unmasking", order=order, settings=QUIET)
    first, second, third = watched.rows
    assert {tuple(row) for row in first} == {(4, 4, 4)}
    # one place for all texts; then one for all that revealed the same there
    assert len({tuple(token == 4 for token in row) for row in second}) == 1
    shown = {tuple(row): set() for row in second}
    for before, after in zip(second, third, strict=True):
        shown[tuple(before)].add(tuple(token == 4 for token in after))
    assert {len(patterns) for patterns in shown.values()} == {1}


def test_texts_of_one_length_advance_together():
    texts = every_text(4, 3)[:10]
    for batch_size, adaptive, at_once in (
        (40, [10] * 3, [30]),
        (4, [4, 4, 2] * 3, [4] * 7 + [2]),
    ):
        for order in ORDERS:
            lm = toy()
            how = Settings(batch_size=batch_size, progress=False)
            lm.score(texts, method="unmasking", order=order, settings=how)
            expected = at_once if order == "left-to-right" else adaptive
            assert lm.model.batches == expected  # type: ignore[attr-defined]


# --- batches -----------------------------------------------------------------------------------


class Rounding:
    """Two places whose certainties differ by as much as makes a tie; batches round differently.

    What is at one place changes what is likely at the other, so that the two orders disagree.
    """

    vocabulary_size, mask_id, max_length = 3, 3, 2
    special_ids = frozenset({3})
    device = torch.device("cpu")
    output_embedding = OutputEmbedding(torch.eye(3), None)

    def __init__(self) -> None:
        self.batches: list[int] = []

    def readouts(self, ids: Tensor, positions: Tensor) -> Tensor:
        self.batches.append(len(ids))
        sign = 1.0 if len(ids) % 2 else -1.0
        rows = [
            torch.stack([self._row(row, place, sign) for place in at])
            for row, at in zip(ids, positions, strict=True)
        ]
        return torch.stack(rows).float()

    def _row(self, row: Tensor, place: Tensor, sign: float) -> Tensor:
        if (row == 3).sum() == 2:
            largest = 0.6 + (TIED + sign * 1e-6 if place == 1 else 0.0)
        else:
            largest = 0.5 if place == 0 else 0.9
        rest = (1 - largest) / 3
        return torch.tensor([largest, 2 * rest, rest], dtype=torch.float64).log()


def test_rounding_does_not_turn_a_choice(monkeypatch):
    def scores(texts: int) -> list[float]:
        lm = LanguageModel(Rounding(), ToyTokenizer(3))
        how = {"method": "unmasking", "order": "surest", "settings": QUIET}
        found = {round(s.score, 4) for s in lm.score(["t0 t1"] * texts, **how)}
        return sorted(found)

    assert scores(1) == scores(2) == scores(7) == scores(8)
    assert len(scores(8)) == 1
    # it does without the second look
    monkeypatch.setattr(unmasking, "ROUNDING", 0.0)
    assert scores(7) != scores(8)


def test_the_first_of_those_that_are_tied_is_next():
    values = torch.tensor(
        [
            [0.2, 0.5, 0.5],
            [0.5, 0.5 + 0.5 * TIED, 0.1],
            [0.5, 0.5 + 2 * TIED, 0.1],
            [0.5, 0.5 + TIED, 0.1],
            # on the edge, but behind one that is not
            [0.5 + TIED, 0.5, 0.1],
        ],
        dtype=torch.float64,
    )
    chosen, is_safe = first_of_the_best(values)
    assert chosen[[0, 1, 2, 4]].tolist() == [1, 0, 1, 0]
    assert is_safe.tolist() == [True, True, True, False, True]


def test_places_that_are_alike_are_revealed_from_left_to_right():
    joint = np.full((4, 4, 4), 1 / 64)
    watched = Watched(ToyMaskedLM(joint))
    lm = LanguageModel(watched, ToyTokenizer(4))
    for order in ORDERS:
        watched.rows.clear()
        lm.score(["t3 t2 t1"], method="unmasking", order=order, settings=QUIET)
        rows = [row for batch in watched.rows for row in batch]
        assert rows == [[4, 4, 4], [3, 4, 4], [3, 2, 4]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_rejected(bad: float):
    class Broken(Rounding):
        def _row(self, row: Tensor, place: Tensor, sign: float) -> Tensor:
            return torch.tensor([0.1, bad, 0.2], dtype=torch.float64)

    for order in ORDERS:
        with pytest.raises(unmask.errors.NumericsError, match="not finite"):
            LanguageModel(Broken(), ToyTokenizer(3)).score(
                ["t0 t1"], method="unmasking", order=order, settings=QUIET
            )
