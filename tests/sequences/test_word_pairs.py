"""Two words in two blanks, for a list of items: held against one item at a time, and by hand."""

import inspect
import itertools
import math
from dataclasses import fields

import numpy as np
import pytest
import torch
from toy_lm import ToyMaskedLM, ToyTokenizer

import unmask
from unmask import PairScore, Sketch
from unmask.errors import UnmaskError
from unmask.sequences import word_pairs

SINGLE = [
    ("the [MASK] sat on the [MASK].", "cat", "mat"),
    ("a [MASK] [MASK].", "dog", "ran"),
    ("the man saw a dog.", "dog", "man"),
    ("the [MASK] sat on the [MASK].", "dog", "mat"),
]
WIDE = [
    ("a [MASK] man saw [MASK].", "unhappy", "cats"),
    ("the happy cats ran on a mat.", "mat", "cats"),
    ("[MASK] [MASK] sat.", "the", "unhappy"),
]
# why an item has no numbers: what is wrong, and how it is said
BAD = {
    "no mask": (("the cat sat.", "dog", "sat"), "no [MASK], and 'dog' does not occur in the text"),
    "one mask": (("the [MASK] sat.", "cat", "mat"), "the text has 1 blank; a pair takes two"),
    "three": (("[MASK] [MASK] [MASK].", "a", "cat"), "the text has 3 blanks; a pair takes two"),
    "twice": (("the cat saw the cat.", "cat", "saw"), "'cat' occurs 2 times, at 4:7, 16:19; write"),
    "part": (("the cats sat.", "cat", "sat"), "'cat' occurs only inside other words"),
    "overlap": (("the cat sat.", "the cat", "cat"), "blanks overlap"),
    "no text": ((None, "cat", "sat"), "there is no text"),
    "no word": (("the [MASK] [MASK].", "cat", None), "there is no second word"),
    "empty word": (("the [MASK] [MASK].", "", "sat"), "the first word is empty"),
    "empty text": (("", "cat", "sat"), "the text is empty"),
    "number": (("the [MASK] [MASK].", 7, "sat"), "the first word is a string, not 7"),
    "unknown word": (("the [MASK] [MASK].", "cat", "☃"), "this vocabulary has no pieces for '☃'"),
    "special": (("the [MASK] [MASK].", "cat", "[SEP]"), "'[SEP]' holds the special token '[SEP]'"),
    "white space": (("the [MASK] [MASK].", "cat ", "sat"), "'cat ' has white space around it"),
    "long text": ((f"[MASK] [MASK] {'a ' * 30}", "cat", "sat"), "this model takes at most 24"),
    "long word": (("[MASK] [MASK]", "un" + "s" * 30, "sat"), "has 34 tokens; this model takes at"),
    "unknown text": (("☃ [MASK] [MASK]", "cat", "sat"), "the text has no token that this model"),
}


def by_hand(lm, pair, blanks, given=()) -> float:
    """log p(pieces of the blanks | given pieces), the mean over orders, one forward pass a step."""
    each = []
    for order in itertools.permutations(blanks):
        ids, total = torch.tensor([pair.cloze.ids]), 0.0
        for place in (*given, *order):
            at, token = pair.cloze.positions[place], pair.pieces[place]
            if place in blanks:
                logits = lm.model.model(input_ids=ids).logits[0, at].double()
                total += float(torch.log_softmax(logits, dim=0)[token])
            ids[0, at] = token
        each.append(total)
    return float(torch.tensor(each).logsumexp(dim=0)) - math.log(len(each))


@pytest.mark.parametrize("item", [*SINGLE, *WIDE])
def test_orders_by_hand(lm, item) -> None:
    pair = word_pairs.read_pair(lm, item)
    one, other = pair.widths
    first, second = range(one), range(one, one + other)
    (found,) = lm.pairs([item])
    with torch.no_grad():
        log_p = by_hand(lm, pair, [*first, *second])
        apart = by_hand(lm, pair, first) + by_hand(lm, pair, second)
        assert found.log_p == pytest.approx(log_p, abs=1e-5)
        assert found.log_p_1_given_2 == pytest.approx(by_hand(lm, pair, first, second), abs=1e-5)
        assert found.log_p_2_given_1 == pytest.approx(by_hand(lm, pair, second, first), abs=1e-5)
    assert found.association == pytest.approx(log_p - apart, abs=1e-5)
    # the marginals of the joint would take a pass per token of the vocabulary
    assert found.pmi is None
    assert found.incompatibility is found.log_p_error is found.reason is None
    assert (found.pieces_1, found.pieces_2) == pair.widths
    assert found.forward_passes == 2 ** (one + other) - 1


