"""Pairs of many texts: the promised price, and nothing that depends on how they are batched."""

import random
import time
from collections.abc import Sequence

import pytest
import torch
from scored_pairs import (
    CLOZES,
    KERNELS,
    METHODS,
    WHOLE,
    A,
    B,
    assert_near,
    mixed_clozes,
    scores,
    some_pairs,
    toy,
)
from tiny_models import build
from torch import Tensor

import unmask
from unmask import LanguageModel, Settings, logspace
from unmask.model import shapes
from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.queries import pair_log_probs as scoring
from unmask.queries.pair_log_probs import pair_log_probs, rows_per_text


@pytest.fixture(scope="module")
def bert() -> LanguageModel:
    return unmask.load(build("bert"))


# --- price -------------------------------------------------------------------------------------

PRICES = [
    ("mlm", (WHOLE, WHOLE), {}, 1),
    ("orders", (WHOLE, WHOLE), {}, 3),
    ("orders", (A, B), {}, 3),
]


@pytest.mark.parametrize(("method", "supports", "options", "price"), PRICES)
def test_a_text_costs_what_it_should(method: str, supports, options, price: int):
    model = toy()
    scores(model, method, supports, **options)
    assert model.rows_asked == price * len(CLOZES)
    assert rows_per_text(method, supports, options) == price


@pytest.mark.parametrize(("method", "batches"), [("mlm", [1]), ("orders", [3])])
def test_a_single_text_takes_as_few_batches_as_can_be(method: str, batches: list[int]):
    model = toy()
    scores(model, method, clozes=CLOZES[:1])
    assert model.batches == batches


def test_no_texts_cost_nothing():
    model = toy()
    assert_near(scores(model, "orders", clozes=[]), [])
    assert model.rows_asked == 0


# --- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 64])
@pytest.mark.parametrize("method", METHODS)
def test_batches_are_no_larger_than_asked_and_do_not_matter(method: str, size: int):
    model = toy()
    found = scores(model, method, (A, B), batch_size=size)
    assert max(model.batches) <= size
    assert_near(found, scores(toy(), method, (A, B)), within=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_nothing_depends_on_what_shares_a_batch_or_a_call(bert, method: str):
    clozes, supports = mixed_clozes(bert), (bert.support(),) * 2
    pairs = some_pairs(len(clozes), supports)

    def scored(places: Sequence[int], **settings: int) -> Tensor:
        chosen, how = [clozes[i] for i in places], Settings(**settings)
        return pair_log_probs(bert.model, chosen, pairs[list(places)], supports, how, method=method)

    every = list(range(len(clozes)))
    expected = scored(every)
    for size in (1, 3, 1000):
        assert_near(scored(every, batch_size=size), expected, KERNELS)
    shuffled = random.Random(1).sample(every, len(every))
    assert_near(scored(shuffled), expected[shuffled], KERNELS)
    assert_near(torch.cat([scored([i]) for i in every]), expected, KERNELS)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_windows_chunks_and_tiles_do_not_matter(monkeypatch, bert, method: str):
    clozes, supports = mixed_clozes(bert), (bert.support(),) * 2
    pairs = some_pairs(len(clozes), supports)

    def scored(texts) -> Tensor:
        return pair_log_probs(
            bert.model,
            texts,
            pairs,
            supports,
            Settings(batch_size=1),
            method=method,
        )

    expected = scored(clozes)
    monkeypatch.setattr(scoring, "_TEXTS_PER_WINDOW", 6)
    monkeypatch.setattr(shapes, "TOKENS_PER_CHUNK", 40)
    # a few columns of one row, as few as can be
    monkeypatch.setattr(logspace, "TILE_CELLS", 5)
    assert_near(scored(iter(clozes)), expected)


# --- progress ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("progress", [True, False, None])
def test_the_bar_is_on_stderr_and_only_if_wanted(capfd, progress: bool | None):
    model = toy()
    plain = model.readouts
    # longer than the second that a bar waits before it shows
    model.readouts = lambda *asked: (time.sleep(0.06), plain(*asked))[1]
    settings, pairs = Settings(batch_size=1, progress=progress), some_pairs(8, (A, B))
    pair_log_probs(model, CLOZES, pairs, (A, B), settings, method="orders")
    out, err = capfd.readouterr()
    assert out == ""
    assert ("orders" in err and "/24" in err) if progress else err == ""


def test_requests_of_one_shape_run_together_the_longest_first(monkeypatch) -> None:
    ran, counted = [], []
    reader = RowReader(toy(), Settings(progress=False))

    def run(some: list[tuple[int, ...]]) -> list[str]:
        ran.append(some)
        return [str(one) for one in some]

    def shape_of(request: tuple[int, ...]) -> Shape:
        return Shape(request[0], rows=2, numbers=request[1])

    requests = [(3, 1), (5, 1), (3, 1), (4, 9), (4, 2), (3, 1)]
    with reader.counted("rows") as bar:
        assert run_by_shape(reader, requests, shape_of, run) == list(map(str, requests))
        counted.append(bar.total)
    assert ran == [[(5, 1)], [(4, 9)], [(4, 2)], [(3, 1)] * 3]
    # two rows of three tokens each: two requests at a time, and at least one
    ran.clear()
    monkeypatch.setattr(shapes, "TOKENS_PER_CHUNK", 12)
    with reader.counted("rows", total=7) as bar:
        assert run_by_shape(reader, requests, shape_of, run) == list(map(str, requests))
        counted.append(bar.total)
    assert ran == [[(5, 1)], [(4, 9)], [(4, 2)], [(3, 1)] * 2, [(3, 1)]]
    # a total that was given stays
    assert counted == [12, 7]
    assert run_by_shape(reader, [], shape_of, run) == []
