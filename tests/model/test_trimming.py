"""Trimmed passes: less work, the same readouts, and nothing trimmed that mixes positions."""

import warnings
from functools import cache

import pytest
import torch
from assets import real_model
from model_hooks import hooks
from tiny_models import ARCHITECTURES, build
from torch import Tensor, nn

import unmask
from unmask.model.hugging_face import HuggingFaceMaskedLM
from unmask.model.trimming import NOTHING_TRIMMED

ROWS = 20
# the first layer of the last feed-forward network
FEED_FORWARD = {
    "bert": "bert.encoder.layer.1.intermediate.dense",
    "roberta": "roberta.encoder.layer.1.intermediate.dense",
    "xlm-roberta": "roberta.encoder.layer.1.intermediate.dense",
    "distilbert": "distilbert.transformer.layer.1.ffn.lin1",
    # one module for all layers
    "albert": "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn",
    "electra": "electra.encoder.layer.1.intermediate.dense",
    "deberta-v2": "deberta.encoder.layer.1.intermediate.dense",
    "mpnet": "mpnet.encoder.layer.1.intermediate.dense",
    "modernbert": "model.layers.1.mlp.Wi",
    "esm": "esm.encoder.layer.1.intermediate.dense",
}


@cache
def adapted(name: str) -> HuggingFaceMaskedLM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unmask.load(build(name)).model


def rows(model: HuggingFaceMaskedLM, length: int, count: int = ROWS) -> Tensor:
    """The same text with another token in one place, special ones among them."""
    torch.manual_seed(length)
    ids = torch.randint(5, model.vocabulary_size, (1, length)).repeat(count, 1)
    ids[:, length // 2] = torch.arange(count)
    return ids


def whole(model: HuggingFaceMaskedLM, ids: Tensor, position: int) -> Tensor:
    return model._captured(ids, [position]).float()


def lengths_seen(model: HuggingFaceMaskedLM, module: nn.Module, ids: Tensor, at) -> list[int]:
    """How many positions of a row enter a module, call by call."""
    seen: list[int] = []
    # a hook after the module: what enters it is then what the trimming left
    handle = module.register_forward_hook(lambda _, args, out: seen.append(out.shape[1]))
    try:
        model.readouts(ids, at)
        # the first rows of a length are read in other ways too, to compare
        seen.clear()
        model.readouts(ids, at)
    finally:
        handle.remove()
    return seen


# --- the same readouts -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "albert", "modernbert", "esm"])
def test_bfloat16_is_trimmed_like_float32(name: str):
    model, tokenizer = build(name)
    expected = len(unmask.load((model, tokenizer)).model.trimming.cut)
    assert len(unmask.load((model.bfloat16(), tokenizer)).model.trimming.cut) == expected


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("length", [2, 3, 7, 12, 20])
def test_a_trimmed_pass_reads_what_a_whole_one_reads(name: str, length: int):
    model = adapted(name)
    if model.output_embedding is None:
        assert model.trimming is NOTHING_TRIMMED
        return
    ids = rows(model, length)
    for position in {0, length // 2, length - 1}:
        expected = whole(model, ids, position)
        scale = float(expected.abs().max())
        found = model.readouts(ids, [position])
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, atol=2e-6 * (1 + scale), rtol=0)


@pytest.mark.parametrize("name", FEED_FORWARD)
def test_each_row_may_be_read_at_a_position_of_its_own(name: str):
    model = adapted(name)
    ids = rows(model, 9)
    positions = (torch.arange(ROWS) % 9)[:, None]
    found = model.readouts(ids, positions)
    for row in range(ROWS):
        expected = whole(model, ids[row : row + 1], int(positions[row]))[0]
        torch.testing.assert_close(found[row], expected, atol=2e-5, rtol=0)


@pytest.mark.real
@pytest.mark.parametrize(
    "folder",
    [
        "tiny-english",
        pytest.param("albert-tiny-chinese", marks=pytest.mark.assets("another architecture")),
        pytest.param("antiberty", marks=pytest.mark.assets("another alphabet")),
    ],
)
def test_a_real_model_is_trimmed_and_reads_the_same(folder: str):
    model = unmask.load(real_model(folder)).model
    ids = rows(model, 14)
    ids[:, 4] = model.mask_id
    expected = whole(model, ids, 4)
    limit = 3e-6 * (1 + float(expected.abs().max()))
    torch.testing.assert_close(model.readouts(ids, [4]), expected, atol=limit, rtol=0)
    assert sum(model.trimming.cut) >= 8


# --- less work ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEED_FORWARD)
def test_the_last_feed_forward_network_and_the_head_see_one_position(name: str):
    model = adapted(name)
    module, ids = model.model.get_submodule(FEED_FORWARD[name]), rows(model, 7)
    layers = [7, 1] if name == "albert" else [1]
    assert lengths_seen(model, module, ids, [3]) == layers
    head = [m for m in model.model.modules() if m is model.trimming.modules[-1]]
    assert lengths_seen(model, head[0], ids, [3])[-1] == 1


def test_several_positions_a_row_and_few_rows_are_not_trimmed():
    model = adapted("bert")
    module = model.model.get_submodule(FEED_FORWARD["bert"])
    assert lengths_seen(model, module, rows(model, 7), [3, 1]) == [7]
    assert lengths_seen(model, module, rows(model, 7, count=3), [3]) == [7]
    assert lengths_seen(model, module, rows(model, 1), [0]) == [1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("broken")])
