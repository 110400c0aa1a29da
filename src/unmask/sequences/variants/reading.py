"""What a variant says: its mutations, and the wild type as the model reads it.

The wild type is given, or comes of the variant's own sequence with its mutations undone. What
cannot be read raises a `ClozeError` or `SupportError` of one sentence; the model does not run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from unmask.errors import ClozeError, SupportError, UnmaskError
from unmask.printable import quoted
from unmask.queries.joint_model import JointModel, read_cloze
from unmask.sequences.residues import Mutation, parse_mutations, written_mutations
from unmask.sequences.variants import MUTANT, MUTATED_SEQUENCE
from unmask.text.alphabets import bare_letter
from unmask.text.candidates import Candidates
from unmask.text.cloze import Cloze
from unmask.text.residues import check_position, check_sequence, spelled_residues


@dataclass(frozen=True, eq=False)
class Frame:
    """A wild type, or the window of it that the model reads: one token per residue.

    Places count residues from 0 at the frame's first, whose position in the whole sequence is
    `first`. Letters are spelled (case, space marker) as the residue that is there: `spellings` has
    the ids of all `letters` by way of spelling, -1 where there is none, and `spelled` the way at
    every place.
    """

    residues: str
    first: int
    ids: NDArray[np.int64]
    start: int
    letters: str
    spellings: NDArray[np.int64]
    spelled: NDArray[np.int16]

    def token(self, place: int, letter: int) -> int:
        """The id that a letter has at a place."""
        return int(self.spellings[self.spelled[place], letter])

    def tokens_at(self, places: Sequence[int]) -> NDArray[np.int64]:
        """The ids of all letters at some places."""
        tokens: NDArray[np.int64] = self.spellings[self.spelled[list(places)]]
        return tokens

    @property
    def cloze(self) -> Cloze:
        """The frame as a cloze, to estimate what reading it costs."""
        return Cloze("", tuple(self.ids.tolist()), (self.start,))

    def __len__(self) -> int:
        """How many residues there are."""
        return len(self.residues)


@dataclass(frozen=True)
class Change:
    """A mutation where its frame has it: a place, and letters by their numbers."""

    place: int
    wildtype: int
    mutant: int


@dataclass(frozen=True)
class Variant:
    """Mutations of a wild type, in the order of their positions."""

    mutations: tuple[Mutation, ...]
    frame: Frame
    is_window: bool = False

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The mutations as the frame has them."""
        number = self.frame.letters.index
        return tuple(
            Change(one.position - self.frame.first, number(one.wildtype), number(one.mutant))
            for one in self.mutations
        )

    @property
    def window(self) -> tuple[int, int] | None:
        """The first and the last position that the model reads; None where it is all of them."""
        first, residues = self.frame.first, len(self.frame)
        return (first, first + residues - 1) if self.is_window else None


