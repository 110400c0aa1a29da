"""Words of one piece or several in blanks, against sums over all orders written out in float64."""

import itertools
import math

import pytest
import torch
from tiny_tokenizers import PIECES, SPECIAL, tiny_bert, word_piece

import unmask
from unmask.errors import ClozeError, MethodError, SupportError

ONE = "the {} sat."
TWO = "the {} sat on the {}."
MASK = PIECES.index("[MASK]")
# how WordPiece cuts them
WORDS = {
    "cat": ["cat"],
    "mat": ["mat"],
    "unhappy": ["un", "##happy"],
    "cats": ["cat", "##s"],
    "unhappys": ["un", "##happy", "##s"],
}


@pytest.fixture(scope="module")
def model():
    return tiny_bert()


@pytest.fixture(scope="module")
def lm(model):
    return unmask.load((model, word_piece()))


def pieces(word: str) -> list[int]:
    return [PIECES.index(piece) for piece in WORDS[word]]


def conditional(model, ids: list[int], position: int) -> torch.Tensor:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0, position]
    return torch.softmax(logits.double(), dim=-1)


def masked_row(text: str, widths: list[int]) -> tuple[list[int], list[int]]:
    ids = word_piece()(text.format(*(" ".join(["[MASK]"] * width) for width in widths)))
    row = list(ids["input_ids"])
    return row, [place for place, token in enumerate(row) if token == MASK]


def by_orders(model, text: str, words: list[str]) -> float:
    """The mean over orders of the product of what each piece has given those before it."""
    each = [pieces(word) for word in words]
    row, positions = masked_row(text, [len(ids) for ids in each])
    tokens = dict(zip(positions, itertools.chain(*each), strict=True))
    total = 0.0
    for order in itertools.permutations(positions):
        filled, product = list(row), 1.0
        for position in order:
            product *= float(conditional(model, filled, position)[tokens[position]])
            filled[position] = tokens[position]
        total += product
    return total / math.factorial(len(positions))


@pytest.mark.slow
def test_words_of_one_two_and_three_pieces_in_one_blank(lm, model):
    prior = {1: 0.5, 2: 0.3, 3: 0.2}
    words = ["cat", "unhappy", "cats", "unhappys"]
    fills = lm.fill(ONE.format("[MASK]"), targets=words, piece_prior=prior, top=9)
    assert {fill["word"] for fill in fills} == set(words)
    assert [fill["score"] for fill in fills] == sorted((f["score"] for f in fills), reverse=True)
    for fill in fills:
        expected = by_orders(model, ONE, [fill["word"]])
        assert math.exp(fill["log_prob_given_pieces"]) == pytest.approx(expected, rel=1e-5)
        assert fill["score"] == pytest.approx(prior[fill["pieces"]] * expected, rel=1e-5)
        ids = pieces(fill["word"])
        assert fill["token"] == (ids[0] if len(ids) == 1 else ids)
        assert fill["sequence"] == ONE.format(fill["word"])
        assert fill["token_str"] == fill["word"]


@pytest.mark.slow
def test_two_blanks_of_different_widths(lm, model):
    text = TWO.format("[MASK]", "[MASK]")
    targets = [["cat", "unhappy"], ["cats"]]
    fills = lm.fill(text, targets=targets, piece_prior="uniform", top=9)
    assert {tuple(fill["word"]) for fill in fills} == set(itertools.product(*targets))
    for fill in fills:
        expected = by_orders(model, TWO, fill["word"])
        # two widths of the first blank, one of the second
        assert fill["score"] == pytest.approx(expected / 2, rel=1e-5)
        assert fill["pieces"] == [len(pieces(word)) for word in fill["word"]]
        assert fill["sequence"] == TWO.format(*fill["word"])


def test_one_list_is_of_one_blank_and_a_string_is_one_word(lm):
    text = TWO.format("[MASK]", "[MASK]")
    both = lm.fill(text, targets=[["cat", "mat"]] * 2, top=9)
    assert both == lm.fill(text, targets={0: ["cat", "mat"], 1: ["cat", "mat"]}, top=9)
    assert len(both) == 4
    one = ONE.format("[MASK]")
    assert lm.fill(one, targets="cat") == lm.fill(one, targets=["cat"])


@pytest.mark.parametrize(
    ("targets", "by_blank"),
    [
        (["cat", "mat"], "{0: ['cat'], 1: ['mat']}"),
        (["cat", "mat", "sat"], "{0: ['cat', 'mat', 'sat'], 1: ['cat', 'mat', 'sat']}"),
        ("cat", "{0: ['cat'], 1: ['cat']}"),
    ],
)
def test_one_list_for_two_blanks_is_not_guessed_at(lm, targets, by_blank):
    with pytest.raises(SupportError, match="the text has 2 blanks; give words by blank") as error:
        lm.fill(TWO.format("[MASK]", "[MASK]"), targets=targets)
    assert str(error.value).endswith(f"such as {by_blank}")


def test_words_of_one_piece_have_the_models_own_probability(lm, model):
    row, (position,) = masked_row(ONE, [1])
    own = conditional(model, row, position)
    for fill in lm.fill(ONE.format("[MASK]"), targets=["cat", "mat"]):
        assert fill["score"] == pytest.approx(float(own[fill["token"]]), rel=1e-5)
        assert fill["log_prior_of_pieces"] == 0


