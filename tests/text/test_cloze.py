"""Texts with blanks, read with real tokenizers: what is accepted, and what is refused how.

Positions, gold and spans of thousands of texts are held in `test_cloze_property`.
"""

import pytest
from sentence_piece import sentence_piece
from tiny_tokenizers import byte_level, without_offsets, without_unknown, word_piece

from unmask import Cloze
from unmask.errors import ClozeError
from unmask.text.cloze import parse_cloze

TEXT = "The cat sat on the mat."


def refusal(text, tokenizer=None, **options) -> str:
    with pytest.raises(ClozeError) as raised:
        parse_cloze(text, tokenizer or word_piece(), **options)
    message = str(raised.value)
    assert message.isprintable()
    return message


def pieces(cloze: Cloze, tokenizer) -> list[str]:
    return tokenizer.convert_ids_to_tokens(list(cloze.ids))


def test_mask_tokens_are_blanks_from_left_to_right():
    cloze = parse_cloze("The [MASK] sat [MASK] the mat.", word_piece())
    assert cloze.positions == (2, 4)
    assert cloze.gold is None
    assert pieces(cloze, word_piece())[:6] == ["[CLS]", "the", "[MASK]", "sat", "[MASK]", "the"]
    assert len(cloze) == len(cloze.ids) == 9
    # a mask may own the space before it
    cloze = parse_cloze("The <mask> saw the<mask>.", byte_level())
    assert pieces(cloze, byte_level())[1:4] == ["The", "<mask>", "Ġsaw"]


WORD, BYTES, PIECE = word_piece(), byte_level(), sentence_piece()
UNTRIMMED = byte_level(trim_offsets=False)


@pytest.mark.parametrize(
    ("tokenizer", "text", "blank", "gold"),
    [
        # with or without the space around it; an index counts the special tokens
        *((WORD, TEXT, blank, ["cat"]) for blank in [(4, 7), (3, 7), (4, 8), (3, 8), [4, 7], 2]),
        *((BYTES, "The man saw the dog.", span, ["Ġman"]) for span in [(4, 7), (3, 7), (3, 8)]),
        *((UNTRIMMED, "The man saw the dog.", span, ["Ġman"]) for span in [(4, 7), (3, 7), (3, 8)]),
        # characters, not bytes
        (BYTES, "日本 𝔘 the man", (9, 12), ["Ġman"]),
        # an unknown word, a piece of a word, several pieces, characters that the tokenizer drops
        (WORD, "the zebra sat", (4, 9), ["[UNK]"]),
        (WORD, "the zebra sat", 2, ["[UNK]"]),
        (WORD, "the cats", (7, 8), ["##s"]),
        (WORD, "an unhappy cat", (3, 10), ["un", "##happy"]),
        (WORD, "the \x00cat", (4, 8), ["cat"]),
        (WORD, "the ca\x00t\x00 sat", (4, 9), ["cat"]),
        (BYTES, "the日", (3, 4), ["æ", "Ĺ", "¥"]),
        # a lone space inside a span, and before a word, of which it is the first piece
        (BYTES, "the 日 man", (0, 5), ["the", "Ġ", "æ", "Ĺ", "¥"]),
        (PIECE, "the saw man", "saw", ["▁", "s", "a", "w"]),
        (PIECE, "saw man", "saw", ["▁", "s", "a", "w"]),
        (PIECE, "the  saw man", "saw", ["▁", "s", "a", "w"]),
        (PIECE, "thesaw man", (3, 6), ["s", "a", "w"]),
        (PIECE, "the man\tman", (8, 11), ["man"]),
        (BYTES, "the 日 man", "日", ["Ġ", "æ", "Ĺ", "¥"]),
        (UNTRIMMED, "the 日 man", "日", ["Ġ", "æ", "Ĺ", "¥"]),
        (BYTES, "the  man", "man", ["Ġman"]),
        # words and phrases; a script without spaces has its words anywhere
        (WORD, TEXT, " cat", ["cat"]),
        (WORD, TEXT, "sat on", ["sat", "on"]),
        (WORD, TEXT, "mat.", ["mat", "."]),
        (WORD, "a mat, a cat, a cat_mat", "cat", ["cat"]),
        (WORD, "日本", "本", ["本"]),
    ],
)
def test_a_blank_covers_these_pieces(tokenizer, text, blank, gold):
    cloze = parse_cloze(text, tokenizer, blanks=[blank])
    assert tokenizer.convert_ids_to_tokens(list(cloze.gold)) == gold
    assert cloze.filled(cloze.gold) == tokenizer(text)["input_ids"]
    assert {cloze.ids[place] for place in cloze.positions} == {tokenizer.mask_token_id}