@pytest.mark.parametrize("item", [*SINGLE, *WIDE])
def test_mlm_by_hand(lm, item) -> None:
    pair = word_pairs.read_pair(lm, item)
    with torch.no_grad():
        logits = lm.model.model(input_ids=torch.tensor([pair.cloze.ids])).logits[0].double()
    log_q = torch.log_softmax(logits[list(pair.cloze.positions)], dim=-1)
    alone = [float(log_q[blank, piece]) for blank, piece in enumerate(pair.pieces)]
    (score,) = lm.pairs([item], method="mlm")
    first = pair.widths[0]
    assert score.log_p == pytest.approx(sum(alone), abs=1e-5)
    assert score.log_p_1_given_2 == pytest.approx(sum(alone[:first]), abs=1e-5)
    assert score.log_p_2_given_1 == pytest.approx(sum(alone[first:]), abs=1e-5)
    assert (score.pmi, score.association, score.forward_passes) == (0, None, 1)


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("method", word_pairs.WITHOUT_TABLES)
def test_the_pairs_of_a_text_are_its_joint_and_sum_to_one(method: str, factored: bool) -> None:
    lm = toy(5, blanks=2, factored=factored)
    words = [f"t{n}" for n in range(5)]
    scores = lm.pairs(
        [("[MASK] [MASK]", *pair) for pair in itertools.product(words, words)], method=method
    )
    joint = lm.joint("[MASK] [MASK]", method=method)
    log_p = [joint.log_prob(*pair) for pair in itertools.product(words, words)]
    assert [score.log_p for score in scores] == pytest.approx(log_p, abs=1e-6)
    assert sum(math.exp(score.log_p) for score in scores) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("item", [*WIDE, ("a [MASK] saw [MASK].", "unsssssss", "cats")])
def test_words_of_several_pieces_are_those_of_fill(lm, item) -> None:
    """With more than six pieces too, where orders are drawn."""
    text, *words = item
    blanks = None if "[MASK]" in text else words
    (found,) = lm.pairs([item])
    (fill,) = lm.fill(text, blanks=blanks, targets=[[word] for word in words])
    assert found.log_p == pytest.approx(math.log(fill["score"]), abs=1e-5)
    if blanks is None:
        (given,) = lm.fill(text[::-1].replace("]KSAM[", words[1][::-1], 1)[::-1], targets=words[:1])
        assert found.log_p_1_given_2 == pytest.approx(math.log(given["score"]), abs=1e-5)


@pytest.mark.parametrize("method", ["log-pool", "ag"])
def test_tables_are_those_of_the_joint(lm, method) -> None:
    for (text, *words), found in zip(
        SINGLE, lm.pairs(SINGLE, method=method, support="vocabulary"), strict=True
    ):
        blanks = None if "[MASK]" in text else words
        joint = lm.joint(text, method=method, blanks=blanks, support="vocabulary")
        a, b = words
        assert found.log_p == pytest.approx(joint.log_prob(a, b), abs=1e-5)
        given_b = joint.conditional(0, given={1: b}).log_prob(a)
        assert found.log_p_1_given_2 == pytest.approx(given_b, abs=1e-5)
        given_a = joint.conditional(1, given={0: a}).log_prob(b)
        assert found.log_p_2_given_1 == pytest.approx(given_a, abs=1e-5)
        assert found.pmi == pytest.approx(joint.pmi(a, b), abs=1e-5)
        assert found.incompatibility == pytest.approx(joint.incompatibility(), abs=1e-5)
        assert found.log_p_error is found.pmi_error is found.incompatibility_error is None
        assert found.association is None
        assert found.forward_passes == joint.diagnostics["forward_passes"]


def toy(size: int, blanks: int = 3, *, factored: bool = True) -> unmask.LanguageModel:
    joint = np.random.default_rng(0).gamma(0.3, size=(size,) * blanks)
    model = ToyMaskedLM(joint + 1e-9, noise=0.1, factored=factored)
    return unmask.LanguageModel(model, ToyTokenizer(size))


@pytest.mark.slow
def test_a_sketch_is_precise_at_the_words_of_the_item() -> None:
    lm = toy(600, blanks=2)
    item = ("[MASK] [MASK]", "t3", "t5")
    (found,) = lm.pairs([item], method="log-pool", support=Sketch(None, max_passes=401))
    (exact,) = lm.pairs([item], method="log-pool", support="vocabulary")
    assert found.forward_passes < exact.forward_passes == 1201
    for name in ("log_p", "log_p_1_given_2", "log_p_2_given_1", "pmi", "incompatibility"):
        error = getattr(found, f"{name}_error")
        assert 0 < error < 0.5
        assert getattr(found, name) == pytest.approx(getattr(exact, name), abs=5 * error)


