"""A causal model is refused, and one whose logits are shifted; no masked one is taken for them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from assets import real_model
from tiny_models import ARCHITECTURES, build

import unmask

CAUSAL = (
    "causal language model: it does not see the text to the right of a blank; unmask needs a masked"
)


def _gpt2() -> Any:
    sizes = {"vocab_size": 46, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 4}
    torch.manual_seed(7)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()


def _decoder_bert() -> Any:
    config = build("bert")[0].config
    config.is_decoder = True
    torch.manual_seed(7)
    return transformers.BertLMHeadModel(config).eval()


@pytest.mark.parametrize("make", [_gpt2, _decoder_bert])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_causal_model_is_refused(make: Callable[[], Any], dtype: torch.dtype) -> None:
    model = make().to(dtype)
    with pytest.raises(unmask.errors.ModelError, match=f"^{type(model).__name__} is a {CAUSAL}"):
        unmask.load((model, build("bert")[1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("untrained", [False, True])
@pytest.mark.filterwarnings("ignore:.*not a linear function")
def test_no_masked_model_is_taken_for_a_causal_one(
    name: str, dtype: torch.dtype, untrained: bool
) -> None:
    model, tokenizer = build(name)
    if untrained:
        # as libraries start them, where one token hardly moves another
        torch.manual_seed(3)
        model = type(model)(model.config).eval()
    unmask.load((model.to(dtype), tokenizer))


# --- shifted ---------------------------------------------------------------


def _early(values: torch.Tensor) -> torch.Tensor:
    """At every position what belongs to the next."""
    return torch.cat([values[:, 1:], values[:, -1:]], dim=1)


def _shift_logits(model: Any) -> None:
    plain = model.forward

    def forward(input_ids: torch.Tensor, **options: Any) -> Any:
        output = plain(input_ids=input_ids, **options)
        output.logits = _early(output.logits)
        return output

    object.__setattr__(model, "forward", forward)


def _shift_hidden_states(model: Any) -> None:
    layer = model.get_output_embeddings()
    layer.register_forward_pre_hook(lambda _, args: (_early(args[0]), *args[1:]))


TRAINED = [
    pytest.param("tiny-english", marks=pytest.mark.real),
    *(
        pytest.param(name, marks=[pytest.mark.real, pytest.mark.assets(why)])
        for name, why in (
            ("caption-bert", "the trained model that is least sure of a token it sees"),
            ("albert-tiny-chinese", "a trained model with one token per character"),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.filterwarnings("ignore:.*not a linear function")
def test_a_trained_model_that_is_shifted_is_refused(name: str) -> None:
    for shift in (_shift_logits, _shift_hidden_states):
        # as it is it loads
        lm = unmask.load(real_model(name))
        shift(lm.model.model)
        message = r"predicts token i at position i-1 \(\d+ of 60 .*; load it with shift=True"
        with pytest.raises(unmask.errors.ModelError, match=message):
            unmask.load((lm.model.model, lm.tokenizer))
    # and one that is not, where it is said to be
    with pytest.raises(unmask.errors.ModelError, match=r"at position i \(.* with shift=False$"):
        unmask.load(real_model(name), shift=True)
