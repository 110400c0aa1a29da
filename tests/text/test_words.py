"""Candidates given as words: which pieces they are where, and what is refused how."""

import pytest
from sentence_piece import sentence_piece
from tiny_tokenizers import byte_level, without_offsets, word_piece
from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from toy_lm import ToyTokenizer
from transformers import PreTrainedTokenizerFast

from unmask import Cloze
from unmask.errors import ClozeError, SupportError
from unmask.text.cloze import parse_cloze
from unmask.text.word_pieces import Candidate, pieces_in_context
from unmask.text.words import every_word


def names(tokenizer, text: str, word, blank: int = 0, **options) -> list[str]:
    cloze = parse_cloze(text, tokenizer, **options)
    (candidate,) = pieces_in_context(tokenizer, cloze, blank, [word])
    return tokenizer.convert_ids_to_tokens(list(candidate.ids))


def refusal(words, text: str = "the [MASK] sat", tokenizer=None) -> str:
    tokenizer = tokenizer or word_piece()
    with pytest.raises(SupportError) as raised:
        pieces_in_context(tokenizer, parse_cloze(text, tokenizer), 0, words)
    assert str(raised.value).isprintable()
    return str(raised.value)


AFTER_A_SPACE, GLUED, AT_START = "the {} sat", "the{} sat", "{} sat"


@pytest.mark.parametrize(
    ("tokenizer", "context", "word", "expected"),
    [
        (word_piece, AFTER_A_SPACE, "unhappy", ["un", "##happy"]),
        (word_piece, AFTER_A_SPACE, "Cat", ["cat"]),
        (word_piece, AFTER_A_SPACE, "a mat.", ["a", "mat", "."]),
        (word_piece, AFTER_A_SPACE, "日本", ["日", "本"]),
        (word_piece, AT_START, "cats", ["cat", "##s"]),
        # the context would come out as the unknown token: pieces go on instead
        (word_piece, GLUED, "happys", ["##happy", "##s"]),
        (word_piece, GLUED, "happy cat", ["##happy", "cat"]),
        (word_piece, GLUED, " happy", ["happy"]),
        (word_piece, "un{}ly", "happy", ["##happy"]),
        # what follows is a word of its own around a mask: nothing of it goes into the word
        (word_piece, "the {}s", "cat", ["cat"]),
        (word_piece, "{}happy", "un", ["un"]),
        (byte_level, AFTER_A_SPACE, "man", ["Ġman"]),
        (byte_level, AFTER_A_SPACE, " man", ["Ġman"]),
        (byte_level, GLUED, "man", ["man"]),
        (byte_level, GLUED, " man", ["Ġman"]),
        (byte_level, AT_START, "man", ["man"]),
        (byte_level, AT_START, " man", ["Ġman"]),
        (byte_level, " {} sat", "man", ["Ġman"]),
        # the mask swallows all of this white space, and a word has one space
        (byte_level, "the \n {} sat", "man", ["Ġman"]),
        # 'woman' is one piece after a space, and its first half stays as it is around a mask
        (byte_level, "the wo{}", "man", ["man"]),
        (byte_level, GLUED, "日", ["æ", "Ĺ", "¥"]),
        (sentence_piece, AFTER_A_SPACE, "Mán", ["▁man"]),
        (sentence_piece, AT_START, "man", ["▁man"]),
        (sentence_piece, GLUED, "man", ["man"]),
        (sentence_piece, GLUED, " man", ["▁man"]),
        (sentence_piece, "un{}", "able", ["able"]),
        (sentence_piece, "un{}", "able man", ["able", "▁man"]),
    ],
)
def test_a_word_is_the_pieces_that_would_be_typed_there(tokenizer, context, word, expected):
    text = context.format(tokenizer().mask_token)
    assert names(tokenizer(), text, word) == expected


@pytest.mark.parametrize("prepend", ["always", "first"])
def test_no_space_is_put_before_the_rest_of_a_word(prepend):
    assert names(sentence_piece(prepend=prepend), "un[MASK] is", "able") == ["able"]


def test_other_blanks_keep_their_mask():
    text = "The <mask> saw<mask> <mask>"
    assert names(byte_level(), text, "man", 0) == ["Ġman"]
    assert names(byte_level(), text, "man", 1) == ["man"]
    assert names(byte_level(), text, "man", 2) == ["Ġman"]


@pytest.mark.parametrize(
    ("tokenizer", "name"),
    [(word_piece, "##s"), (byte_level, "Ġman"), (sentence_piece, "▁man"), (sentence_piece, "▁")],
)
def test_a_name_with_its_marker_or_an_id_is_one_piece_as_given(tokenizer, name):
    tokenizer = tokenizer()
    token = tokenizer.convert_tokens_to_ids(name)
    for context in ("the {} sat", "the{}"):
        cloze = parse_cloze(context.format(tokenizer.mask_token), tokenizer)
        assert pieces_in_context(tokenizer, cloze, 0, [token]) == [Candidate(name, (token,))]
        if len(name) > 1:
            assert pieces_in_context(tokenizer, cloze, 0, [name]) == [Candidate(name, (token,))]


