"""Which tokens a blank ranges over, and how a token is named without guessing."""

from types import SimpleNamespace

import pytest
import torch
from tiny_tokenizers import PIECES, SPECIAL, byte_level, without_offsets, word_piece

from unmask import Support
from unmask.errors import SupportError
from unmask.tables.proposals import placeholder_axes
from unmask.text.candidates import choose, whole_vocabulary

NAMES = "'vocabulary', 'tokens', 'no-special', 'amino-acids', 'nucleotides', 'rna' or 'digits'"
SPECIAL_IDS = frozenset(range(len(SPECIAL)))
MODEL = SimpleNamespace(special_ids=SPECIAL_IDS)


@pytest.fixture(scope="module")
def whole() -> Support:
    return whole_vocabulary(word_piece(), len(PIECES))


def refusal(function, *arguments) -> str:
    with pytest.raises(SupportError) as raised:
        function(*arguments)
    said = str(raised.value)
    assert said.isprintable()
    return said


def test_a_token_by_name_and_by_id():
    axis = Support(torch.tensor([7, 3, 5]), ["man", "woman", "cat"])
    assert [axis.index(name) for name in axis.names] == [0, 1, 2]
    assert [axis.index(token_id) for token_id in (7, 3, 5)] == [0, 1, 2]
    assert len(axis) == 3
    assert Support.of(name for name in ("x", "y")).ids.tolist() == [0, 1]
    # of two equal names the first; a plain space may be part of a name
    assert Support(torch.tensor([8, 9]), ["same", "same"]).index("same") == 0
    assert [Support.of([" a", "a"]).index(name) for name in (" a", "a")] == [0, 1]


@pytest.mark.parametrize("marker", ["Ġ", "▁"])
def test_a_word_is_found_with_its_leading_space(marker):
    axis = Support.of([f"{marker}man", "dog", f"{marker}woman"])
    assert axis.index("man") == axis.index(" man") == axis.index(f"{marker}man") == 0
    assert axis.index("dog") == 1
    # there is no dog after a space
    assert "' dog' is not one of the 3 tokens" in refusal(axis.index, " dog")


@pytest.mark.parametrize("marker", ["Ġ", "▁"])
def test_a_word_with_and_without_a_space_must_be_told_apart(marker):
    axis = Support(torch.tensor([40, 41]), ["man", f"{marker}man"])
    assert refusal(axis.index, "man") == (
        "'man' is two tokens here: write ' man' for the word after a space, "
        "or the id 40 for the piece without one"
    )
    # both remedies work, and so does the vocabulary's own spelling
    assert axis.index(" man") == axis.index(f"{marker}man") == 1
    assert axis.index(40) == 0


def test_a_marker_is_a_spelling_and_not_a_word():
    # runs of spaces are tokens of some vocabularies
    axis = Support.of(["ĠĠ", "Ġ", "ĠĠĠ"])
    assert [axis.index(name) for name in axis.names] == [0, 1, 2]
    assert "not one of" in refusal(axis.index, " ")
    assert "not one of" in refusal(axis.index, "")


def test_a_byte_level_vocabulary_is_found_by_its_own_names():
    vocabulary = whole_vocabulary(byte_level(), len(byte_level()))
    assert vocabulary.index("Ġdog") == vocabulary.index(" dog") == vocabulary.index("dog")
    assert "is two tokens here" in refusal(vocabulary.index, "man")
    for place, name in enumerate(vocabulary.names):
        if name.startswith("Ġ"):
            assert vocabulary.index(name) == place


NOT_HERE = "is not one of the 3 tokens of this blank"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("womam", f"'womam' {NOT_HERE}; did you mean 'woman'?"),
        ("doggy", f"'doggy' {NOT_HERE}; did you mean 'doggo'?"),
        ("xyzzy", f"'xyzzy' {NOT_HERE}"),
        ("two\nlines", f"'two\\nlines' {NOT_HERE}"),
        *((n, f"token id {n} is not among the 3 tokens of this blank") for n in (-1, 3, 10**9)),
        (
            10**5000,
            "token id <int that cannot be shown> is not among the 3 tokens of this blank",
        ),
        *(
            (token, f"a token is a string or an id, not {type(token).__name__}")
            for token in (True, None, 1.0, b"a", ["a"], ("a",))
        ),
    ],
    ids=lambda value: str(type(value)),
)
def test_a_token_that_is_not_on_the_axis(token, message):
    assert refusal(Support.of(["woman", "doggo", "cat"]).index, token) == message


def test_axes_that_are_no_set_of_named_tokens():
    said = refusal(Support, torch.tensor([4, 7, 4]), ["x", "y\x1b", "x"])
    assert said == "a support lists 'x', id 4, twice; give each candidate once"
    assert "needs at least one token" in refusal(Support.of, [])
    assert "3 ids but 1 names" in refusal(Support, torch.arange(3), ["x"])


def test_repr_never_prints_a_whole_vocabulary(whole):
    assert repr(whole) == "Support(36 tokens: '[PAD]', '[UNK]', '[CLS]', ...)"
    assert repr(Support.of("ab")) == "Support(2 tokens: 'a', 'b')"


