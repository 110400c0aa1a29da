"""Sequences of residues: checked, and written as a tokenizer wants them. Knows no model."""

from collections.abc import Sequence

from unmask.arguments import whole_number
from unmask.errors import ClozeError
from unmask.printable import quoted
from unmask.text.cloze import Blank, Tokenizer
from unmask.text.support import without_space_marker


def check_positions(positions: Sequence[object], residues: str) -> list[int]:
    """Two or more positions of a checked sequence, sorted."""
    numbers = []
    for value in positions:
        position = whole_number(value)
        if position is None:
            raise ClozeError(f"a place is the number of a residue from 1, not {quoted(value)}")
        if not 1 <= position <= len(residues):
            raise ClozeError(
                f"there is no position {quoted(position)}; the sequence has 1 to {len(residues)}"
            )
        if position in numbers:
            raise ClozeError(f"places name {position} twice; give each once")
        numbers.append(position)
    if len(numbers) < 2:
        raise ClozeError(f"pairs need at least two positions, not {len(numbers)}")
    return sorted(numbers)


def spelled_residues(
    tokenizer: Tokenizer, residues: str, vocabulary: Sequence[str]
) -> tuple[str, int]:
    """A checked sequence as a tokenizer wants it, and the index of the first residue's token.

    Whether residues stand apart ("E V Q", as ProtBert has it) or together ("EVQ", as ESM), and in
    which case, is found by trying; only one token per residue is accepted.
    """
    for cased in (residues, residues.lower()):
        for text in (cased, " ".join(cased)):
            try:
                ids = tokenizer(text, verbose=False)["input_ids"]
            except Exception:  # a vocabulary without an unknown token fails on an unknown word
                continue
            names = tokenizer.convert_ids_to_tokens(list(ids))
            letters = [without_space_marker(name).upper() for name in names]
            for start in range(len(letters) - len(residues) + 1):
                if letters[start : start + len(residues)] == list(residues):
                    return text, start
    letters = [without_space_marker(name).upper() for name in vocabulary]
    for position, letter in enumerate(residues, start=1):
        if letter not in letters:
            raise ClozeError(
                f"this model has no token for residue {letter}, at position {position}"
            )
    raise ClozeError(
        "this tokenizer has no single token per residue; use a model of proteins, DNA or RNA"
    )


def residues_as_blanks(
    tokenizer: Tokenizer,
    sequence: str,
    vocabulary: Sequence[str],
    positions: Sequence[object] | None = None,
) -> tuple[str, list[Blank], list[str]]:
    """A sequence as a tokenizer wants it, the tokens of its residues (or some), and their names.

    A name is the letter with the position, counted from 1: C22.
    """
    residues = "".join(sequence.split())
    for position, letter in enumerate(residues, start=1):
        # before upper(): it makes two letters of one that is not ASCII, and positions move
        if not (letter.isascii() and letter.isalpha()):
            raise ClozeError(
                f"a sequence is letters A to Z; at position {position} it has {quoted(letter)}"
            )
    residues = residues.upper()
    numbers: Sequence[int] = range(1, len(residues) + 1)
    if positions is not None:
        numbers = check_positions(positions, residues)
    text, start = spelled_residues(tokenizer, residues, vocabulary)
    blanks: list[Blank] = [start + position - 1 for position in numbers]
    return text, blanks, [f"{residues[position - 1]}{position}" for position in numbers]
