"""Ten thousand readings of texts and blanks, mostly nonsense: a valid cloze or one line of refusal.

Nothing else may come out, whatever goes in.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_tokenizers import byte_level, word_piece

from unmask import Cloze
from unmask.errors import ClozeError
from unmask.text.cloze import parse_cloze

# each goes through two tokenizers; a budget per kind, for what hypothesis draws often depends on
# the modules that happen to be imported
EXAMPLES = {"anything": 3_500, "masks": 1_500}

ORDINARY = ("the", " the", " man", " cat", " dog.", "manmade", "unhappy", " ", ".")
MASKS = ("[MASK]", "<mask>")
SPECIAL = ("[CLS]", "[SEP]", "[UNK]", "[PAD]", "<s>", "</s>", "<unk>", "___")
# surrogates (whole pairs too, as two halves), controls, overrides, joiners, combining marks
HOSTILE = (
    *("\ud83d", "\ude00", "\ud83d\ude00", "\x00", "\x1b[31m", "\n", "\r\n", "\t", "\x7f", "\x85"),
    *("\u2028", "\u202e", "\u200d", "\ufeff", "\ufffd", "\U000e0001", "\u3000", "\ue000"),
    *("e\u0301", "\u0301", "\u0e33", "שלום", "مرحبا", "日本", "👩\u200d👩\u200d👧", "ﷺ", "İ", "ß"),
)

GOOD = (1, 2, 3, (0, 3), (3, 7), (4, 7), (0, 7), "the", "man", "the man", " cat")
BAD = (-1, 0, 8, 99, (0, 4), (4, 8), (7, 11), (0, 0), (5, 2), (-1, 3), (0, 99))
JUNK = (
    *(None, True, 1.5, float("nan"), "4:7", b"ab", (1,), (1, 2, 3), (1, None), [[0, 3]], {}),
    *(10**5000, (0, -(10**5000)), "\u202e\n", [], object(), 2**70, iter([1])),
)
LISTS = (
    *([blank] for blank in (*GOOD, *GOOD, *BAD, *JUNK)),
    *([one, other] for one in GOOD for other in (*GOOD, *BAD, *JUNK)),
    *((other, one) for one in GOOD for other in (*BAD, *JUNK)),
)


def joined(pieces: tuple[str, ...], most: int) -> st.SearchStrategy[str]:
    """Some of the pieces in a row, by one draw: many small ones cost hypothesis most of its time"""
    keys = {chr(0xE000 + i): piece for i, piece in enumerate(pieces)}
    return st.text("".join(keys), max_size=most).map(lambda s: "".join(map(keys.get, s)))


readable, hostile = joined(ORDINARY, 5), joined((*MASKS, *SPECIAL, *HOSTILE), 2)
anything = st.text(st.characters(exclude_categories=()), max_size=3)
mixed = st.tuples(readable, hostile, anything).map("".join)
masked = st.tuples(readable, st.sampled_from((*MASKS, "".join(MASKS))), anything).map("".join)
no_texts = st.sampled_from((None, 5, b"[MASK]", ["[MASK]"]))
blanks_given = st.sampled_from((*LISTS, *JUNK, *[None] * 300))


def check_cloze(cloze: Cloze, text, tokenizer, blanks) -> None:
    plain = tokenizer(text)["input_ids"]
    mask = tokenizer.mask_token_id
    assert cloze.text == text
    assert 0 < len(cloze.positions) == len(set(cloze.positions))
    assert all(0 <= position < len(plain) for position in cloze.positions)
    assert all(cloze.ids[position] == mask for position in cloze.positions)
    if blanks is None:
        assert cloze.gold is None
        assert list(cloze.ids) == plain
        assert cloze.positions == tuple(i for i, token in enumerate(plain) if token == mask)
    else:
        assert cloze.filled(cloze.gold) == plain
        assert mask not in cloze.gold
        assert sum(cloze.blank_widths) == len(cloze.positions)
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        spans = cloze.spans or [None] * len(blanks)
        for blank, run, span in zip(blanks, cloze.positions_by_blank, spans, strict=True):
            check_places(blank, run, span, text, offsets)


def check_places(blank, run: tuple[int, ...], span, text: str, offsets) -> None:
    """A blank lies where it was asked for: that token, or all tokens of those characters."""
    assert run == tuple(range(run[0], run[-1] + 1))
    if isinstance(blank, int):
        assert run == (blank,)
        return
    if isinstance(blank, str):
        if span is None:  # another blank is one of several bytes of a character
            return
        assert text[slice(*span)] == blank.strip()
        blank = span
    asked = {place for place in range(*blank) if not text[place].isspace()}
    for position, (low, high) in enumerate(offsets):
        seen = {place for place in range(low, high) if not text[place].isspace()}
        assert seen <= asked if position in run else not seen & asked


def check_refusal(error: ClozeError) -> None:
    said = str(error)
    assert said
    # printable: no line breaks, controls, overrides or lone surrogates
    assert said.isprintable(), ascii(said)


def outcome(text, blanks, tokenizer) -> str:
    try:
        cloze = parse_cloze(text, tokenizer, blanks=blanks, max_length=24)
    except ClozeError as error:
        check_refusal(error)
        return "refused"
    check_cloze(cloze, text, tokenizer, blanks)
    return "masks" if blanks is None else "blanks"


# a fifth of them, and all
@pytest.mark.slow
@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.long)])
def test_every_outcome_is_a_valid_cloze_or_one_line_of_refusal(share):
    outcomes: Counter[str] = Counter()

    def check(text, blanks):
        for tokenizer in (word_piece(), byte_level()):
            outcomes[outcome(text, blanks, tokenizer)] += 1

    for kind, texts, blanks in (
        ("anything", mixed | masked | no_texts, blanks_given),
        ("masks", masked, st.none()),
    ):
        settings(
            max_examples=EXAMPLES[kind] // share,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(given(texts, blanks)(check))()
    # the examples reach every kind of outcome often: otherwise nothing was shown
    total = outcomes.total()
    assert total >= 2 * sum(EXAMPLES.values()) // share
    assert all(outcomes[k] >= total // 50 for k in ("refused", "masks", "blanks")), outcomes
