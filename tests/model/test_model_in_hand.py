"""A model that the caller holds: left as it is, followed when it changes, never read wrongly."""

import math
from typing import Any

import pytest
import torch
from tiny_models import build, two_blanks
from torch import Tensor, nn

import unmask
from unmask.errors import ModelError

ONE = "the cat sat on [MASK] mat."


def log_probs(lm: unmask.LanguageModel, text: str = ONE) -> Tensor:
    size = lm.model.vocabulary_size
    fills = sorted(lm.joint(text).top(size), key=lambda fill: fill.ids)
    return torch.tensor([fill.log_prob for fill in fills])


def naive(model: Any, tokenizer: Any, text: str = ONE) -> Tensor:
    ids = tokenizer(text, return_tensors="pt").input_ids
    place = int((ids[0] == tokenizer.mask_token_id).nonzero()[0])
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=ids).logits[0, place].double(), dim=-1)


# --- mode ---------------------------------------------------------------


@pytest.mark.parametrize("part", ["whole", "one layer"])
def test_a_model_in_training_mode_is_rejected_and_left_in_it(part: str):
    model, tokenizer = build("bert")
    lm = unmask.load((model, tokenizer))
    expected = log_probs(lm)
    (model if part == "whole" else model.bert.encoder.layer[1]).train()
    before = [module.training for module in model.modules()]
    sentence = r"^BertForMaskedLM is in training mode.*model\.eval\(\)"
    for ask in (lambda: lm.joint(ONE), lambda: unmask.load((model, tokenizer))):
        with pytest.raises(ModelError, match=sentence):
            ask()
    assert [module.training for module in model.modules()] == before
    model.eval()
    torch.testing.assert_close(log_probs(lm), expected, atol=0, rtol=0)


# --- weights that change ---------------------------------------------------------------


def halve(model: Any) -> None:
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(0.5)


def halve_unseen(model: Any) -> None:
    model.get_output_embeddings().weight.data.mul_(0.5)


def shift_bias(model: Any) -> None:
    with torch.no_grad():
        model.get_output_embeddings().bias.add_(torch.linspace(-2, 2, model.config.vocab_size))


def load_others(model: Any) -> None:
    torch.manual_seed(5)
    model.load_state_dict(
        {name: value + 0.1 * torch.randn_like(value) for name, value in model.state_dict().items()}
    )


def put_another_layer(model: Any) -> None:
    old = model.get_output_embeddings()
    new = nn.Linear(*reversed(old.weight.shape)).to(old.weight.dtype).eval()
    model.set_output_embeddings(new)


def to_float32(model: Any) -> None:
    model.float()


def train_a_step(model: Any) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.05, eps=1e-3)
    logits = model(input_ids=torch.tensor([[2, 5, 4, 7, 3]])).logits
    logits.float().logsumexp(dim=-1).sum().backward()
    optimiser.step()


CHANGES = [
    halve,
    halve_unseen,
    shift_bias,
    load_others,
    put_another_layer,
    to_float32,
    train_a_step,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_answers_are_those_of_the_model_as_it_is_now(change, dtype: torch.dtype):
    model, tokenizer = build("bert")
    model.to(dtype)
    lm = unmask.load((model, tokenizer))
    before = log_probs(lm)
    change(model)
    expected = naive(model, tokenizer)
    if dtype == torch.float32 and change is to_float32:
        torch.testing.assert_close(log_probs(lm), before, atol=0, rtol=0)
        return
    # logits in half precision are rounded, those made of readouts are not
    rounding = 1e-5 if dtype == torch.float32 else 0.15
    found = log_probs(lm)
    assert float((found - expected).abs().max()) < rounding
    if change is not to_float32:
        assert float((expected - before).abs().max()) > 2 * rounding


def test_a_vocabulary_of_another_size_is_not_followed():
    model, tokenizer = build("bert")
    lm = unmask.load((model, tokenizer))
    model.resize_token_embeddings(model.config.vocab_size + 3, mean_resizing=False)
    with pytest.raises(ModelError, match="has changed since it was loaded; load it again"):
        lm.model.readouts(torch.tensor([[2, 5, 4, 3]]), [2])


# --- what a pass changes ---------------------------------------------------------------


@pytest.mark.parametrize("what", ["cost", "joint"])
def test_gradients_are_as_wanted_as_before(what: str):
    model, tokenizer = build("bert")
    model.bert.embeddings.requires_grad_(False)
    before = [parameter.requires_grad for parameter in model.parameters()]
    lm = unmask.load((model, tokenizer))
    _ = lm.cost(two_blanks(tokenizer)) if what == "cost" else lm.joint(two_blanks(tokenizer))
    assert [parameter.requires_grad for parameter in model.parameters()] == before


# --- every length ---------------------------------------------------------------


class Later(nn.Module):
    """An output layer's bias that only long texts get."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.plain = model.forward

    def forward(self, input_ids: Tensor, **options: Any) -> Any:
        output = self.plain(input_ids=input_ids, **options)
        if input_ids.shape[1] > 12:
            output.logits = output.logits + torch.linspace(0, 3, output.logits.shape[-1])
        return output


def test_logits_are_held_against_the_models_own_at_every_length():
    model, tokenizer = build("bert")
    object.__setattr__(model, "forward", Later(model).forward)
    lm = unmask.load((model, tokenizer))
    assert lm.model.output_embedding is not None
    torch.testing.assert_close(log_probs(lm).double(), naive(model, tokenizer), atol=1e-5, rtol=0)
    long = "the cat sat on the mat . the cat sat on [MASK] mat."
    with pytest.raises(ModelError, match=r"a text of 16 tokens into other logits.*would be wrong"):
        lm.joint(long)


def test_a_model_that_reads_more_than_tokens_is_rejected():
    model, tokenizer = build("bert")

    class WithShapes:
        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def __len__(self) -> int:
            return len(tokenizer)

        def __call__(self, *args: Any, **options: Any) -> Any:
            found = tokenizer(*args, **options)
            return {**found, "inputs_embeds": found["input_ids"]}

    with pytest.raises(ModelError, match="reads inputs_embeds in addition to tokens"):
        unmask.load((model, WithShapes()))
    assert math.isfinite(float(log_probs(unmask.load((model, tokenizer))).max()))
