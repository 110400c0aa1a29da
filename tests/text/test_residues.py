"""Residues as tokens: sequences and positions that are rejected, and spelling for a tokenizer."""

from collections.abc import Mapping
from typing import Any

import pytest
from tiny_models import build
from toy_lm import ToyTokenizer

import unmask
from unmask.text.residues import check_positions, residues_as_blanks, spelled_residues

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


class Letters(ToyTokenizer):
    """Residues as tokens: apart ("A C D", as ProtBert) or together ("ACD", as ESM)."""

    def __init__(self, letters: str, *, apart: bool) -> None:
        super().__init__(len(letters))
        self.names = [*letters, self.mask_token]
        self.apart = apart

    def __call__(self, text: str, **_: Any) -> Mapping[str, Any]:
        words = text.split() if self.apart else list(text)
        return {"input_ids": [self.names.index(word) for word in words]}


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        ("AC-D", "a sequence is letters A to Z; at position 3 it has '-'"),
        # upper case would make two letters of it
        ("Aß", "a sequence is letters A to Z; at position 2 it has 'ß'"),
    ],
)
def test_sequences_that_are_rejected(sequence: Any, message: str) -> None:
    with pytest.raises(unmask.errors.ClozeError) as raised:
        residues_as_blanks(Letters(LETTERS, apart=True), sequence, LETTERS)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([1], "pairs need at least two positions, not 1"),
        ([1, 4], "there is no position 4; the sequence has 1 to 3"),
        ([1, 2, 1], "places name 1 twice; give each once"),
        ([1, 1.5], "a place is the number of a residue from 1, not 1.5"),
    ],
)
def test_positions_that_are_rejected(positions: Any, message: str) -> None:
    with pytest.raises(unmask.errors.ClozeError) as raised:
        check_positions(positions, "WCA")
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("letters", "apart", "text"),
    [
        (LETTERS, True, "W C A"),
        (LETTERS, False, "WCA"),
        (LETTERS.lower(), True, "w c a"),
        (LETTERS.lower(), False, "wca"),
    ],
)
def test_residues_are_spelled_as_the_tokenizer_has_them(
    letters: str, apart: bool, text: str
) -> None:
    tokenizer = Letters(letters, apart=apart)
    assert spelled_residues(tokenizer, "WCA", letters) == (text, 0)
    asked = residues_as_blanks(tokenizer, "w c\na", letters, [3, 1])
    assert asked == (text, [0, 2], ["W1", "A3"])


def test_a_residue_without_a_token_is_named() -> None:
    with pytest.raises(unmask.errors.ClozeError) as raised:
        spelled_residues(Letters(LETTERS, apart=True), "WXA", LETTERS)
    assert str(raised.value) == "this model has no token for residue X, at position 2"


def test_a_model_of_texts_is_rejected() -> None:
    lm = unmask.load(build("roberta"))
    # it has all these letters, but makes one piece of them
    with pytest.raises(unmask.errors.ClozeError, match="no single token per residue"):
        spelled_residues(lm.tokenizer, "THE", lm.support("vocabulary").names)


@pytest.mark.slow
@pytest.mark.parametrize("sequence", ["MKALWYA", "m k a l w y a"])
def test_the_tiny_esm_reads_residues_together(sequence: str) -> None:
    lm = unmask.load(build("esm"))
    names = lm.support("vocabulary").names
    text, blanks, places = residues_as_blanks(lm.tokenizer, sequence, names, [3, 7])
    cloze = lm.cloze(text, blanks=blanks)
    assert cloze.positions == (3, 7)  # one token in front
    assert lm.tokenizer.convert_ids_to_tokens(list(cloze.gold)) == ["A", "A"]
    assert places == ["A3", "A7"]
