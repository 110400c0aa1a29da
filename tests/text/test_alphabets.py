"""Alphabets by name: found in a vocabulary however it writes letters, or refused in one line."""

import pytest
from tiny_models import build

import unmask
from unmask.errors import SupportError
from unmask.names import ALPHABETS
from unmask.text.candidates import choose
from unmask.text.support import Support

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"


def refusal(name: str, whole: Support) -> str:
    with pytest.raises(SupportError) as raised:
        choose(name, whole, set())
    said = str(raised.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("marker", ["", "Ġ", "▁"])
@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_letters_are_found_in_their_order_however_they_are_written(name, marker, case):
    spelled = [marker + case(letter) for letter in ALPHABETS[name]]
    # backwards, and among others: it is the alphabet's order that counts
    whole = Support.of(["[PAD]", "[MASK]", *reversed(spelled), "AC", "##" + spelled[0]])
    found = choose(name, whole, {0, 1})
    assert list(found.names) == spelled
    assert found.ids.tolist() == [whole.names.index(token) for token in spelled]


def test_upper_case_goes_before_lower():
    assert list(choose("rna", Support.of("acguACGU"), set()).names) == list("ACGU")
    # one upper-case letter that is missing: all are lower, never some
    assert list(choose("rna", Support.of("acguACG"), set()).names) == list("acgu")


def test_letters_with_and_without_a_space_are_not_guessed():
    whole = Support.of([*"ACGT", *(f"Ġ{letter}" for letter in "ACGT")])
    assert refusal("nucleotides", whole) == (
        "this model writes each of 'nucleotides' twice, as 'A' and as 'ĠA'; list the tokens that "
        "you mean"
    )


def test_missing_letters_are_named():
    assert refusal("nucleotides", Support.of("ACU")) == (
        "this model has no token for 'G', 'T' of 'nucleotides'; list the tokens that it has"
    )
    assert refusal("digits", Support.of(["man", "is"])) == (
        "this model has no token for any letter of 'digits': 0123456789"
    )


def test_a_model_of_proteins_has_amino_acids_and_no_digits():
    lm = unmask.load(build("esm"))
    assert list(lm.support("amino-acids").names) == list(RESIDUES)
    joint = lm.joint("M K <mask> L <mask> A", support={0: "amino-acids", 1: ["A", "G"]})
    assert joint.shape == (20, 2)
    with pytest.raises(SupportError, match="no token for any letter of 'digits'"):
        lm.support("digits")
