"""How large batches are: fixed for a few rows, tried out once for many, said afterwards."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from assets import real_model
from remembering_lm import CLOZE, RememberingLM
from torch import Tensor

import unmask
from unmask import Settings
from unmask.model import batch_size
from unmask.model.batch_size import resolve_batch_size, seconds_per_row
from unmask.model.output_layer import OutputEmbedding

MANY = 10**6


class ClockedLM(RememberingLM):
    """Answers at once, and says on a clock of its own how long it took."""

    def __init__(self, cost) -> None:
        super().__init__()
        self.cost, self.now, self.capacity = cost, 0.0, 10**9

    def readouts(self, ids: Tensor, positions: Sequence[int]) -> Tensor:
        self.asked.append(([[]] * len(ids), list(positions)))
        if len(ids) > self.capacity:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        self.now += self.cost(len(ids))
        return torch.zeros(len(ids), 1, 3)


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch):
    def make(cost) -> ClockedLM:
        model = ClockedLM(cost)
        monkeypatch.setattr(batch_size.time, "perf_counter", lambda: model.now)
        return model

    return make


def best_at(size: int):
    """A row takes least in batches of one size, and twice as much in half or double of it."""
    return lambda rows: 1e-5 * rows * max(rows / size, size / rows)


# --- what is chosen ----------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [512, 2048, 16_384])
def test_the_fastest_is_found(clocked, tokens: int):
    assert resolve_batch_size(clocked(best_at(tokens // 8)), 8, Settings(), MANY) == tokens // 8


def test_of_equally_fast_sizes_the_smallest_is_taken(clocked):
    model = clocked(lambda rows: 1e-5 * rows * (1.5 if rows < 256 else 1.02 if rows == 256 else 1))
    assert resolve_batch_size(model, 8, Settings(), MANY) == 256


def test_a_size_that_does_not_fit_is_not_taken(clocked):
    model = clocked(best_at(2048))
    model.capacity = 600
    assert resolve_batch_size(model, 8, Settings(), MANY) == 512


def test_trying_takes_no_longer_than_its_part(clocked):
    model = clocked(lambda rows: 0.01 * rows)
    resolve_batch_size(model, 8, Settings(), MANY)
    # a hundredth of ten thousand seconds, and the passes before the budget was known
    assert model.now < 101.5 + 0.64
    slow = clocked(lambda rows: 10.0 * rows)
    assert resolve_batch_size(slow, 8, Settings(), 70_000) == 64


def test_a_few_rows_and_a_named_size_are_not_tried(clocked):
    model = clocked(best_at(64))
    assert resolve_batch_size(model, 8, Settings(), 60_000) == 2048 // 8
    assert resolve_batch_size(model, 8, Settings(batch_size=77), MANY) == 77
    model.output_embedding = None
    assert resolve_batch_size(model, 8, Settings(), MANY) == 2048 // 8
    assert model.asked == []


def test_what_was_found_is_kept_for_the_model_and_the_length(clocked):
    model = clocked(best_at(64))
    assert resolve_batch_size(model, 8, Settings(), MANY) == 64
    asked, model.cost = len(model.asked), best_at(1024)
    assert resolve_batch_size(model, 8, Settings(), 2 * MANY) == 64
    assert len(model.asked) == asked
    assert resolve_batch_size(model, 4, Settings(), MANY) == 1024
    assert resolve_batch_size(clocked(best_at(512)), 8, Settings(), MANY) == 512


def test_the_time_of_a_row_is_then_known(clocked):
    model = clocked(best_at(512))
    resolve_batch_size(model, len(CLOZE), Settings(), MANY)
    asked = len(model.asked)
    chosen = resolve_batch_size(model, len(CLOZE), Settings(), MANY)
    assert seconds_per_row(model, CLOZE, Settings()) == pytest.approx(1e-5, rel=0.6)
    assert seconds_per_row(model, CLOZE, Settings(batch_size=chosen)) < 2e-5
    assert len(model.asked) == asked
    seconds_per_row(model, CLOZE, Settings(batch_size=chosen + 1))
    assert len(model.asked) == asked + 2


# --- what is said ------------------------------------------------------------------------------


class FailingLM(RememberingLM):
    output_embedding: OutputEmbedding

    def readouts(self, ids: Tensor, positions: Any) -> Tensor:
        raise RuntimeError("index out of range in self")


def test_other_errors_are_not_taken_for_memory():
    with pytest.raises(RuntimeError, match="index out of range"):
        resolve_batch_size(FailingLM(), 8, Settings(), MANY)


@pytest.mark.real
def test_a_run_is_repeated_bit_for_bit_with_the_size_it_names(monkeypatch):
    lm = unmask.load(real_model("tiny-english"))
    monkeypatch.setattr(batch_size, "_TOKENS_WORTH_TRYING", 1000)
    text = "Two [MASK] are playing [MASK] on the beach."
    support = list(range(700))
    start = time.process_time()
    first = lm.tables(text, support=support)
    found = first.a_given_b.log_prob(slice(None))
    size = first.diagnostics()["batch_size"]
    assert time.process_time() - start < 60
    again = lm.tables(text, support=support, settings=Settings(batch_size=size))
    assert torch.equal(again.a_given_b.log_prob(slice(None)), found)
    assert again.diagnostics()["batch_size"] == size
    other = lm.tables(text, support=support, settings=Settings(batch_size=37))
    torch.testing.assert_close(other.a_given_b.log_prob(slice(None)), found, atol=2e-5, rtol=0)
