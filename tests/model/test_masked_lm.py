"""What loading verifies of a model, and what readouts leave behind in it: nothing."""

import copy
import warnings

import pytest
import torch
from naive_tables import EVERY, assert_tables, naive_tables
from tiny_models import build, hooks, two_blanks
from torch import Tensor
from transformers import DebertaV2ForMaskedLM, EsmForMaskedLM

import unmask
from unmask.model.hugging_face import HuggingFaceMaskedLM

DENSE_WARNING = "dense logits"


def adapted(name: str) -> HuggingFaceMaskedLM:
    return unmask.load(build(name)).model


def reseeded(model_class, config):
    """A model of another shape, with the large weights that the tiny ones have."""
    torch.manual_seed(11)
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
    return model


def assert_reads_right(model, tokenizer, *, factored: bool) -> None:
    text = two_blanks(tokenizer)
    lm = unmask.load((model, tokenizer))
    assert (lm.model.output_embedding is not None) == factored
    assert_tables(lm.tables(text, support="vocabulary"), naive_tables(model, tokenizer, text))


# --- what is verified at loading ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("head", ["soft cap", "called twice"])
def test_a_head_that_is_not_linear_is_noticed(head: str):
    model, tokenizer = build("bert")
    linear = model.cls.forward
    model.cls.forward = {
        "soft cap": lambda hidden: 2 * torch.tanh(linear(hidden) / 2),
        "called twice": lambda hidden: linear(hidden) + linear(hidden.flip(-1)),
    }[head]
    with pytest.warns(UserWarning, match="BertForMaskedLM.*dense logits"):
        assert_reads_right(model, tokenizer, factored=False)


@pytest.mark.slow
def test_a_layer_of_the_right_shape_that_is_not_the_last_is_noticed():
    model, tokenizer = build("deberta-v2-new-head")
    config = copy.deepcopy(model.config)
    config.hidden_size, config.num_attention_heads = config.vocab_size, 5
    square = reseeded(DebertaV2ForMaskedLM, config)
    assert square.get_output_embeddings().weight.shape == (config.vocab_size, config.vocab_size)
    with pytest.warns(UserWarning, match=DENSE_WARNING):
        assert_reads_right(square, tokenizer, factored=False)


@pytest.mark.slow
def test_of_biases_with_the_right_shape_the_right_one_is_taken():
    model, tokenizer = build("esm")
    config = copy.deepcopy(model.config)
    # now every layer has a bias with one number per token
    config.intermediate_size = config.vocab_size
    assert_reads_right(reseeded(EsmForMaskedLM, config), tokenizer, factored=True)


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-3, 1e-4, 5e-5])
def test_a_small_bias_outside_the_output_layer_is_not_dropped(size: float):
    model, tokenizer = build("esm")
    assert model.get_output_embeddings().bias is None
    assert float(model.lm_head.bias.detach().abs().min()) > 0
    with torch.no_grad():
        model.lm_head.bias.mul_(size)
    assert_reads_right(model, tokenizer, factored=True)


def test_a_bias_outside_the_output_layer_is_not_dropped_in_bfloat16():
    # bfloat16 needs a loose tolerance, under which a model without its bias may pass for itself
    model, tokenizer = build("esm")
    with torch.no_grad():
        model.lm_head.bias.mul_(0.2)
    expected = model.lm_head.bias.detach().bfloat16().float()
    embedding = unmask.load((model.bfloat16(), tokenizer)).model.output_embedding
    torch.testing.assert_close(embedding.bias, expected)


# --- outputs without a token -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*dense logits")
def test_outputs_that_no_token_names_are_not_ranked_by_default():
    model, tokenizer = build("deberta-v2")
    with torch.no_grad():
        # the model's own choice, if it may choose them
        for name, parameter in model.named_parameters():
            if name.endswith("bias") and parameter.shape == (45,):
                parameter[-3:] += 50
    lm = unmask.load((model, tokenizer))
    one, three = "the cat [MASK] on the mat.", "the [MASK] [MASK] [MASK] the mat."
    assert lm.fill(one, top=1, support="vocabulary")[0]["token"] >= 42
    for asked in (one, two_blanks(tokenizer), three):
        for fill in lm.fill(asked, top=3):
            assert max(ids if isinstance(ids := fill["token"], list) else [ids]) < 42


