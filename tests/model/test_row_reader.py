"""Numbers read at rows: exactness, the likeliest tokens, what is not finite, positions."""

import math

import pytest
import torch
from tiny_models import build
from torch import Tensor
from toy_lm import ToyMaskedLM, toy_joint

import unmask
from unmask import Settings
from unmask.model.masked_lm import MaskedLM
from unmask.model.output_layer import OutputEmbedding
from unmask.model.row_reader import RowReader


class WideLM(ToyMaskedLM):
    """Random logits of a large vocabulary, one distribution a row; `levels` makes equals."""

    def __init__(self, size: int, *, scale: float = 1.0, levels: int | None = None) -> None:
        super().__init__(toy_joint(2, 2), factored=False)
        self.vocabulary_size, self.scale, self.levels = size, scale, levels

    def readouts(self, ids: Tensor, positions) -> Tensor:
        return torch.stack([self.logits(int(row[0])).expand(2, -1) for row in ids])

    def logits(self, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        logits = self.scale * torch.randn(self.vocabulary_size, generator=generator)
        return logits if self.levels is None else (self.levels * logits).round() / self.levels


# --- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("size", [1, 15, 17, 60_000])
def test_exponentials_in_float32_are_exact_enough(size: int, scale: float):
    texts = 40
    model = WideLM(size, scale=scale)
    ids = torch.arange(texts)[:, None].repeat(1, 3)
    tokens = torch.randint(size, (texts, 2), generator=torch.Generator().manual_seed(1))
    at = torch.tensor([[1, 2]]).expand(texts, -1)
    # what is not wanted stays zero
    wanted = torch.arange(2 * texts).view(texts, 2) % 3 > 0
    read = RowReader(model, Settings()).token_log_probs(ids, at, tokens[..., None], wanted=wanted)
    logits = torch.stack([model.logits(i) for i in range(texts)]).double()
    expected = torch.log_softmax(logits, dim=1).gather(1, tokens) * wanted
    torch.testing.assert_close(read.log_probs[..., 0], expected, atol=3e-7, rtol=0)


NOT_FINITE = [math.nan, math.inf, -math.inf]


def assert_not_finite(model: MaskedLM) -> None:
    """The token with the bad number is not asked for."""
    ids, at, tokens = torch.tensor([[7, 7]]), torch.tensor([[0, 1]]), torch.tensor([[[0], [1]]])
    with pytest.raises(unmask.errors.NumericsError, match="not finite"):
        RowReader(model, Settings()).token_log_probs(ids, at, tokens)


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("factored", [True, False])
def test_readouts_that_are_not_finite_are_refused(factored: bool, value: float):
    model = ToyMaskedLM(toy_joint(7, 2), factored=factored)
    plain = model.readouts

    def one_bad_number(ids: Tensor, positions) -> Tensor:
        found = plain(ids, positions)
        found[0, 1, 5] = value
        return found

    model.readouts = one_bad_number
    assert_not_finite(model)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_an_output_layer_that_is_not_finite_is_refused(value: float):
    model, bias = ToyMaskedLM(toy_joint(7, 2)), torch.zeros(7)
    bias[5] = value
    model.output_embedding = OutputEmbedding(torch.eye(7), bias)
    assert_not_finite(model)


# --- positions of each row ---------------------------------------------------------------------


def tiny(*, dense: bool) -> MaskedLM:
    model, tokenizer = build("bert")
    if not dense:
        return unmask.load((model, tokenizer)).model
    linear = model.cls.forward
    model.cls.forward = lambda hidden: 4 * torch.tanh(linear(hidden) / 4)
    with pytest.warns(UserWarning, match="dense logits"):
        return unmask.load((model, tokenizer)).model


@pytest.mark.parametrize("dense", [False, True])
def test_each_row_may_have_its_own_positions(dense: bool):
    model, generator = tiny(dense=dense), torch.Generator().manual_seed(2)
    ids = torch.randint(5, 40, (6, 9), generator=generator)
    positions = torch.randint(9, (6, 3), generator=generator)
    found = model.readouts(ids, positions)
    assert found.shape[:2] == (6, 3)
    for row, at in enumerate(positions.tolist()):
        # in the same batch, so that the same kernels run
        expected = model.readouts(ids, at)[row]
        torch.testing.assert_close(found[row], expected, atol=0, rtol=0)
        alone = model.readouts(ids[row : row + 1], at)[0]
        torch.testing.assert_close(found[row], alone, atol=1e-4, rtol=0)