class VariantReader:
    """Reads variants for one model; variants of one wild type share its frames."""

    def __init__(
        self, lm: JointModel, sequence: object = None, support: Candidates | None = "amino-acids"
    ) -> None:
        self._lm = lm
        self._wildtype = None if sequence is None else check_sequence(sequence)
        # without a support, any letter that the model has
        names = ascii_uppercase if support is None else lm.support(support).names
        self._allowed = dict.fromkeys(map(bare_letter, names))
        whole = lm.support("vocabulary")
        self._ids = dict(zip(whole.names, whole.ids.tolist(), strict=True))
        self._frames: dict[tuple[str, int, int], Frame] = {}
        self._room: dict[str, int | None] = {}

    def forget(self) -> None:
        """Let go of the frames: windows of a long sequence are as many as its variants."""
        self._frames.clear()

    def read_or_reason(self, given: object) -> Variant | str:
        """A variant, or why there is none."""
        try:
            return self.read(given)
        except UnmaskError as error:
            return str(error)

    def read(self, given: object) -> Variant:
        """A variant: "A24G:K31R", or a mapping with `mutant` and perhaps `mutated_sequence`."""
        mutant: object = given
        mutated: object = None
        if isinstance(given, Mapping):
            if MUTANT not in given:
                raise ClozeError(f"a variant has a {quoted(MUTANT)} such as A24G:K31R")
            mutant, mutated = given[MUTANT], given.get(MUTATED_SEQUENCE)
        if isinstance(mutant, str) and not mutant.strip():
            raise ClozeError("there is no mutation; write A24G or A24G:K31R")
        wildtype, mutations = self._mutations(mutant, mutated)
        for letter in (letter for one in mutations for letter in (one.wildtype, one.mutant)):
            if letter not in self._allowed:
                raise SupportError(
                    f"residue {letter} is not in the support, which has {''.join(self._allowed)}"
                )
        return self._framed(wildtype, mutations)

    def _mutations(self, mutant: object, mutated: object) -> tuple[str, tuple[Mutation, ...]]:
        if self._wildtype is None:
            if _is_missing(mutated):
                raise ClozeError(
                    f"there is no wild type: give one, or a {quoted(MUTATED_SEQUENCE)} with the "
                    "variant"
                )
            wildtype = _undone(written_mutations(mutant), check_sequence(mutated))
            return wildtype, parse_mutations(mutant, wildtype)
        mutations = parse_mutations(mutant, self._wildtype)
        if not _is_missing(mutated):
            _check_same(self._wildtype, mutations, check_sequence(mutated))
        return self._wildtype, mutations

    # --- what the model reads of it ------------------------------------------------------------

    def _framed(self, wildtype: str, mutations: tuple[Mutation, ...]) -> Variant:
        first, length = self._window(wildtype, mutations)
        key = wildtype, first, length
        if key not in self._frames:
            self._frames[key] = self._frame(wildtype[first - 1 : first - 1 + length], first)
        frame = self._frames[key]
        variant = Variant(mutations, frame, is_window=length < len(wildtype))
        for one, change in zip(mutations, variant.changes, strict=True):
            for letter in (change.wildtype, change.mutant):
                if frame.token(change.place, letter) < 0:
                    raise SupportError(
                        f"{one}: this model has no token for residue {frame.letters[letter]}"
                    )
        return variant

    def _window(self, wildtype: str, mutations: Sequence[Mutation]) -> tuple[int, int]:
        """The first position and the number of residues that fit, around the mutations."""
        room = self._room_for(wildtype)
        if room is None or len(wildtype) <= room:
            return 1, len(wildtype)
        low, high = mutations[0].position, mutations[-1].position
        if high - low >= room:
            raise ClozeError(
                f"{mutations[0]} and {mutations[-1]} are {high - low + 1:,} residues apart, and "
                f"the model reads {room:,} at a time"
            )
        first = (low + high + 1) // 2 - room // 2
        return min(max(1, first), len(wildtype) - room + 1), room

    def _room_for(self, wildtype: str) -> int | None:
        """How many residues the model reads at a time."""
        if (most := self._lm.max_length) is None:
            return None
        if wildtype not in self._room:
            # what the tokenizer adds to a sequence it adds to a piece of it
            piece = wildtype[:8]
            ids = self._lm.tokenizer(self._spelled(piece)[0], verbose=False)["input_ids"]
            self._room[wildtype] = max(1, most - (len(ids) - len(piece)))
        return self._room[wildtype]

    def _spelled(self, residues: str) -> tuple[str, int]:
        return spelled_residues(self._lm.tokenizer, residues, list(self._ids))

    def _frame(self, residues: str, first: int) -> Frame:
        text, start = self._spelled(residues)
        cloze = read_cloze(self._lm, text, blanks=[start])
        assert cloze.gold is not None
        ids = np.array(cloze.ids, dtype=np.int64)
        ids[start] = cloze.gold[0]
        names = self._lm.tokenizer.convert_ids_to_tokens(
            [int(token) for token in ids[start : start + len(residues)]]
        )
        letters = "".join(sorted({*self._allowed, *residues}))
        ways = {name: self._tokens_like(name, letters) for name in dict.fromkeys(names)}
        distinct = list(dict.fromkeys(ways.values()))
        spelled = np.array([distinct.index(ways[name]) for name in names], dtype=np.int16)
        return Frame(residues, first, ids, start, letters, np.array(distinct), spelled)

    def _tokens_like(self, name: str, letters: str) -> tuple[int, ...]:
        cased = letters.lower() if name[-1].islower() else letters
        return tuple(self._ids.get(name[:-1] + letter, -1) for letter in cased)


def _is_missing(value: object) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _undone(mutations: Sequence[Mutation], mutated: str) -> str:
    """The wild type behind a variant's own sequence."""
    residues = list(mutated)
    for one in mutations:
        check_position(one.position, mutated, f"{one}: ")
        there = mutated[one.position - 1]
        if there != one.mutant:
            raise ClozeError(
                f"{one}: the {MUTATED_SEQUENCE} has {there} at position {one.position}, not "
                f"{one.mutant}"
            )
        residues[one.position - 1] = one.wildtype
    return "".join(residues)


def _check_same(wildtype: str, mutations: Sequence[Mutation], mutated: str) -> None:
    expected = list(wildtype)
    for one in mutations:
        expected[one.position - 1] = one.mutant
    if len(mutated) != len(expected):
        raise ClozeError(
            f"the {MUTATED_SEQUENCE} has {len(mutated):,} residues, and the wild type "
            f"{len(wildtype):,}"
        )
    for position, (left, there) in enumerate(zip(expected, mutated, strict=True), start=1):
        if left != there:
            raise ClozeError(
                f"the {MUTATED_SEQUENCE} has {there} at position {position}, where the mutations "
                f"leave {left}"
            )
