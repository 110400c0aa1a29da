"""Sequences of residues and mutations of them: read from what a user writes, written for a model.

A mutation is written A42G: the residue that is there, its number counted from 1, the residue that
comes in its place.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from unmask.errors import ClozeError
from unmask.printable import quoted
from unmask.queries.joint_model import JointModel
from unmask.text.cloze import Cloze
from unmask.text.residues import check_position, spelled_residues

# nine digits: more are no position of any sequence, and Python reads no integer of thousands
_MUTATION = re.compile(r"([A-Za-z])([0-9]{1,9})([A-Za-z])")


@dataclass(frozen=True)
class Mutation:
    """One residue in another's place; positions count from 1.

    Examples:
        >>> str(unmask.Mutation("A", 42, "G"))
        'A42G'
    """

    wildtype: str
    position: int
    mutant: str

    def __str__(self) -> str:
        """As biologists write it."""
        return f"{self.wildtype}{self.position}{self.mutant}"

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


def parse_mutations(mutations: object, residues: str) -> tuple[Mutation, ...]:
    """Mutations of a checked sequence, separated by ":" or ",", in the order of their positions."""
    parsed = written_mutations(mutations)
    for one in parsed:
        check_mutation(one, residues)
    return parsed


def written_mutations(mutations: object) -> tuple[Mutation, ...]:
    """The same before a sequence is known: each position once, and nothing else is checked."""
    if not isinstance(mutations, str):
        raise ClozeError(f"mutations are a string such as A42G:L45K, not {quoted(mutations)}")
    parsed = [_written(part.strip(), mutations) for part in re.split("[:,]", mutations)]
    ordered = sorted(parsed, key=lambda one: one.position)
    for one, other in pairwise(ordered):
        if one.position == other.position:
            raise ClozeError(
                f"{one} and {other} are both at position {one.position}; give each position once"
            )
    return tuple(ordered)


def check_mutation(one: Mutation, residues: str) -> None:
    """Reject a mutation that a checked sequence cannot have."""
    check_position(one.position, residues, f"{one}: ")
    there = residues[one.position - 1]
    if there != one.wildtype:
        raise ClozeError(
            f"{one}: the sequence has {there} at position {one.position}, not {one.wildtype}"
        )
    if one.mutant == one.wildtype:
        raise ClozeError(f"{one} changes nothing: it puts {one.mutant} where {one.mutant} is")


def _written(part: str, whole: str) -> Mutation:
    read = _MUTATION.fullmatch(part)
    if read is None:
        raise ClozeError(
            f"{quoted(part)} in {quoted(whole)} is not a mutation; write A42G or A42G:L45K"
        )
    return Mutation(read[1].upper(), int(read[2]), read[3].upper())


# --- what a model reads ------------------------------------------------------------------------


def residue_cloze(lm: JointModel, residues: str, positions: Sequence[int]) -> Cloze:
    """A checked sequence as the model's tokenizer wants it, with blanks at these positions."""
    names = lm.support("vocabulary").names
    text, start = spelled_residues(lm.tokenizer, residues, names)
    return lm.cloze(text, blanks=[start + position - 1 for position in positions])