def test_blanks_keep_the_order_they_are_given_in():
    text = "the cat sat unhappy on a mat"
    cloze = parse_cloze(text, word_piece(), blanks=[(20, 28), 2, (8, 19)])
    assert cloze.positions == (6, 7, 8, 2, 3, 4, 5)
    assert cloze.blank_widths == (3, 1, 3)
    assert cloze.positions_by_blank == ((6, 7, 8), (2,), (3, 4, 5))
    assert [text[slice(*span)] for span in cloze.spans] == ["on a mat", "cat", "sat unhappy"]
    assert cloze.filled(cloze.gold) == word_piece()(text)["input_ids"]
    with pytest.raises(ValueError, match="shorter"):
        cloze.filled(cloze.gold[:1])


def test_blanks_of_one_position_each_have_no_widths():
    assert parse_cloze(TEXT, word_piece(), blanks=[2, (8, 11)]).widths is None
    adjacent = parse_cloze("the [MASK][MASK] sat", word_piece())
    assert adjacent.widths is None
    assert adjacent.blank_widths == (1, 1)
    assert adjacent.positions_by_blank == ((2,), (3,))


def test_one_byte_of_a_character_has_no_characters_of_its_own():
    assert parse_cloze("the日", byte_level(), blanks=[(3, 4)]).spans == ((3, 4),)
    cloze = parse_cloze("the 日", byte_level(), blanks=[4])
    assert byte_level().convert_ids_to_tokens(list(cloze.gold)) == ["Ĺ"]
    assert cloze.spans is None


@pytest.mark.parametrize("tokenizer", [sentence_piece(), byte_level()])
def test_a_word_that_begins_with_a_lone_space_is_masked_as_if_a_mask_stood_there(tokenizer):
    cloze = parse_cloze("the 日 man", tokenizer, blanks=["日"])
    typed = parse_cloze(f"the {tokenizer.mask_token} man", tokenizer)
    assert cloze.one_token_each().ids == typed.ids


# --- what is refused ---------------------------------------------------------------------------

INSIDE = "occurs only inside other words, at"
THERE = "does not occur in the text; a blank is a word as written"
EMPTY = "a blank is an empty word; give a word of the text or a span (start, end)"
OUTSIDE = "does not lie in the text, which has 23 characters"
REFUSED = [
    ("cats, a_cat", "cat", f"'cat' {INSIDE} 0:3, 8:11; give a span if that is meant"),
    # an accent written apart belongs to its word
    ("the cafe\u0301", "cafe", f"'cafe' {INSIDE} 4:8; give a span if that is meant"),
    ("日本日", "日", "'日' occurs 2 times, at 0:1, 2:3; give one of these spans"),
    (
        "the cat saw the cat",
        "the cat",
        "'the cat' occurs 2 times, at 0:7, 12:19; give one of these spans",
    ),
    ("a a a", "a a", "'a a' occurs 2 times, at 0:3, 2:5; give one of these spans"),
    (
        "a " * 99,
        "a",
        "'a' occurs 99 times, at 0:1, 2:3, 4:5, 6:7, 8:9, 10:11, ...; give one of these spans",
    ),
    (TEXT, "Cat", f"'Cat' {THERE}"),
    (TEXT, "\ud83d\n", f"'\\ud83d' {THERE}"),
    (TEXT, "", EMPTY),
    (TEXT, " \n", EMPTY),
    (TEXT, (4, 6), "span 4:6, 'ca', is a part of the token 'cat' at 4:7"),
    (TEXT, (4, 10), "span 4:10, 'cat sa', holds a part of the token 'sat' at 8:11"),
    (TEXT, (5, 11), "span 5:11, 'at sat', holds a part of the token 'cat' at 4:7"),
    ("an unhappy", (3, 9), "span 3:9, 'unhapp', holds a part of the token 'happy' at 5:10"),
    *((TEXT, span, f"span {span[0]}:{span[1]} {OUTSIDE}") for span in [(4, 99), (-1, 3), (7, 4)]),
    *((TEXT, span, f"span {span[0]}:{span[1]} {OUTSIDE}") for span in [(30, 40), (5, 5), (0, 0)]),
    (TEXT, (3, 4), "span 3:4, ' ', covers no token"),
    *((TEXT, n, f"there is no token {n}; the text has tokens 0 to 8") for n in (-1, 9, 10**6)),
    (TEXT, 0, "token 0 is the special token '[CLS]', which cannot be a blank"),
    ("the [PAD] cat", (4, 9), "token 2 is the special token '[PAD]', which cannot be a blank"),
    # BERT's normaliser drops control characters, so only special tokens are left
    ("\x00\u200b", 1, "token 1 is the special token '[SEP]', which cannot be a blank"),
    (
        "The [MASK] sat.",
        (11, 14),
        "the text already holds 1 [MASK]; give blanks or mask tokens, not both",
    ),
]


@pytest.mark.parametrize(("text", "blank", "message"), REFUSED)
def test_a_blank_that_is_refused(text, blank, message):
    assert refusal(text, blanks=[blank]) == message


