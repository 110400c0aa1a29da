"""A model that does not read what stands to the right is refused; no masked one is taken for it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
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
    with pytest.raises(unmask.ModelError, match=f"^{type(model).__name__} is a {CAUSAL}"):
        unmask.load((model, build("bert")[1]))


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
