"""Sequences of residues and mutations of them: read from what a user writes, written for a model.

A mutation is written A42G: the residue that is there, its number counted from 1, the residue that
comes in its place.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from unmask.arguments import whole_number
from unmask.errors import ClozeError, SupportError
from unmask.language_model import LanguageModel
from unmask.printable import quoted
from unmask.text.alphabets import bare_letter
from unmask.text.cloze import Cloze, Tokenizer
from unmask.text.support import Support

# nine digits: more are no position of any sequence, and Python reads no integer of thousands
_MUTATION = re.compile(r"([A-Za-z])([0-9]{1,9})([A-Za-z])")


@dataclass(frozen=True)
class Mutation:
    """One residue in another's place; positions count from 1."""

    wildtype: str
    position: int
    mutant: str

    def __str__(self) -> str:
        """As biologists write it."""
        return f"{self.wildtype}{self.position}{self.mutant}"


def check_sequence(sequence: object) -> str:
    """The residues in upper case, without white space; anything but letters is rejected."""
    if not isinstance(sequence, str):
        raise ClozeError(f"a sequence is a string of residues, not {type(sequence).__name__}")
    residues = "".join(sequence.split())
    if not residues:
        raise ClozeError("the sequence is empty")
    for position, letter in enumerate(residues, start=1):
        # before upper(): it makes two letters of one that is not ASCII, and positions move
        if not (letter.isascii() and letter.isalpha()):
            raise ClozeError(
                f"a sequence is letters A to Z; at position {position} it has {quoted(letter)}"
            )
    return residues.upper()


def parse_mutations(mutations: object, residues: str) -> tuple[Mutation, ...]:
    """Mutations of a checked sequence, separated by ":" or ",", in the order of their positions."""
    if not isinstance(mutations, str):
        raise ClozeError(f"mutations are a string such as A42G:L45K, not {quoted(mutations)}")
    found = [_parsed(part.strip(), mutations, residues) for part in re.split("[:,]", mutations)]
    ordered = sorted(found, key=lambda one: one.position)
    for one, other in pairwise(ordered):
        if one.position == other.position:
            raise ClozeError(
                f"{one} and {other} are both at position {one.position}; give each position once"
            )
    return tuple(ordered)


def _parsed(part: str, whole: str, residues: str) -> Mutation:
    read = _MUTATION.fullmatch(part)
    if read is None:
        raise ClozeError(
            f"{quoted(part)} in {quoted(whole)} is not a mutation; write A42G or A42G:L45K"
        )
    one = Mutation(read[1].upper(), int(read[2]), read[3].upper())
    _check_position(one.position, residues, f"{one}: ")
    there = residues[one.position - 1]
    if there != one.wildtype:
        raise ClozeError(
            f"{one}: the sequence has {there} at position {one.position}, not {one.wildtype}"
        )
    if one.mutant == one.wildtype:
        raise ClozeError(f"{one} changes nothing: it puts {one.mutant} where {one.mutant} is")
    return one


def check_positions(positions: object, residues: str) -> list[int]:
    """Two or more positions of a checked sequence, sorted."""
    if isinstance(positions, str | bytes) or not isinstance(positions, Sequence):
        raise ClozeError(f"positions are a list of numbers from 1, not {quoted(positions)}")
    chosen = []
    for given in positions:
        position = whole_number(given)
        if position is None:
            raise ClozeError(f"a position is a number from 1, not {quoted(given)}")
        _check_position(position, residues)
        if position in chosen:
            raise ClozeError(f"positions name {position} twice; give each once")
        chosen.append(position)
    if len(chosen) < 2:
        raise ClozeError(f"pairs need at least two positions, not {len(chosen)}")
    return sorted(chosen)


def _check_position(position: int, residues: str, where: str = "") -> None:
    if not 1 <= position <= len(residues):
        raise ClozeError(
            f"{where}there is no position {quoted(position)}; the sequence has 1 to {len(residues)}"
        )


# --- what a model reads ------------------------------------------------------------------------


def residue_cloze(lm: LanguageModel, residues: str, positions: Sequence[int]) -> Cloze:
    """A checked sequence as the model's tokenizer wants it, with blanks at these positions.

    Whether residues stand apart ("E V Q", as ProtBert has it) or together ("EVQ", as ESM), and in
    which case, is found by trying; only one token per residue is accepted.
    """
    for cased in (residues, residues.lower()):
        for text in (cased, " ".join(cased)):
            start = _first_residue(lm.tokenizer, text, residues)
            if start is not None:
                return lm.cloze(text, blanks=[start + position - 1 for position in positions])
    raise ClozeError(_unreadable(lm, residues))


def _first_residue(tokenizer: Tokenizer, text: str, residues: str) -> int | None:
    """The index of the first residue's token, if every residue is one."""
    try:
        ids = tokenizer(text, verbose=False)["input_ids"]
    except Exception:  # a vocabulary without an unknown token fails on an unknown word
        return None
    letters = [bare_letter(name) for name in tokenizer.convert_ids_to_tokens(list(ids))]
    starts = range(len(letters) - len(residues) + 1)
    return next((i for i in starts if letters[i : i + len(residues)] == list(residues)), None)


def _unreadable(lm: LanguageModel, residues: str) -> str:
    known = {bare_letter(name) for name in lm.support("vocabulary").names}
    for position, letter in enumerate(residues, start=1):
        if letter not in known:
            return f"this model has no token for residue {letter}, at position {position}"
    return "this tokenizer has no single token per residue; use a model of proteins, DNA or RNA"


def residue_tokens(
    lm: LanguageModel, letters: Sequence[str], cloze: Cloze, axis: Support
) -> list[int]:
    """Ids of residues for the blanks, spelled (case, space marker) as what the blanks cover."""
    assert cloze.gold is not None
    ids = dict(zip(axis.names, axis.ids.tolist(), strict=True))
    names = lm.tokenizer.convert_ids_to_tokens(list(cloze.gold))
    spelled = [
        name[:-1] + (letter.lower() if name[-1].islower() else letter)
        for name, letter in zip(names, letters, strict=True)
    ]
    for name in spelled:
        if name not in ids:
            some = ", ".join(map(quoted, axis.names[:30])) + ", ..." * (len(axis) > 30)
            raise SupportError(f"residue {quoted(name)} is not in the support, which has {some}")
    return [ids[name] for name in spelled]