def test_the_marker_of_another_vocabulary_is_a_letter():
    assert names(sentence_piece(), "the [MASK]", "Ġman") == ["▁", "g", "man"]
    assert names(byte_level(), "the <mask>", "##s") == ["Ġ", "#", "#", "s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["zebra"], "this vocabulary has no pieces for 'zebra', which comes out as '[UNK]'; "),
        (["the zebra"], "this vocabulary has no pieces for 'the zebra', which comes out as"),
        (["[SEP]"], "'[SEP]' holds the special token '[SEP]'; give the id 3 if that is meant"),
        (["a [MASK]"], "'a [MASK]' holds the special token '[MASK]'; give the id 4"),
        (["##zebra"], "'##zebra' is not a token of the vocabulary; write 'zebra' for its pieces"),
        ([""], "'' is not a word: it is empty"),
        ([" \n"], "' \\n' is not a word: it is empty"),
        (["\x00\u200b"], "'\\x00\\u200b' is not a word: the tokenizer makes no piece of it here"),
        (["cat "], "'cat ' has white space around it; one space before a word"),
        (["  cat"], "'  cat' has white space around it"),
        (["\tcat"], "'\\tcat' has white space around it"),
        (["\ud83d"], "'\\ud83d' holds half of a surrogate pair"),
        ([-1], "token id -1 is not in the vocabulary"),
        ([10**6], "token id 1000000 is not in the vocabulary"),
        ([10**5000], "token id <int that cannot be shown> is not in the vocabulary"),
        ([None], "a candidate is a word or a token id, not None"),
        ([True], "a candidate is a word or a token id, not True"),
        ([1.5], "a candidate is a word or a token id, not 1.5"),
        ([b"cat"], "a candidate is a word or a token id, not b'cat'"),
    ],
)
def test_what_is_refused(words, said):
    assert refusal(words).startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Cat", "dog", "cat"], "'Cat' and 'cat' are the same here, 'cat'; give one"),
        (["unhappy", "Unhappy"], "'unhappy' and 'Unhappy' are the same here, 'un', '##happy'; "),
        (["cat", "cat"], "the candidate 'cat' is given twice; give each once"),
        (["cat", " cat"], "'cat' and ' cat' are the same here"),
    ],
)
def test_two_words_of_the_same_pieces(words, said):
    assert refusal(words).startswith(said)


def without_unknown_characters() -> PreTrainedTokenizerFast:
    """A BPE that drops what it does not know, without a word."""
    vocabulary = {name: i for i, name in enumerate(("m", "a", "n", "ma", "<mask>"))}
    backend = Backend(models.BPE(vocabulary, [("m", "a")]))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=backend, mask_token=mask)


def test_a_part_of_a_word_is_not_returned_for_it():
    tokenizer = without_unknown_characters()
    assert names(tokenizer, "man <mask>", "man") == ["ma", "n"]
    for text in ("man <mask>", "man<mask>"):
        said = refusal(["maxn"], text, tokenizer)
        assert said.startswith("'maxn' cannot be written at this blank: its pieces here do not")
    assert "makes no piece" in refusal(["x"], "man <mask>", tokenizer)


def test_a_word_that_only_stands_without_its_space_is_refused():
    # pieces that cross spaces: after 'a ', the word 'b' has none of its own
    vocabulary = {name: i for i, name in enumerate(("a", "b", " ", " b", "a b", "<mask>"))}
    backend = Backend(models.BPE(vocabulary, [(" ", "b"), ("a", " b")]))
    mask = AddedToken("<mask>", lstrip=True, special=True)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, mask_token=mask)
    assert "'b' cannot be written at this blank" in refusal(["b"], "a <mask>", tokenizer)
    assert names(tokenizer, "b<mask>", "b") == ["b"]