def test_what_the_text_holds_cannot_break_the_line_of_a_refusal():
    message = refusal("un\u202ehappy\x1b[31m \x00cat", blanks=[(0, 17)])
    assert "\\u202e" in message
    assert "\\x1b[31m" in message


@pytest.mark.parametrize(
    "blanks", [[2, 2], [(4, 7), (4, 7)], [(4, 7), (3, 8)], [(4, 7), 2], [(4, 11), "cat sat"]]
)
def test_overlapping_blanks(blanks):
    name = f"'{blanks[1]}'" if isinstance(blanks[1], str) else blanks[1]
    assert refusal(TEXT, blanks=blanks) == f"blanks overlap: {name} names token 2 again"


WRONG = [None, 1.0, float("nan"), True, {}, {4: 7}, {4, 7}, b"ab", object()]
WRONG_ENDS = [(4,), (4, 7, 9), (4, 7.0), (4, None), (True, 2), [(4, 7)], ((4, 7), (8, 11))]


@pytest.mark.parametrize("junk", [*WRONG, *WRONG_ENDS])
def test_blanks_of_the_wrong_type(junk, tmp_path):
    start = "a blank is a token index, a span (start, end) or a word of the text, not "
    assert refusal(TEXT, blanks=[junk]).startswith(start)
    # and before it is said that offsets are missing
    assert refusal("A C D", without_offsets(tmp_path), blanks=["C", junk]).startswith(start)


@pytest.mark.parametrize("junk", ["2", "4:7", b"\x02", 2, 2.0, True, {2: 3}, {2}, iter([2])])
def test_blanks_that_are_no_list(junk):
    start = "blanks is a list of spans, words or token indices, not "
    assert refusal(TEXT, blanks=junk).startswith(start)


def test_no_blanks_at_all():
    assert refusal(TEXT, blanks=[]) == refusal(TEXT, blanks=())
    assert refusal(TEXT, blanks=[]).startswith("blanks is empty;")


def test_numbers_too_long_to_write_out():
    # Python refuses to print integers of more than 4300 digits
    huge = 10**5000
    for blanks in ([huge], [(0, huge)], [-huge], [(huge, 1.0)]):
        assert "that cannot be shown>" in refusal(TEXT, blanks=blanks)


@pytest.mark.parametrize(
    ("text", "tokenizer", "message"),
    [
        (TEXT, WORD, "write [MASK] where a token is missing, or name the words to blank"),
        ("\x00\u200b", WORD, "write [MASK] where a token is missing, or name the words to blank"),
        ("A [MASK].", BYTES, "the text has '[MASK]', but this model writes blanks as <mask>"),
        ("A <mask>.", WORD, "the text has '<mask>', but this model writes blanks as [MASK]"),
        ("A <|mask|>.", WORD, "the text has '<|mask|>', but this model writes blanks as [MASK]"),
        ("A ___.", BYTES, "the text has '___', but this model writes blanks as <mask>"),
    ],
)
def test_a_text_without_a_blank_says_how_to_write_one(text, tokenizer, message):
    assert refusal(text, tokenizer) == f"no blank: {message}"


def test_a_tokenizer_without_offsets_takes_masks_and_indices_but_no_spans(tmp_path):
    tokenizer = without_offsets(tmp_path)
    assert parse_cloze("A C <mask> D", tokenizer).positions == (3,)
    assert parse_cloze("A C D", tokenizer, blanks=[2]).gold == (tokenizer.get_vocab()["C"],)
    for blanks in ([(2, 3)], [1, (2, 3)], ["C"]):
        message = refusal("A C D", tokenizer, blanks=blanks)
        assert message.startswith("this tokenizer keeps no character offsets; give blanks as token")
        assert message.endswith("or write <mask> into the text")


@pytest.mark.parametrize("text", [None, 5, b"The [MASK]", ["The [MASK]"], ("[MASK]",), True])
def test_a_text_that_is_not_a_string(text):
    several = "; give several texts one by one" if isinstance(text, list | tuple) else ""
    assert refusal(text) == f"a text is a string, not {type(text).__name__}{several}"


def test_a_text_that_cannot_be_read():
    assert refusal("[MASK] cat " * 5, max_length=8) == (
        "the text has 12 tokens; this model takes at most 8"
    )
    assert len(parse_cloze("[MASK] cat " * 3, word_piece(), max_length=8)) == 8
    assert {refusal(text) for text in ("", " ", "\n\t \u3000")} == {"the text is empty"}
    message = refusal("The [MASK] \ud83d sat")
    assert message.startswith("the text holds half of a surrogate pair at character 11;")
    # both halves are still two lone surrogates to Python, not one character
    assert "surrogate" in refusal("The [MASK] \ud83d\ude00")
    message = refusal("dog", without_unknown())
    assert message.startswith("the tokenizer cannot read the text: 'WordLevel error: Missing [UNK]")