def test_as_if_pieces_were_independent(lm, model):
    row, positions = masked_row(ONE, [3])
    expected = math.prod(
        float(conditional(model, row, position)[piece])
        for position, piece in zip(positions, pieces("unhappys"), strict=True)
    )
    (fill,) = lm.fill(ONE.format("[MASK]"), targets=["unhappys"], method="mlm")
    assert fill["score"] == pytest.approx(expected, rel=1e-5)
    assert fill["score"] != pytest.approx(by_orders(model, ONE, ["unhappys"]), rel=1e-3)


@pytest.mark.parametrize("method", ["log-pool", "hcb", "ag"])
def test_constructions_from_tables_take_two_pieces(method, lm):
    joint = lm.joint(ONE.format("[MASK] [MASK]"), method=method, support="vocabulary")
    for fill in lm.fill(ONE.format("[MASK]"), targets=["unhappy", "cats"], method=method):
        assert fill["log_prob_given_pieces"] == pytest.approx(joint.log_prob(*fill["token"]))


def test_a_prior_scales_and_ranks_but_does_not_touch_what_is_given_the_pieces(lm):
    def asked(prior):
        text = ONE.format("[MASK]")
        fills = lm.fill(text, targets=["cat", "unhappy"], piece_prior=prior)
        return [fill["word"] for fill in fills], {fill["word"]: fill for fill in fills}

    short, mostly_short = asked({1: 0.999, 2: 0.001})
    wide, mostly_wide = asked({1: 1e-6, 2: 0.9})
    assert (short, wide) == (["cat", "unhappy"], ["unhappy", "cat"])
    for word in short:
        given = "log_prob_given_pieces"
        assert mostly_short[word][given] == pytest.approx(mostly_wide[word][given], abs=1e-12)
    ratio = mostly_short["cat"]["score"] / mostly_wide["cat"]["score"]
    assert ratio == pytest.approx(0.999e6)
    _, even = asked("uniform")
    assert even["cat"]["log_prior_of_pieces"] == pytest.approx(-math.log(2))
    # weights that no word here uses change nothing
    assert asked({1: 0.5, 2: 0.3, 7: 0.1})[1]["cat"]["log_prior_of_pieces"] == math.log(0.5)


@pytest.mark.slow
def test_a_blank_without_targets_takes_what_the_model_proposes(lm, model):
    text = TWO.format("[MASK]", "[MASK]")
    fills = lm.fill(text, targets={1: ["cats"]}, top=100)
    proposed = [fill["word"][0] for fill in fills]
    assert len(set(proposed)) == len(proposed) == 20
    assert not set(proposed) & set(SPECIAL)
    row, positions = masked_row(TWO, [1, 1])
    own = conditional(model, row, positions[0])
    ordinary = [i for i in range(len(PIECES)) if PIECES[i] not in SPECIAL]
    best = max(ordinary, key=lambda i: float(own[i]))
    assert PIECES[best] in proposed
    for fill in fills[:4]:
        WORDS.setdefault(fill["word"][0], [fill["word"][0]])
        assert fill["score"] == pytest.approx(by_orders(model, TWO, fill["word"]), rel=1e-5)


def test_a_word_of_a_cloze_is_a_blank_of_as_many_pieces(lm):
    text = "the unhappy cat sat."
    cloze = lm.cloze(text, blanks=["unhappy"])
    fills = lm.fill(cloze, support="vocabulary", method="orders", top=6)
    expected = lm.joint("the [MASK] [MASK] cat sat.", method="orders").top(6)
    assert [fill["token"] for fill in fills] == [list(fill.ids) for fill in expected]
    assert [f["score"] for f in fills] == pytest.approx([f.probability for f in expected])
    for fill in fills:
        assert fill["token_str"] == word_piece().decode(fill["token"])
    # targets are as wide as they are, whatever stood there
    written = lm.fill(text, blanks=["unhappy"], targets=["mat", "cats"], piece_prior="uniform")
    masked = lm.fill("the [MASK] cat sat.", targets=["mat", "cats"], piece_prior="uniform")
    assert written == masked


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"targets": ["cat", "unhappy"]}, SupportError, "blank 0: candidates have 1 and 2 pieces"),
        ({"targets": ["cat"], "piece_prior": "flat"}, SupportError, "not 'flat'"),
        (
            {"targets": ["cat"], "piece_prior": {2: 0.5}},
            SupportError,
            "has no probability for candidates",
        ),
        ({"targets": ["cat"], "piece_prior": {1: 0.7, 2: 0.7}}, SupportError, "at most 1"),
        ({"targets": ["cat"], "piece_prior": {1: 0.0}}, SupportError, "above 0"),
        ({"targets": ["cat"], "piece_prior": {1: float("nan")}}, SupportError, "above 0"),
        ({"targets": {1: ["cat"]}}, SupportError, "targets name blank 1; this text has"),
        ({"targets": [["cat"], ["mat"]]}, SupportError, "2 lists; the text has 1 blank"),
        ({"targets": []}, SupportError, "targets is a list of words"),
        ({"targets": {0: []}}, SupportError, "the targets of a blank are a list of words"),
        ({"targets": ["cat", "cat"]}, SupportError, "blank 0: the candidate 'cat' is given twice"),
        ({"targets": ["\x1b[31m[MASK]"]}, SupportError, "\\x1b[31m[MASK]"),
        ({"targets": ["cat " * 40 + "cat"]}, ClozeError, "this model takes at most"),
        ({"targets": ["unhappys"], "method": "log-pool"}, MethodError, "takes two pieces in all"),
        ({"piece_prior": "uniform"}, ClozeError, "give both"),
    ],
)
def test_refusals(options, error, said, lm):
    with pytest.raises(error) as raised:
        lm.fill(ONE.format("[MASK]"), **options)
    assert said in str(raised.value)
    assert str(raised.value).isprintable()
