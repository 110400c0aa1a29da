"""Texts with blanks, read with real tokenizers: what is accepted, and what is refused how."""

import re

import pytest
from sentence_piece import sentence_piece
from tiny_tokenizers import PIECES, byte_level, without_offsets, without_unknown, word_piece

from unmask import Cloze
from unmask.errors import ClozeError
from unmask.text.cloze import parse_cloze

TEXT = "The cat sat on the mat."


def refusal(text, tokenizer=None, **options) -> str:
    with pytest.raises(ClozeError) as raised:
        parse_cloze(text, tokenizer or word_piece(), **options)
    return str(raised.value)


def pieces(cloze: Cloze, tokenizer) -> list[str]:
    return tokenizer.convert_ids_to_tokens(list(cloze.ids))


def test_mask_tokens_are_blanks_from_left_to_right():
    cloze = parse_cloze("The [MASK] sat [MASK] the mat.", word_piece())
    assert cloze.positions == (2, 4)
    assert cloze.gold is None
    assert pieces(cloze, word_piece())[:6] == ["[CLS]", "the", "[MASK]", "sat", "[MASK]", "the"]
    assert len(cloze) == len(cloze.ids) == 9


def test_a_mask_that_owns_the_space_before_it():
    cloze = parse_cloze("The <mask> saw the<mask>.", byte_level())
    assert [cloze.ids[p] for p in cloze.positions] == [byte_level().mask_token_id] * 2
    assert pieces(cloze, byte_level())[1:4] == ["The", "<mask>", "Ġsaw"]


def test_a_text_may_hold_any_number_of_masks():
    # whether a joint takes as many is the language model's question
    assert len(parse_cloze("[MASK] " * 5, word_piece()).positions) == 5


@pytest.mark.parametrize("span", [(4, 7), (3, 7), (4, 8), (3, 8), [4, 7]])
def test_a_span_with_or_without_the_space_around_it(span):
    cloze = parse_cloze(TEXT, word_piece(), blanks=[span])
    assert cloze.positions == (2,)
    assert cloze.gold == (PIECES.index("cat"),)
    assert cloze.ids[2] == word_piece().mask_token_id


@pytest.mark.parametrize("trim_offsets", [True, False])
@pytest.mark.parametrize("span", [(4, 7), (3, 7), (3, 8)])
def test_a_byte_level_piece_owns_the_space_before_it(span, trim_offsets):
    tokenizer = byte_level(trim_offsets=trim_offsets)
    cloze = parse_cloze("The man saw the dog.", tokenizer, blanks=[span])
    assert tokenizer.convert_ids_to_tokens(list(cloze.gold)) == ["Ġman"]


def test_spans_count_characters_not_bytes():
    tokenizer = byte_level()
    cloze = parse_cloze("日本 𝔘 the man", tokenizer, blanks=[(9, 12)])
    assert tokenizer.convert_ids_to_tokens(list(cloze.gold)) == ["Ġman"]


def test_token_indices_count_the_special_tokens():
    cloze = parse_cloze(TEXT, word_piece(), blanks=[2])
    assert cloze.positions == (2,)
    assert cloze.gold == (PIECES.index("cat"),)


def test_blanks_keep_the_order_they_are_given_in():
    cloze = parse_cloze(TEXT, word_piece(), blanks=[(19, 22), 2, (8, 11)])
    assert cloze.positions == (6, 2, 3)
    assert [PIECES[i] for i in cloze.gold] == ["mat", "cat", "sat"]
    shown = pieces(cloze, word_piece())
    assert [i for i, piece in enumerate(shown) if piece == "[MASK]"] == [2, 3, 6]


def test_gold_written_back_is_the_plain_text():
    cloze = parse_cloze(TEXT, word_piece(), blanks=((4, 7), (15, 18)))
    assert cloze.filled(cloze.gold) == word_piece()(TEXT)["input_ids"]
    assert cloze.text == TEXT
    with pytest.raises(ValueError, match="shorter"):
        cloze.filled(cloze.gold[:1])


def test_an_unknown_word_may_be_a_blank():
    # [UNK] is among the special ids, but here it stands for an ordinary word of the text
    for blanks in ([(4, 9)], [2]):
        cloze = parse_cloze("the zebra sat", word_piece(), blanks=blanks)
        assert cloze.gold == (PIECES.index("[UNK]"),)


def test_a_piece_of_a_word_may_be_a_blank():
    cloze = parse_cloze("the cats", word_piece(), blanks=[(7, 8)])
    assert PIECES[cloze.gold[0]] == "##s"