# --- hooks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("broken"), SystemExit])
@pytest.mark.parametrize("where", ["trunk", "output layer"])
def test_an_exception_inside_forward_leaves_no_hook(error, where: str):
    masked_lm = adapted("bert")
    model, ids = masked_lm.model, torch.tensor([[2, 5, 4, 7, 3]])
    before = masked_lm.readouts(ids, [2])
    place = model.bert.encoder.layer[1] if where == "trunk" else model.get_output_embeddings()

    def interrupt(*_):
        raise error

    ours = place.register_forward_hook(interrupt)
    with pytest.raises(error if isinstance(error, type) else RuntimeError):
        masked_lm.readouts(ids, [2])
    ours.remove()
    assert hooks(model) == 0
    torch.testing.assert_close(masked_lm.readouts(ids, [2]), before, atol=0, rtol=0)


def test_ctrl_c_during_loading_is_not_taken_for_an_unusual_head():
    model, tokenizer = build("bert")
    calls = []

    def interrupt_second(*_):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    ours = model.bert.encoder.register_forward_pre_hook(interrupt_second)
    with pytest.raises(KeyboardInterrupt):
        unmask.load((model, tokenizer))
    ours.remove()
    assert hooks(model) == 0


# --- length ------------------------------------------------------------------------------------

# 24 position embeddings; those of the RoBERTa kind reserve the ones up to the padding id, 1
LENGTHS = {
    "bert": 24,
    "distilbert": 24,
    "albert": 24,
    "electra": 24,
    "deberta-v2": 24,
    "roberta": 22,
    "xlm-roberta": 22,
    "mpnet": 22,
}


@pytest.mark.parametrize(("name", "longest"), LENGTHS.items())
def test_max_length_is_the_longest_sequence_that_runs(name: str, longest: int):
    masked_lm = adapted(name)
    assert masked_lm.max_length == longest
    assert torch.isfinite(masked_lm.readouts(torch.full((1, longest), 6), [0])).all()
    with pytest.raises((IndexError, RuntimeError)):
        masked_lm.readouts(torch.full((1, longest + 1), 6), [0])


@pytest.mark.parametrize(("name", "limit"), [("modernbert", 24), ("esm", 24)])
def test_without_position_embeddings_the_config_sets_the_length(name: str, limit: int):
    assert adapted(name).max_length == limit


# --- numbers -----------------------------------------------------------------------------------

# measured: 0.088, the worst cell of a table whose logits reach 6; bfloat16 keeps 8 bits
BFLOAT16_ERROR = 0.25


@pytest.mark.slow
def test_bfloat16_loads_and_stays_near_float32(tmp_path):
    model, tokenizer = build("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text = two_blanks(tokenizer)
    expected = naive_tables(model, tokenizer, text)
    lm = unmask.load(tmp_path, dtype="bfloat16")
    assert next(lm.model.model.parameters()).dtype == torch.bfloat16
    assert lm.model.output_embedding is not None
    found = lm.tables(text).a_given_b.log_prob(EVERY)
    worst = float((found - expected.log_a_given_b).abs().max())
    # above the float32 noise: the weights really were rounded
    assert 1e-4 < worst < BFLOAT16_ERROR


def spoilt(name: str, value: float):
    """A BERT with one number that is not finite; embeddings are untied to reach one context."""
    model, tokenizer = build("bert")
    decoder = model.get_output_embeddings()
    decoder.weight = torch.nn.Parameter(decoder.weight.detach().clone())
    parameter = {
        "trunk": model.bert.encoder.layer[0].output.dense.weight,
        "one context": model.bert.embeddings.word_embeddings.weight,
        "one outcome": decoder.weight,
        "bias": decoder.bias,
    }[name]
    with torch.no_grad():
        parameter[9] = value
    return model, tokenizer


@pytest.mark.filterwarnings("ignore:.*dense logits")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["trunk", "one context", "one outcome", "bias"])
def test_weights_that_are_not_finite_are_refused(where: str, value: float):
    model, tokenizer = spoilt(where, value)
    with pytest.raises(unmask.errors.NumericsError, match="not finite") as caught:
        _ = unmask.load((model, tokenizer)).tables(two_blanks(tokenizer)).a_given_b
    assert "\n" not in str(caught.value)


def test_one_bad_context_does_not_spoil_the_others():
    model, tokenizer = spoilt("one context", float("nan"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lm = unmask.load((model, tokenizer))
    tables = lm.tables(two_blanks(tokenizer), support=[5, 6, 7, 8, 10])
    assert torch.isfinite(tables.a_given_b.log_prob(EVERY)).all()


# --- the attention mask ------------------------------------------------------------------------


def masks_given(model: HuggingFaceMaskedLM) -> bool:
    given: list[bool] = []
    plain = model.model.forward
    model.model.forward = lambda **inputs: (
        given.append("attention_mask" in inputs),
        plain(**inputs),
    )[1]
    model.readouts(torch.full((20, 6), 5), [2])
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