def test_tables_take_words_of_one_piece(lm) -> None:
    found = lm.pairs([WIDE[0], SINGLE[0]], method="log-pool")
    assert found[0].reason == (
        "'unhappy' is 2 pieces of this tokenizer, and log-pool takes words of one; use the method "
        "orders"
    )
    assert found[0].log_p is None
    assert found[1].reason is None


@pytest.mark.parametrize(("item", "said"), BAD.values(), ids=BAD)
def test_a_bad_item_has_a_reason_and_no_number(lm, item, said) -> None:
    before, found, after = lm.pairs([SINGLE[0], item, SINGLE[0]])
    assert said in (found.reason or "")
    assert "\n" not in found.reason
    assert before.log_p == after.log_p != found.log_p
    empty = {field.name for field in fields(PairScore)} - {"method", "reason", "forward_passes"}
    assert all(getattr(found, name) is None for name in empty)


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("method", word_pairs.WITHOUT_TABLES)
def test_nothing_depends_on_the_other_items(lm, method, at_once, monkeypatch) -> None:
    items = [SINGLE[0], BAD["three"][0], *WIDE, *SINGLE, BAD["twice"][0], SINGLE[0]]
    alone = [lm.pairs([item], method=method)[0] for item in items]
    monkeypatch.setattr(word_pairs, "ITEMS_AT_ONCE", at_once)
    for found, expected in zip(lm.pairs(iter(items), method=method), alone, strict=True):
        numbers = found.log_p, found.log_p_1_given_2
        assert numbers == pytest.approx((expected.log_p, expected.log_p_1_given_2), abs=1e-5)
        assert (found.reason, found.pieces_1) == (expected.reason, expected.pieces_1)


@pytest.mark.parametrize(("method", "rows"), [("mlm", 5), ("orders", 15)])
def test_items_of_one_length_share_batches(method: str, rows: int) -> None:
    lm = toy(6)
    lm.pairs([(f"t{n} [MASK] [MASK]", "t1", "t2") for n in range(5)], method=method)
    # five texts with both words masked, by orders also with either of them filled in
    assert lm.model.batches == [rows]


def test_unknown_parts_around_the_words_are_counted(lm) -> None:
    with pytest.warns(unmask.errors.UnknownTokenWarning, match="1 of 2 texts"):
        found = lm.pairs([("the ☃ [MASK] [MASK]", "cat", "sat"), SINGLE[0]])
    assert [one.unknown_tokens for one in found] == [1, 0]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"method": "order"}, "order"),
        ({"method": "log-pool", "support": 30}, "'vocabulary' or a Sketch, not 30"),
        ({"method": "mrf", "support": Sketch()}, "mrf cannot be estimated from a sketch"),
    ],
)
def test_what_cannot_be_asked_is_rejected_at_once(lm, how, said) -> None:
    with pytest.raises(UnmaskError, match=said):
        lm.pairs(SINGLE, **how)


def test_items_are_a_list_and_settings_are_settings(lm) -> None:
    # unwrapped: the checks of annotations, which users do not have, would answer before
    pairs = inspect.unwrap(word_pairs.score_pairs)
    with pytest.raises(UnmaskError, match="pairs are items of a text and two words each, not None"):
        pairs(lm, None)
    with pytest.raises(UnmaskError, match=r"settings are an unmask\.Settings, such as"):
        pairs(lm, SINGLE, settings={"batch_size": 3})


@pytest.mark.parametrize("item", ["abc", ("the [MASK] [MASK].", "cat"), 7])
def test_an_item_has_three_parts(lm, item) -> None:
    with pytest.raises(UnmaskError, match="an item is a text and two words, not "):
        lm.pairs([item])


@pytest.mark.parametrize("item", [*SINGLE, *WIDE, *(item for item, _ in BAD.values())])
def test_reading_ahead_changes_nothing(lm, item, monkeypatch) -> None:
    everything = [*SINGLE, item, *WIDE]
    ahead = word_pairs.read_items(lm, everything, method="orders")[len(SINGLE)]
    monkeypatch.setattr(word_pairs, "_texts_to_read", lambda *_: [])
    (alone,) = word_pairs.read_items(lm, [item], method="orders")
    assert ahead == alone


def test_texts_with_masks_are_tokenised_together(lm, monkeypatch) -> None:
    asked = []
    tokenizer = type(lm.tokenizer)
    call = tokenizer.__call__
    monkeypatch.setattr(
        tokenizer, "__call__", lambda self, *a, **b: (asked.append(a[0]), call(self, *a, **b))[1]
    )
    items = [item for item in SINGLE if "[MASK]" in item[0]]
    word_pairs.read_items(lm, items, method="orders")
    (together,) = asked
    assert {text for text, *_ in items} < set(together)