def test_a_span_of_several_pieces_is_one_blank_of_that_width():
    cloze = parse_cloze("an unhappy cat", word_piece(), blanks=[(3, 10)])
    assert [PIECES[i] for i in cloze.gold] == ["un", "##happy"]
    assert cloze.positions == (2, 3)
    assert cloze.widths == cloze.blank_widths == (2,)
    assert cloze.positions_by_blank == ((2, 3),)
    assert pieces(cloze, word_piece())[1:5] == ["[UNK]", "[MASK]", "[MASK]", "cat"]
    assert cloze.filled(cloze.gold) == word_piece()("an unhappy cat")["input_ids"]


def test_widths_follow_the_order_of_the_blanks():
    text = "the cat sat unhappy on a mat"
    cloze = parse_cloze(text, word_piece(), blanks=[(20, 28), 2, (8, 19)])
    assert cloze.positions == (6, 7, 8, 2, 3, 4, 5)
    assert cloze.blank_widths == (3, 1, 3)
    assert cloze.positions_by_blank == ((6, 7, 8), (2,), (3, 4, 5))
    assert [text[slice(*span)] for span in cloze.spans] == ["on a mat", "cat", "sat unhappy"]
    assert cloze.filled(cloze.gold) == word_piece()(text)["input_ids"]


def test_blanks_of_one_position_each_have_no_widths():
    assert parse_cloze(TEXT, word_piece(), blanks=[2, (8, 11)]).widths is None
    adjacent = parse_cloze("the [MASK][MASK] sat", word_piece())
    assert adjacent.widths is None
    assert adjacent.blank_widths == (1, 1)
    assert adjacent.positions_by_blank == ((2,), (3,))


def test_the_bytes_of_a_character_are_one_blank():
    cloze = parse_cloze("the日", byte_level(), blanks=[(3, 4)])
    assert byte_level().convert_ids_to_tokens(list(cloze.gold)) == ["æ", "Ĺ", "¥"]
    assert cloze.spans == ((3, 4),)


def test_one_byte_of_a_character_has_no_characters_of_its_own():
    cloze = parse_cloze("the 日", byte_level(), blanks=[4])
    assert byte_level().convert_ids_to_tokens(list(cloze.gold)) == ["Ĺ"]
    assert cloze.spans is None


def test_a_lone_space_inside_a_span_is_a_part_of_it():
    # trimmed offsets give such a piece no characters at all
    cloze = parse_cloze("the 日 man", byte_level(), blanks=[(0, 5)])
    assert byte_level().convert_ids_to_tokens(list(cloze.gold)) == ["the", "Ġ", "æ", "Ĺ", "¥"]


@pytest.mark.parametrize(
    ("tokenizer", "text", "word", "gold"),
    [
        (sentence_piece(), "the saw man", "saw", ["▁", "s", "a", "w"]),
        (sentence_piece(), "saw man", "saw", ["▁", "s", "a", "w"]),
        (sentence_piece(), "the  saw man", "saw", ["▁", "s", "a", "w"]),
        (sentence_piece(), "thesaw man", (3, 6), ["s", "a", "w"]),
        (sentence_piece(), "the man\tman", (8, 11), ["man"]),
        (byte_level(), "the 日 man", "日", ["Ġ", "æ", "Ĺ", "¥"]),
        (byte_level(trim_offsets=False), "the 日 man", "日", ["Ġ", "æ", "Ĺ", "¥"]),
        (byte_level(), "the  man", "man", ["Ġman"]),
    ],
)
def test_a_lone_space_before_a_word_is_its_first_piece(tokenizer, text, word, gold):
    cloze = parse_cloze(text, tokenizer, blanks=[word])
    assert tokenizer.convert_ids_to_tokens(list(cloze.gold)) == gold


@pytest.mark.parametrize("tokenizer", [sentence_piece(), byte_level()])
def test_a_word_that_begins_with_a_lone_space_is_masked_as_if_a_mask_stood_there(tokenizer):
    cloze = parse_cloze("the 日 man", tokenizer, blanks=["日"])
    typed = parse_cloze(f"the {tokenizer.mask_token} man", tokenizer)
    assert cloze.one_token_each().ids == typed.ids


def test_characters_that_the_tokenizer_drops_may_lie_in_a_span():
    for text, span in (("the \x00cat", (4, 8)), ("the ca\x00t\x00 sat", (4, 9))):
        assert parse_cloze(text, word_piece(), blanks=[span]).gold == (PIECES.index("cat"),)