def test_a_whole_vocabulary_in_its_own_order(whole):
    assert whole.is_whole(len(PIECES))
    assert tuple(whole.names) == PIECES
    assert not whole.is_whole(len(PIECES) + 1)
    assert not choose(list(range(len(PIECES)))[::-1], whole, SPECIAL_IDS).is_whole(len(PIECES))


def test_outputs_without_a_token_are_named_by_their_ids():
    # an output layer padded to a round size
    padded = whole_vocabulary(word_piece(), len(PIECES) + 2)
    assert padded.names[-2:] == [f"<id {len(PIECES)}>", f"<id {len(PIECES) + 1}>"]
    assert padded.index(f"<id {len(PIECES)}>") == len(PIECES)
    assert choose("vocabulary", padded, SPECIAL_IDS) is padded
    assert choose("tokens", padded, SPECIAL_IDS).ids.tolist() == list(range(len(PIECES)))
    assert max(choose("no-special", padded, SPECIAL_IDS).ids.tolist()) < len(PIECES)


def test_a_tokenizer_in_python_names_no_output_beyond_its_vocabulary(tmp_path):
    # it calls every other id unknown
    padded = whole_vocabulary(without_offsets(tmp_path), 12)
    assert padded.names[3:] == ["<unk>", *"ACDE", "<mask>", "<id 9>", "<id 10>", "<id 11>"]
    assert len(choose("tokens", padded, frozenset())) == 9


def test_named_supports(whole):
    assert choose("vocabulary", whole, SPECIAL_IDS) is whole
    ordinary = choose("no-special", whole, SPECIAL_IDS)
    assert tuple(ordinary.names) == PIECES[len(SPECIAL) :]
    assert ordinary.ids.tolist() == list(range(len(SPECIAL), len(PIECES)))


def test_candidates_by_name_or_id_in_their_order(whole):
    cat, dog = PIECES.index("cat"), PIECES.index("dog")
    for candidates in (["dog", "cat"], ("dog", cat), [dog, cat]):
        chosen = choose(candidates, whole, SPECIAL_IDS)
        assert chosen.ids.tolist() == [dog, cat]
        assert list(chosen.names) == ["dog", "cat"]
    assert choose(range(3), whole, SPECIAL_IDS).ids.tolist() == [0, 1, 2]
    assert choose(chosen, whole, SPECIAL_IDS) is chosen


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ("nouns", f"no support 'nouns'; use {NAMES}, or a list of tokens"),
        (["cat", "zebra"], "'zebra' is not one of the 36 tokens of this blank"),
        (["cat", 99], "token id 99 is not among the 36 tokens of this blank"),
        (["cat", "dog", "cat"], "a support lists 'cat', id 18, twice; give each candidate once"),
        # by name and by id: the same token
        (["cat", 18], "a support lists 'cat', id 18, twice; give each candidate once"),
        ([], "a support needs at least one token"),
        (["cat", None], "a token is a string or an id, not NoneType"),
        *(
            (wrong, f"a support is {NAMES}, or a list of tokens, not {wrong!r}")
            for wrong in (5, None, {"cat"}, b"cat", {0: "cat"})
        ),
    ],
)
def test_candidates_that_are_none(whole, candidates, said):
    assert refusal(choose, candidates, whole, SPECIAL_IDS) == said


@pytest.mark.parametrize("outside", [-1, len(PIECES)])
def test_a_support_made_for_another_model(whole, outside):
    # -1 would be read from the end: the wrong token, silently
    other = Support(torch.tensor([3, outside]), ["x", "y"])
    said = refusal(choose, other, whole, SPECIAL_IDS)
    assert said == f"the support has token id {outside}; this model has 0 to {len(PIECES) - 1}"
    # its ids are numbers of the list: other tokens would be shown under these names
    said = refusal(choose, Support.of(["cat", "mat"]), whole, SPECIAL_IDS)
    assert said == (
        f"the support calls token id 0 'cat', and this model '{PIECES[0]}'; make the support with "
        "lm.support([...])"
    )


def test_supports_by_blank(whole):
    supports = placeholder_axes(MODEL, whole, ["cat", "dog"], 3)
    assert [list(axis.names) for axis in supports] == [["cat", "dog"]] * 3
    first, second = placeholder_axes(MODEL, whole, {1: ["cat", "dog"]}, 2)
    assert first is whole
    assert list(second.names) == ["cat", "dog"]
    first, second = placeholder_axes(MODEL, whole, {1: "no-special", 0: [20]}, 2)
    assert (len(first), len(second)) == (1, len(PIECES) - len(SPECIAL))


@pytest.mark.parametrize("axis", [2, -1, "0", None, "a\nb"])
def test_supports_for_a_blank_that_is_not_there(whole, axis):
    said = refusal(placeholder_axes, MODEL, whole, {axis: ["cat"]}, 2)
    assert said.startswith("support names blank ")
    assert said.endswith("; this text has blanks 0 to 1")


def test_the_support_of_each_blank_is_checked(whole):
    assert "'zebra'" in refusal(placeholder_axes, MODEL, whole, {0: ["zebra"]}, 2)
    assert "{0: " in refusal(placeholder_axes, MODEL, whole, {0: {0: ["cat"]}}, 2)