def test_an_exception_in_a_trimmed_pass_leaves_no_hook(error):
    model = unmask.load(build("bert")).model
    ids = rows(model, 7)
    before = model.readouts(ids, [3])

    def interrupt(*_):
        raise error

    ours = model.model.get_submodule(FEED_FORWARD["bert"]).register_forward_hook(interrupt)
    with pytest.raises(error if isinstance(error, type) else RuntimeError):
        model.readouts(ids, [3])
    ours.remove()
    assert hooks(model.model) == 0
    torch.testing.assert_close(model.readouts(ids, [3]), before, atol=0, rtol=0)


# --- models that do not bear it ----------------------------------------------------------------


class Mixing(nn.Module):
    """A layer that lets positions see each other, a little."""

    def __init__(self, layer: nn.Module, weight: float = 0.01) -> None:
        super().__init__()
        self.inner = [layer]
        self.weight = weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.inner[0](hidden + self.weight * hidden.mean(dim=1, keepdim=True))


@pytest.mark.parametrize("weight", [1.0, 0.01])
def test_nothing_before_a_module_that_mixes_positions_is_trimmed(weight: float):
    plain, tokenizer = build("bert")
    head = plain.cls.predictions.transform
    head.dense = Mixing(head.dense, weight).eval()
    model = unmask.load((plain, tokenizer)).model
    ids = rows(model, 7)
    torch.testing.assert_close(model.readouts(ids, [3]), whole(model, ids, 3), atol=1e-5, rtol=0)
    module = plain.get_submodule(FEED_FORWARD["bert"])
    assert lengths_seen(model, module, ids, [3]) == [7]
    # what follows it is
    assert lengths_seen(model, head.LayerNorm, ids, [3]) == [1]


@pytest.mark.slow
def test_a_model_that_does_something_else_with_long_rows_is_not_trimmed_there():
    plain, tokenizer = build("bert")
    layer = plain.get_submodule(FEED_FORWARD["bert"])
    mixing, usual = Mixing(layer), layer.forward
    block = plain.bert.encoder.layer[1]
    attend = block.attention.forward

    def by_length(hidden: Tensor, *args, **options):
        long = hidden.shape[1] > 10
        layer.forward = (lambda x: mixing_forward(x)) if long else usual
        return attend(hidden, *args, **options)

    def mixing_forward(x: Tensor) -> Tensor:
        return usual(x + mixing.weight * x.mean(dim=1, keepdim=True))

    block.attention.forward = by_length
    model = unmask.load((plain, tokenizer)).model
    for length in (7, 12, 7):
        ids = rows(model, length)
        expected = whole(model, ids, 3)
        torch.testing.assert_close(model.readouts(ids, [3]), expected, atol=1e-5, rtol=0)
    assert sum(model.trimming.cut) == 12


def test_a_trimming_is_not_found_where_calls_depend_on_the_length():
    plain, tokenizer = build("bert")
    norm = plain.cls.predictions.transform.LayerNorm
    transform = plain.cls.predictions.transform
    usual = transform.forward
    transform.forward = lambda x: usual(x) if x.shape[1] > 5 else norm(usual(x))
    model = unmask.load((plain, tokenizer)).model
    assert model.trimming is NOTHING_TRIMMED
    ids = rows(model, 4)
    torch.testing.assert_close(model.readouts(ids, [3]), whole(model, ids, 3))


# --- the attention mask ------------------------------------------------------------------------


def masks_given(model: HuggingFaceMaskedLM) -> bool:
    given: list[bool] = []
    plain = model.model.forward
    model.model.forward = lambda **inputs: (
        given.append("attention_mask" in inputs),
        plain(**inputs),
    )[1]
    model.readouts(rows(model, 6), [2])
    model.model.forward = plain
    return all(given)


def test_a_mask_of_ones_is_left_out_where_it_changes_nothing():
    assert not masks_given(unmask.load(build("bert")).model)


def test_a_model_that_takes_padding_tokens_for_padding_is_given_a_mask():
    plain, tokenizer = build("bert")
    forward = plain.forward

    def guessing(input_ids: Tensor, attention_mask: Tensor | None = None, **options):
        if attention_mask is None:
            attention_mask = (input_ids != tokenizer.pad_token_id).long()
        return forward(input_ids=input_ids, attention_mask=attention_mask, **options)

    plain.forward = guessing
    assert masks_given(unmask.load((plain, tokenizer)).model)


def test_a_model_that_does_not_run_without_a_mask_is_given_one():
    plain, tokenizer = build("bert")
    forward = plain.forward
    plain.forward = lambda *, attention_mask, **inputs: forward(
        attention_mask=attention_mask, **inputs
    )
    assert masks_given(unmask.load((plain, tokenizer)).model)
