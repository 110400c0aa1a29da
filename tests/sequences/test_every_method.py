"""What holds of every method that scores texts or pairs of texts, whatever it computes."""

import math
from typing import Any

import pytest
from tiny_models import build

import unmask
from unmask import LanguageModel, Settings
from unmask.names import TEXT_METHODS
from unmask.sequences import texts as texts_module
from unmask.sequences.unmasking import ORDERS

QUIET = Settings(progress=False)
EVERY: list[dict[str, Any]] = [
    {"method": "pll"},
    {"method": "pll-word-l2r"},
    *({"method": "unmasking", "order": order} for order in ORDERS),
    {"method": "elbo", "draws": 9, "seed": 3},
]


@pytest.fixture(scope="module")
def bert() -> LanguageModel:
    return unmask.load(build("bert"))


def names(options: dict[str, Any]) -> str:
    return options.get("order", options["method"])


@pytest.mark.slow
@pytest.mark.parametrize("options", EVERY, ids=names)
def test_neither_batches_nor_company_nor_windows_change_a_score(
    bert: LanguageModel, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    texts = [" ".join(["the cats sat ,"] * n) + " old mats" for n in (1, 2, 3, 1, 2)] * 2

    def scores(some: list[str], **how: Any) -> list[float]:
        settings = Settings(**{"progress": False} | how)
        return [score.score for score in bert.score(some, settings=settings, **options)]

    base = scores(texts)
    # masks are of the text and the seed alone
    assert base[:5] == pytest.approx(base[5:], abs=1e-5)
    for size in (1, 3, 40):
        assert scores(texts, batch_size=size) == pytest.approx(base, abs=1e-5)
    assert scores(texts[::-1])[::-1] == pytest.approx(base, abs=1e-5)
    assert scores(texts[2:3]) == pytest.approx(base[2:3], abs=1e-5)
    monkeypatch.setattr(texts_module, "TEXTS_PER_WINDOW", 4)
    monkeypatch.setattr("unmask.model.shapes.TOKENS_PER_CHUNK", 200)
    assert scores(texts) == pytest.approx(base, abs=1e-5)


@pytest.mark.parametrize("options", EVERY, ids=names)
def test_pairs_have_differences_of_scores_and_the_errors_of_both(
    bert: LanguageModel, options: dict[str, Any]
) -> None:
    pairs = [("the cats sat", "the dog sat"), ("he ran", "she was"), ("he ran", "he ran")]
    scores = bert.score([text for pair in pairs for text in pair], settings=QUIET, **options)
    ratios = bert.log_ratios(pairs, settings=QUIET, **options)
    for first, second, ratio in zip(scores[::2], scores[1::2], ratios, strict=True):
        assert ratio.log_ratio == pytest.approx(first.score - second.score, abs=1e-5)
        assert (ratio.method, ratio.order) == (first.method, first.order)
        assert ratio.forward_passes == first.forward_passes + second.forward_passes
        assert first.order == options.get("order")
        errors = [score.standard_error for score in (first, second) if score.standard_error]
        error = math.hypot(*errors) if errors else None
        assert ratio.standard_error == pytest.approx(error, abs=1e-5)
    assert [ratio.places for ratio in ratios] == [None, 2, 0]
    in_context = {"given": [("the", "."), "a"], "separator": " ", "settings": QUIET, **options}
    first, second = bert.score(["cats sat", "dog"], **in_context)
    (ratio,) = bert.log_ratios([("cats sat", "mats")], **in_context | {"given": ("the", ".")})
    (other,) = bert.score(["mats"], **in_context | {"given": ("the", ".")})
    assert ratio.log_ratio == pytest.approx(first.score - other.score, abs=1e-5)
    assert second.text == "dog"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "log-pool"}, "no method 'log-pool'; methods: pll, pll-word-l2r, unmasking"),
        (
            {"method": "unmasking", "order": "best"},
            "no order 'best'; orders of unmasking: left-to-right, surest, margin",
        ),
        ({"method": "unmasking", "order": 3}, "no order 3; orders of unmasking: left-to-right"),
        ({"method": "pll", "order": "margin"}, "an order is for unmasking, not for pll; leave it"),
        ({"draws": 0}, "draws is a whole number from 1 to 1,000,000, not 0"),
        ({"draws": 2.5}, "draws is a whole number from 1 to 1,000,000, not 2.5"),
        ({"seed": -1}, "seed is a whole number from 0 to [0-9,]*, not -1"),
        ({"seed": "x"}, "seed is a whole number from 0 to [0-9,]*, not 'x'"),
    ],
)
def test_options_that_cannot_be_used_are_named(
    bert: LanguageModel, options: Any, said: str
) -> None:
    with pytest.raises(unmask.UnmaskError, match=said):
        bert.score(["he ran"], **options)
    with pytest.raises(unmask.UnmaskError, match=said):
        bert.log_ratios([("he ran", "she ran")], **options)


def test_pairs_alone_have_paths(bert: LanguageModel) -> None:
    with pytest.raises(unmask.UnmaskError, match="no method 'hcb-path'; methods: pll, pll-word-"):
        bert.score(["he ran"], method="hcb-path")
    with pytest.raises(unmask.UnmaskError, match="given has 1 contexts for 2 pairs"):
        bert.log_ratios([("he ran", "she ran")] * 2, given=["A dog"])


@pytest.mark.parametrize("method", TEXT_METHODS)
def test_nothing_is_scored_of_no_texts(bert: LanguageModel, method: str) -> None:
    assert bert.score([], method=method) == bert.log_ratios([], method=method) == []
