"""The bound of a log-probability: against a loop, all masks and all orders; its error; jobs."""

import itertools
import math

import pytest
import torch
from test_unmasking import QUIET, Logits, Watched, every_text, own_logits, toy
from tiny_models import build
from torch import Tensor

import unmask
from unmask import LanguageModel
from unmask.model.row_reader import RowReader
from unmask.sequences.elbo import drawn_masks, mask_values, standard_error
from unmask.sequences.texts import TokenisedText, in_context, read_text

TEXTS = ["the cats was on mats.", "old mats", "the cats sat on old mats."]


@pytest.fixture(scope="module", params=["bert", pytest.param("tiny", marks=pytest.mark.real)])
def lm(request: pytest.FixtureRequest) -> LanguageModel:
    if request.param == "tiny":
        return request.getfixturevalue("tiny_english")
    return unmask.load(build("bert"))


def loop(
    logits: Logits, text: TokenisedText, masks: Tensor, mask_id: int
) -> tuple[list[float], list[float]]:
    """The values of some masks, and the mean part of every token."""
    values, parts = [], [0.0] * len(text.places)
    for mask in masks.tolist():
        hidden = [place for place, one in zip(text.places, mask, strict=True) if one]
        row = [mask_id if place in hidden else token for place, token in enumerate(text.ids)]
        value = 0.0
        for rank, place in enumerate(text.places):
            if place in hidden:
                every = torch.as_tensor(logits(row, place), dtype=torch.float64)
                log_prob = float(every.log_softmax(0)[text.ids[place]])
                value += log_prob * len(mask) / len(hidden)
                parts[rank] += log_prob * len(mask) / len(hidden) / len(masks)
        values.append(value)
    return values, parts


@pytest.mark.parametrize("given", ["", "the old"], ids=["whole", "continuation"])
def test_the_score_is_a_loop_over_the_same_masks(lm: LanguageModel, given: str) -> None:
    logits = own_logits(lm)
    for seed, text in enumerate(TEXTS[:2]):
        context = {"given": given, "separator": " "} if given else {}
        score = lm.score(text, method="elbo", draws=6, seed=seed, settings=QUIET, **context)
        read = read_text(lm, in_context([text], given or None, " " if given else "")[0])
        masks, _ = drawn_masks(read, 6, seed)
        values, parts = loop(logits, read, masks, lm.model.mask_id)
        assert score.score == pytest.approx(math.fsum(values) / 6, abs=1e-5)
        assert score.score == pytest.approx(math.fsum(w.log_prob for w in score.words), abs=1e-9)
        if all(word.pieces == 1 for word in score.words):
            assert [word.log_prob for word in score.words] == pytest.approx(parts, abs=1e-5)
        assert (score.method, score.forward_passes, score.order) == ("elbo", 6, None)
        assert score.tokens == len(read.places)


def exact(lm: LanguageModel, text: TokenisedText) -> tuple[Tensor, Tensor]:
    """The values of all masks, and how likely each is."""
    count = len(text.places)
    masks = torch.tensor([*itertools.product([False, True], repeat=count)][1:])
    values = mask_values(RowReader(lm.model, QUIET), [text], masks[None])[0].sum(dim=1)
    sizes = masks.sum(dim=1).tolist()
    shares = torch.tensor([1 / (count * math.comb(count, size)) for size in sizes])
    return values, shares.double()


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_the_mean_over_all_masks_is_the_mean_over_all_orders(tokens: int) -> None:
    lm = toy(3, tokens)
    for text in every_text(3, tokens)[::7]:
        read = read_text(lm, text)
        values, shares = exact(lm, read)
        by_order = []
        for order in itertools.permutations(range(tokens)):
            row, total = [lm.model.mask_id] * tokens, 0.0
            for place in order:
                every = torch.as_tensor(lm.model._logits(row, place))  # type: ignore[attr-defined]
                total += float(every.log_softmax(0)[read.ids[place]])
                row[place] = read.ids[place]
            by_order.append(total)
        expected = math.fsum(by_order) / len(by_order)
        assert float(shares.sum()) == pytest.approx(1.0)
        assert float(values @ shares) == pytest.approx(expected, abs=1e-5)
        # Jensen: below the log-probability of an order drawn at random
        mixture = math.log(math.fsum(map(math.exp, by_order)) / len(by_order))
        assert expected < mixture


@pytest.mark.parametrize("draws", [3, 8, 32])
def test_scores_are_unbiased_and_errors_cover(draws: int) -> None:
    lm = toy(3, 4)
    read = read_text(lm, "t0 t2 t1 t1")
    values, shares = exact(lm, read)
    truth, powers = float(values @ shares), 2 ** torch.arange(3, -1, -1)
    means, errors = [], []
    for seed in range(300):
        masks, order = drawn_masks(read, draws, seed)
        drawn = values[(masks * powers).sum(dim=1) - 1]
        means.append(float(drawn.mean()))
        errors.append(standard_error(drawn[order]) or 0.0)
    score = lm.score("t0 t2 t1 t1", method="elbo", draws=draws, seed=299, settings=QUIET)
    assert score.score == pytest.approx(means[-1], abs=1e-5)
    assert score.standard_error == pytest.approx(errors[-1], abs=1e-5)
    spread = torch.tensor(means).std().item()
    assert sum(means) / 300 == pytest.approx(truth, abs=4 * spread / math.sqrt(300))
    if draws > 3:
        inside = sum(abs(m - truth) < 2 * e for m, e in zip(means, errors, strict=True)) / 300
        assert 0.91 < inside < 0.99


def test_masks_hide_every_number_of_tokens_and_all_tokens_equally_often() -> None:
    read = read_text(toy(3, 4), "t0 t2 t1 t1")
    every = torch.stack([drawn_masks(read, 16, seed)[0] for seed in range(300)])
    assert (
        every.sum(dim=2).sort(dim=1).values.tolist()
        == [[1] * 4 + [2] * 4 + [3] * 4 + [4] * 4] * 300
    )
    two = every[every.sum(dim=2) == 2]
    _, counts = two.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert counts.double().tolist() == pytest.approx([200] * 6, abs=4 * math.sqrt(200 * 5 / 6))
    # more draws begin with the same masks
    assert drawn_masks(read, 100, 5)[0][:16].equal(drawn_masks(read, 16, 5)[0])


def test_one_token_is_exact_and_one_draw_has_no_error(lm: LanguageModel) -> None:
    score = lm.score("the", method="elbo", settings=QUIET)
    assert (score.tokens, score.forward_passes) == (1, 128)
    assert score.score == pytest.approx(lm.score("the", settings=QUIET).score, abs=1e-5)
    assert score.standard_error == pytest.approx(0.0, abs=1e-5)
    assert lm.score("the cats", method="elbo", draws=1, settings=QUIET).standard_error is None


def test_only_the_tokens_of_a_continuation_are_masked() -> None:
    bert = unmask.load(build("bert"))
    watched = Watched(bert.model)
    LanguageModel(watched, bert.tokenizer).score(
        " cats sat", given=("the", " on mats."), method="elbo", draws=16, settings=QUIET
    )
    whole = bert.tokenizer("the cats sat on mats.")["input_ids"]
    rows = [row for batch in watched.rows for row in batch]
    assert len(rows) == 16
    hidden = {place for row in rows for place in range(len(row)) if row[place] != whole[place]}
    assert hidden == {2, 3, 4}
