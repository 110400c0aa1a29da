"""Trained models: how far numbers wander, and agreement with what users compare to."""

import copy
import math

import pytest
import torch
import transformers
from assets import real_model
from torch import Tensor

import unmask
from unmask import LanguageModel, Settings

pytestmark = pytest.mark.real

TEXT = "A man is playing a [MASK] [MASK]."
CONTEXTS = list(range(5, 8192, 26))
EVERY = slice(None)


def log_a_given_b(lm: LanguageModel, contexts: list[int], batch_size: int | None = None) -> Tensor:
    settings = Settings(batch_size=batch_size)
    return lm.tables(TEXT, support={1: contexts}, settings=settings).a_given_b.log_prob(EVERY)


def worst(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return float((found - expected).abs().max())


@torch.no_grad()
def plain_logits(model, ids: list[int], at: int, place: int, tokens: list[int]) -> Tensor:
    """The model's own logits at one position, a batch of one for every token at another."""
    rows = [[t if i == place else token for i, token in enumerate(ids)] for t in tokens]
    return torch.stack([model(input_ids=torch.tensor([row])).logits[0, at] for row in rows])


# --- how far numbers wander --------------------------------------------------------------------

# measured: tiny-english 1.3e-5, albert-tiny-chinese 9.9e-5; kernels for other batch shapes add in
# another order
BATCH_SPREAD = 3e-4
# measured: 1.2e-5, on log-probabilities down to -23
FLOAT64_ERROR = 1e-4
# measured: 0.12 at worst, 0.012 on average
BFLOAT16_ERROR = 0.3


@pytest.fixture(scope="module")
def one_by_one(tiny_english) -> Tensor:
    return log_a_given_b(tiny_english, CONTEXTS, 1)


@pytest.mark.parametrize("size", [pytest.param(7, marks=pytest.mark.long), 64, None])
def test_batch_size_hardly_matters(tiny_english, one_by_one, size: int | None):
    spread = worst(log_a_given_b(tiny_english, CONTEXTS, size), one_by_one)
    assert spread <= BATCH_SPREAD


@pytest.fixture(scope="module")
def in_float64(tiny_english) -> Tensor:
    """The table of a float64 copy of the model."""
    model = copy.deepcopy(tiny_english.model.model).double()
    cloze = tiny_english.cloze(TEXT)
    a, b = cloze.positions
    rows = torch.tensor(cloze.ids).repeat(len(CONTEXTS), 1)
    rows[:, b] = torch.tensor(CONTEXTS)
    with torch.no_grad():
        logits = model(input_ids=rows).logits[:, a]
    assert logits.dtype == torch.float64
    return torch.log_softmax(logits, dim=1).T


def test_float32_is_near_float64(tiny_english, in_float64):
    error = worst(log_a_given_b(tiny_english, CONTEXTS), in_float64)
    assert error <= FLOAT64_ERROR


def test_bfloat16_is_worse_but_bounded(in_float64):
    lm = unmask.load(real_model("tiny-english"), dtype="bfloat16")
    error = worst(log_a_given_b(lm, CONTEXTS), in_float64)
    assert FLOAT64_ERROR < error <= BFLOAT16_ERROR


# --- one blank is fill-mask --------------------------------------------------------------------

ANTIBODY = "E V Q L V E S G G G L V Q P G G S L R L S C A A S [MASK] F T F S"
ONE_BLANK = {
    "tiny-english": ["A man is playing a [MASK].", "[MASK] dogs run through the snow", "[MASK]"],
    "albert-tiny-chinese": ["今天天氣真[MASK]。", "我[MASK]歡喝咖啡，不喝茶。"],
    "antiberty": [ANTIBODY, "[MASK] V Q L"],
}


# the pipeline's softmax is float32: over 21,128 tokens it is 2e-6 off what its logits say
PIPELINE_ERROR = {"albert-tiny-chinese": 5e-6}


def assert_is_fill_mask(lm: LanguageModel, text: str, *, top: int, error: float = 1e-6) -> None:
    pipeline = transformers.pipeline("fill-mask", model=lm.model.model, tokenizer=lm.tokenizer)
    expected, found = pipeline(text, top_k=top), lm.fill(text, top=top)
    assert len(found) == top
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.pop("method") == "mlm"
        assert math.exp(ours.pop("log_prob")) == pytest.approx(ours["score"], rel=1e-9)
        assert ours.keys() == theirs.keys()
        assert ours.pop("score") == pytest.approx(theirs.pop("score"), abs=error, rel=0)
        assert ours == theirs


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            name,
            text,
            marks=() if name == "tiny-english" else pytest.mark.assets("other vocabularies"),
        )
        for name, texts in ONE_BLANK.items()
        for text in texts
    ],
)
def test_one_blank_is_transformers_fill_mask(name: str, text: str):
    lm = unmask.load(real_model(name))
    assert_is_fill_mask(lm, text, top=20, error=PIPELINE_ERROR.get(name, 1e-6))


# --- albert-tiny-chinese: readouts narrower than the trunk, a large vocabulary -----------------


@pytest.mark.assets("an architecture with narrow readouts")
def test_albert_is_factored_and_equals_a_naive_loop():
    albert_chinese = unmask.load(real_model("albert-tiny-chinese"))
    embedding = albert_chinese.model.output_embedding
    assert embedding.weight.shape == (21128, 128)
    cloze = albert_chinese.cloze("我昨天去[MASK][MASK]看書。")
    (a, b), contexts = cloze.positions, list(range(700, 21128, 102))
    logits = plain_logits(albert_chinese.model.model, cloze.ids, a, b, contexts)
    expected = torch.log_softmax(logits.double(), dim=1).T
    # alone, a row runs through the same kernels as in the loop: what is left is the factoring
    for batch_size, error in ((1, 1e-5), (None, BATCH_SPREAD)):
        settings = Settings(batch_size=batch_size)
        tables = albert_chinese.tables(cloze, support={1: contexts}, settings=settings)
        difference = worst(tables.a_given_b.log_prob(EVERY), expected)
        assert difference <= error
