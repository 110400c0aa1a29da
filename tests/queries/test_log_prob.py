"""`lm.log_prob`: pairs of many texts, the same numbers as the joints, and clear refusals."""

import pytest
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask

TEXTS = ["t1 [MASK] [MASK]", "[MASK] t4 [MASK]", "[MASK] [MASK] t0"]
PAIRS = [("t2", "t3"), ("t0", "t5"), (4, "t1")]


@pytest.fixture
def lm() -> unmask.LanguageModel:
    return unmask.LanguageModel(ToyMaskedLM(toy_joint(7, 3), noise=0.5), ToyTokenizer(7))


def rows_asked(lm: unmask.LanguageModel) -> int:
    assert isinstance(lm.model, ToyMaskedLM)
    return lm.model.rows_asked


@pytest.mark.parametrize(
    ("method", "options", "rows"),
    [("mlm", {}, 1), ("orders", {}, 3)],
)
@pytest.mark.parametrize("support", ["vocabulary", ["t0", "t1", "t2", "t3", "t4", "t5"]])
def test_equal_to_the_joints(
    lm: unmask.LanguageModel, method: str, options: dict[str, int], rows: int, support: object
) -> None:
    found = lm.log_prob(TEXTS, PAIRS, method=method, support=support, **options)
    assert rows_asked(lm) == 3 * (rows)
    for value, text, pair in zip(found, TEXTS, PAIRS, strict=True):
        joint = lm.joint(text, method=method, support=support, **options)
        assert float(value) == pytest.approx(joint.log_prob(*pair), abs=1e-5)


def test_clozes_and_capitals_are_taken(lm: unmask.LanguageModel) -> None:
    clozes = [lm.cloze(text) for text in TEXTS]
    assert lm.log_prob(clozes, PAIRS, method="MLM").tolist() == pytest.approx(
        lm.log_prob(TEXTS, PAIRS, method="mlm").tolist()
    )


@pytest.mark.parametrize(
    ("texts", "pairs", "options", "said"),
    [
        (TEXTS, PAIRS[:2], {}, "3 texts but 2 pairs"),
        ("t1 [MASK] [MASK]", PAIRS, {}, "texts is a list of texts, with a list of pairs"),
        (TEXTS, "t1t2t3", {}, "pairs is a list of two tokens per text"),
        (TEXTS, [*PAIRS[:2], ("t1",)], {}, r"the pair of text 2 is two tokens, not \('t1',\)"),
        (TEXTS, [*PAIRS[:2], ("t1", "t9")], {}, "text 2, blank 1: 't9' is not one of"),
        (["t1 [MASK] t2", *TEXTS[1:]], PAIRS, {}, "text 0 has 1 blanks; a pair takes two"),
        ([*TEXTS[:2], ""], PAIRS, {}, "text 2: "),
        (TEXTS, PAIRS, {"method": None}, "by default: name a method, 'orders'"),
        (TEXTS, PAIRS, {"method": "ag"}, "no method 'ag'; methods: mlm, orders"),
        (TEXTS, PAIRS, {"mean": "geometric"}, "no option 'mean'"),
    ],
)
def test_what_cannot_be_scored_is_refused_before_a_row_runs(
    lm: unmask.LanguageModel, texts: object, pairs: object, options: dict, said: str
) -> None:
    with pytest.raises(unmask.UnmaskError, match=said):
        lm.log_prob(texts, pairs, **{"method": "orders", **options})
    assert rows_asked(lm) == 0