@pytest.mark.parametrize("word", ["cat", " cat", "sat on", "mat."])
def test_a_word_or_phrase_that_occurs_once_is_a_blank(word):
    start = TEXT.index(word.strip())
    by_span = parse_cloze(TEXT, word_piece(), blanks=[(start, start + len(word.strip()))])
    assert parse_cloze(TEXT, word_piece(), blanks=[word]) == by_span


def test_a_word_inside_another_word_does_not_count():
    cloze = parse_cloze("a mat, a cat, a cat_mat", word_piece(), blanks=["cat"])
    assert cloze.spans == ((9, 12),)
    said = refusal("cats, a_cat", blanks=["cat"])
    assert said == (
        "'cat' occurs only inside other words, at 0:3, 8:11; give a span if that is meant"
    )


def test_an_accent_written_apart_belongs_to_its_word():
    assert "only inside other words" in refusal("the cafe\u0301", blanks=["cafe"])


def test_a_script_without_spaces_has_its_words_anywhere():
    assert parse_cloze("日本", word_piece(), blanks=["本"]).gold == (PIECES.index("本"),)
    assert "2 times" in refusal("日本日", blanks=["日"])


def test_a_repeated_word_lists_where_it_stands():
    said = refusal("the cat saw the cat", blanks=["the cat"])
    assert said == "'the cat' occurs 2 times, at 0:7, 12:19; give one of these spans"
    assert refusal("a a a", blanks=["a a"]).startswith("'a a' occurs 2 times")
    assert refusal("a " * 99, blanks=["a"]).endswith("10:11, ...; give one of these spans")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Cat", "'Cat' does not occur in the text; a blank is a word as written"),
        ("\ud83d\n", "'\\ud83d' does not occur in the text; a blank is a word as written"),
        ("", "a blank is an empty word; give a word of the text or a span (start, end)"),
        (" \n", "a blank is an empty word; give a word of the text or a span (start, end)"),
    ],
)
def test_a_word_that_is_not_there(word, said):
    assert refusal(TEXT, blanks=[word]) == said


def test_a_word_that_overlaps_a_span():
    assert (
        refusal(TEXT, blanks=[(4, 11), "sat on"]) == "blanks overlap: 'sat on' names token 3 again"
    )


def test_a_part_of_a_token_names_the_whole_of_it():
    said = refusal(TEXT, blanks=[(4, 6)])
    assert said == "span 4:6, 'ca', is a part of the token 'cat' at 4:7"
    said = refusal(TEXT, blanks=[(4, 10)])
    assert said == "span 4:10, 'cat sa', holds a part of the token 'sat' at 8:11"
    assert "holds a part of the token 'cat' at 4:7" in refusal(TEXT, blanks=[(5, 11)])
    assert "holds a part of the token 'happy' at 5:10" in refusal("an unhappy", blanks=[(3, 9)])


@pytest.mark.parametrize("span", [(4, 99), (-1, 3), (7, 4), (30, 40), (5, 5), (0, 0)])
def test_a_span_outside_the_text_or_empty(span):
    said = refusal(TEXT, blanks=[span])
    assert (
        said
        == f"span {span[0]}:{span[1]} does not lie in the text, which has {len(TEXT)} characters"
    )


def test_a_span_of_white_space_covers_no_token():
    assert refusal(TEXT, blanks=[(3, 4)]) == "span 3:4, ' ', covers no token"


@pytest.mark.parametrize("index", [-1, 9, 10**6])
def test_an_index_outside_the_text(index):
    said = refusal(TEXT, blanks=[index])
    assert said == f"there is no token {index}; the text has tokens 0 to 8"


@pytest.mark.parametrize("blanks", [[2, 2], [(4, 7), (4, 7)], [(4, 7), (3, 8)], [(4, 7), 2]])
def test_overlapping_blanks(blanks):
    said = refusal(TEXT, blanks=blanks)
    assert said == f"blanks overlap: {blanks[1]} names token 2 again"


@pytest.mark.parametrize(("index", "name"), [(0, "[CLS]"), (8, "[SEP]")])
def test_a_special_token_cannot_be_a_blank(index, name):
    said = refusal(TEXT, blanks=[index])
    assert said == f"token {index} is the special token '{name}', which cannot be a blank"


def test_a_special_token_written_into_the_text_cannot_be_a_blank():
    assert "special token '[PAD]'" in refusal("the [PAD] cat", blanks=[(4, 9)])


def test_blanks_and_mask_tokens_together():
    said = refusal("The [MASK] sat.", blanks=[(11, 14)])
    assert said == "the text already holds 1 [MASK]; give blanks or mask tokens, not both"