def test_a_contraction_is_not_rewritten_by_the_decoder():
    # BERT's decoder makes "don't" of "do not"
    pieces = {"[UNK]": 0, "[MASK]": 1, "i": 2, "do": 3, "not": 4}
    backend = Backend(models.WordPiece(pieces, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", mask_token="[MASK]"
    )
    assert names(tokenizer, "[MASK]", "i do not") == ["i", "do", "not"]


@pytest.mark.parametrize("blank", ["cat", (4, 7), 2])
def test_a_blank_of_an_ordinary_text(blank):
    text = "the cat sat."
    assert names(word_piece(), text, "unhappy", blanks=[blank]) == ["un", "##happy"]
    assert names(byte_level(), "the man sat.", "woman", blanks=[(4, 7)]) == ["Ġwoman"]


def test_parts_of_one_word_as_blanks():
    # around a mask 'happy' would be a word of its own; with the other part in place it is not
    blanks = [(0, 2), (7, 9)]
    assert names(word_piece(), "unhappyly", "un", 0, blanks=blanks) == ["un"]
    assert names(word_piece(), "unhappyly", "s", 1, blanks=blanks) == ["##s"]
    assert names(word_piece(), "unhappyly", ".", 1, blanks=blanks) == ["."]
    assert names(word_piece(), "unhappyly", " cat", 1, blanks=blanks) == ["cat"]


def test_a_wide_blank_takes_words_of_any_width():
    cloze = parse_cloze("a cat unhappy on a mat", word_piece(), blanks=["unhappy", "cat"])
    for widths in ((2, 1), (1, 1), (3, 2)):
        wide = cloze.with_widths(widths)
        found = pieces_in_context(word_piece(), wide, 0, ["dog", "unhappyly"])
        assert [len(one.ids) for one in found] == [1, 3]


def test_widths_repeat_the_mask():
    cloze = parse_cloze("the [MASK] sat [MASK].", word_piece())
    wide = cloze.with_widths([2, 3])
    assert wide.positions_by_blank == ((2, 3), (5, 6, 7))
    assert {wide.ids[place] for place in wide.positions} == {word_piece().mask_token_id}
    assert wide.with_widths([1, 1]) == cloze
    cloze = parse_cloze("the cat saw a dog.", word_piece(), blanks=["dog", "cat"])
    wide = cloze.with_widths([1, 3])
    assert wide.positions_by_blank == ((7,), (2, 3, 4))
    assert wide.gold is None
    assert cloze.with_widths([1, 1]).gold == cloze.gold


@pytest.mark.parametrize(
    ("text", "words"),
    [("the [MASK] sat [MASK].", ["a cat", "unhappy"]), ("[MASK] [MASK]", ["cat dog", "unhappys"])],
)
def test_pieces_in_widened_blanks_are_the_tokenised_text(text, words):
    tokenizer = word_piece()
    cloze = parse_cloze(text, tokenizer)
    found = [pieces_in_context(tokenizer, cloze, i, [word])[0] for i, word in enumerate(words)]
    wide = cloze.with_widths([len(one.ids) for one in found])
    filled = wide.filled([token for one in found for token in one.ids])
    typed = text.replace("[MASK]", "{}").format(*words)
    assert filled == tokenizer(typed)["input_ids"]


def test_a_cloze_whose_blanks_are_not_in_its_text():
    byte_of_a_character = parse_cloze("the 日", byte_level(), blanks=[4])
    no_text = Cloze("", byte_of_a_character.ids, byte_of_a_character.positions)
    other = parse_cloze("the [MASK] sat", word_piece())
    for tokenizer, cloze in (
        (byte_level(), byte_of_a_character),
        (byte_level(), no_text),
        (byte_level(), other),
    ):
        with pytest.raises(ClozeError, match="the blanks of this cloze cannot be found in its"):
            pieces_in_context(tokenizer, cloze, 0, ["man"])


def test_tokenizers_written_in_python(tmp_path):
    tokenizer = without_offsets(tmp_path)
    assert names(tokenizer, "A C <mask> D", "EA") == ["E", "A"]
    assert names(tokenizer, "A C <mask> D", 4) == ["A"]
    assert "no pieces for 'B'" in refusal(["B"], "A <mask>", tokenizer)
    assert "token id 99 is not in the vocabulary" in refusal([99], "A <mask>", tokenizer)
    toy = ToyTokenizer(4)
    assert names(toy, "t0 [MASK] t1", "t2 t3") == ["t2", "t3"]
    assert names(toy, "t0 [MASK] t1", 3) == ["t3"]
    assert refusal(["t9"], "[MASK]", toy).startswith("the tokenizer cannot read 't9': ")
    assert "token id 9 is not" in refusal([9], "[MASK]", toy)


@pytest.mark.parametrize("tokenizer", [byte_level(), byte_level(trim_offsets=False)])
def test_white_space_is_no_word(tokenizer):
    text = "\nthe  man\n\n\tsaw \n"
    words = every_word(text, tokenizer)
    assert [text[slice(*word)] for word in words] == ["the", "man", "saw"]
    assert parse_cloze(text, tokenizer, blanks=words).spans == tuple(words)


def test_further_spaces_are_no_words_of_a_sentence_piece_vocabulary():
    text = "the  man   is "
    assert every_word(text, sentence_piece()) == [(0, 3), (5, 8), (11, 13)]