def test_no_blank_says_how_to_write_one():
    said = refusal(TEXT)
    assert said == "no blank: write [MASK] where a token is missing, or name the words to blank"


@pytest.mark.parametrize(
    ("written", "tokenizer"),
    [
        ("[MASK]", byte_level()),
        ("<mask>", word_piece()),
        ("<|mask|>", word_piece()),
        ("___", byte_level()),
    ],
)
def test_the_spelling_of_another_model_is_named(written, tokenizer):
    said = refusal(f"The {written} sat.", tokenizer)
    own = tokenizer.mask_token
    assert said == f"no blank: the text has '{written}', but this model writes blanks as {own}"


def test_a_tokenizer_without_offsets_takes_masks_and_indices_but_no_spans(tmp_path):
    tokenizer = without_offsets(tmp_path)
    assert parse_cloze("A C <mask> D", tokenizer).positions == (3,)
    assert parse_cloze("A C D", tokenizer, blanks=[2]).gold == (tokenizer.get_vocab()["C"],)
    for blanks in ([(2, 3)], [1, (2, 3)], ["C"]):
        said = refusal("A C D", tokenizer, blanks=blanks)
        assert said.startswith("this tokenizer keeps no character offsets; give blanks as token")
        assert said.endswith("or write <mask> into the text")
        assert "\n" not in said


def test_junk_is_named_before_missing_offsets(tmp_path):
    assert "not 1.5" in refusal("A C D", without_offsets(tmp_path), blanks=["C", 1.5])


def test_too_long():
    said = refusal("[MASK] cat " * 5, max_length=8)
    assert said == "the text has 12 tokens; this model takes at most 8"
    assert len(parse_cloze("[MASK] cat " * 3, word_piece(), max_length=8)) == 8


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_an_empty_text(text):
    assert refusal(text) == "the text is empty"


def test_a_text_of_which_the_tokenizer_keeps_nothing_has_no_blank():
    # BERT's normaliser drops control characters, so only special tokens are left
    assert refusal("\x00\u200b") == refusal(TEXT)
    assert "special token" in refusal("\x00\u200b", blanks=[1])


def test_half_of_a_surrogate_pair():
    said = refusal("The [MASK] \ud83d sat")
    assert said.startswith("the text holds half of a surrogate pair at character 11;")
    # both halves are still two lone surrogates to Python, not one character
    assert "surrogate" in refusal("The [MASK] \ud83d\ude00")


@pytest.mark.parametrize("text", [None, 5, b"The [MASK]", ["The [MASK]"], ("[MASK]",), True])
def test_a_text_that_is_not_a_string(text):
    assert refusal(text) == f"a text is a string, not {type(text).__name__}"


WRONG = [None, 1.0, float("nan"), True, {}, {4: 7}, {4, 7}, b"ab", object()]
WRONG_ENDS = [(4,), (4, 7, 9), (4, 7.0), (4, None), (True, 2), [(4, 7)], ((4, 7), (8, 11))]


@pytest.mark.parametrize("junk", [*WRONG, *WRONG_ENDS])
def test_blanks_of_the_wrong_type(junk):
    said = refusal(TEXT, blanks=[junk])
    assert re.match(
        r"a blank is a token index, a span \(start, end\) or a word of the text, not .+$", said
    )
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("junk", ["2", "4:7", b"\x02", 2, 2.0, True, {2: 3}, {2}, iter([2])])
def test_blanks_that_are_no_list(junk):
    said = refusal(TEXT, blanks=junk)
    assert re.match("blanks is a list of spans, words or token indices, not .+$", said)


def test_no_blanks_at_all():
    assert refusal(TEXT, blanks=[]) == refusal(TEXT, blanks=())
    assert refusal(TEXT, blanks=[]).startswith("blanks is empty;")


def test_numbers_too_long_to_write_out():
    # Python refuses to print integers of more than 4300 digits
    huge = 10**5000
    for blanks in ([huge], [(0, huge)], [-huge], [(huge, 1.0)]):
        assert "that cannot be shown>" in refusal(TEXT, blanks=blanks)


def test_a_tokenizer_that_fails_is_a_refusal():
    said = refusal("dog", without_unknown())
    assert said.startswith("the tokenizer cannot read the text: 'WordLevel error: Missing [UNK]")


def test_what_the_text_holds_cannot_break_the_line_of_a_refusal():
    said = refusal("un\u202ehappy\x1b[31m \x00cat", blanks=[(0, 17)])
    assert said.isprintable()
    assert "\\u202e" in said
    assert "\\x1b[31m" in said
