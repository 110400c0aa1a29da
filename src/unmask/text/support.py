"""The tokens that a blank may take: the axis of a table.

A support is a value: token ids in a fixed order with their names. It does not know where
the ids come from, nor the other axes.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import SupportError
from unmask.lazy import computed_once
from unmask.printable import printable, quoted

Token = str | SupportsIndex  # a vocabulary name, or an id; numpy's integers too

# how byte-level and SentencePiece vocabularies write "a space comes before this piece"
SPACE_MARKERS = ("Ġ", "▁")


def without_space_marker(piece: str) -> str:
    """The characters of a piece."""
    return piece[1:] if piece.startswith(SPACE_MARKERS) else piece


@dataclass(frozen=True, eq=False)
class Support:
    """The tokens that one blank ranges over, in order.

    Examples:
        >>> lm.support("amino-acids")
        Support(20 tokens: 'A', 'C', 'D', ...)
    """

    ids: Int[Tensor, " size"]
    names: Sequence[str]
    # how the tokenizer cuts a word, if known: for errors about words of several pieces
    cut: Callable[[str], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        """Reject axes that are not a set of named tokens."""
        if len(self.ids) != len(self.names):
            raise SupportError(f"a support has {len(self.ids)} ids but {len(self.names)} names")
        if len(self.ids) == 0:
            raise SupportError("a support needs at least one token")
        ids, counts = torch.unique(self.ids, return_counts=True)
        if len(ids) != len(self.ids):
            token_id = int(ids[counts > 1][0])
            name = quoted(self.names[self.place_of_id[token_id]])
            raise SupportError(
                f"a support lists {name}, id {token_id}, twice; give each candidate once"
            )

    @classmethod
    def of(cls, names: Iterable[str]) -> "Support":
        """A support of plain names, numbered from zero."""
        listed = tuple(names)
        return cls(torch.arange(len(listed)), listed)

    def __len__(self) -> int:
        """The number of tokens that the blank may take."""
        return len(self.ids)

    def __repr__(self) -> str:
        """A short form that never prints a whole vocabulary."""
        names = ", ".join(quoted(name) for name in self.names[:3])
        return f"Support({len(self)} tokens: {names}{', ...' if len(self) > 3 else ''})"

    def part(self, places: Sequence[int]) -> "Support":
        """Some of the tokens, in the given order."""
        indices = torch.tensor(places, dtype=torch.long, device=self.ids.device)
        return replace(self, ids=self.ids[indices], names=[self.names[place] for place in places])

    def is_whole(self, vocabulary_size: int) -> bool:
        """True if this is every id of a vocabulary, in its own order."""
        return len(self) == vocabulary_size and bool(
            torch.equal(self.ids.cpu(), torch.arange(vocabulary_size))
        )

    def index(self, token: object) -> int:
        """The place of a token on this axis, by vocabulary name or by id.

        A word that exists both with and without a leading space (`Ġman` and `man`) must be
        given as one or the other: guessing would score the wrong one silently.
        """
        if isinstance(token, str):
            return self._index_of_name(token)
        token_id = whole_number(token)
        if token_id is None:
            raise SupportError(f"a token is a string or an id, not {type(token).__name__}")
        place = self.place_of_id.get(token_id)
        if place is None:
            raise SupportError(
                f"token id {quoted(token_id)} is not among the {len(self)} tokens of this blank"
            )
        return place

    def _index_of_name(self, name: str) -> int:
        places = self._place_of_name
        if name in places and name.startswith(SPACE_MARKERS):
            return places[name]
        word = name.removeprefix(" ")
        spaced = next((m + word for m in SPACE_MARKERS if word and m + word in places), None)
        if name.startswith(" ") and spaced:
            return places[spaced]
        if name in places and spaced:
            raise SupportError(
                f"{quoted(name)} is two tokens here: write {quoted(' ' + name)} for the word after "
                f"a space, or the id {int(self.ids[places[name]])} for the piece without one"
            )
        if name in places or spaced:
            return places[name if name in places else str(spaced)]
        message = f"{quoted(name)} is not one of the {len(self)} tokens of this blank"
        pieces = [] if self.cut is None else self.cut(name)
        if len(pieces) > 1:
            message += (
                f": it is {len(pieces)} pieces of this tokenizer "
                f"({' '.join(map(printable, pieces))}); give such words as targets of fill"
            )
        near = difflib.get_close_matches(name, self._place_of_name, n=3, cutoff=0.7)
        hint = f"; did you mean {' or '.join(quoted(n) for n in near)}?" if near else ""
        raise SupportError(f"{message}{hint}")

    @computed_once
    def named(self) -> list[int]:
        """The places of tokens that are not called by their id, for want of a name."""
        names = enumerate(self.names)
        return [i for i, n in names if not n.startswith("<id ") or n != f"<id {i}>"]

    @computed_once
    def place_of_id(self) -> dict[int, int]:
        """The place of every id on this axis."""
        return {token_id: place for place, token_id in enumerate(self.ids.tolist())}

    @computed_once
    def _place_of_name(self) -> dict[str, int]:
        # reversed, so that the first of two equal names wins
        return {name: len(self) - 1 - i for i, name in enumerate(reversed(self.names))}


def place_at_blank(supports: Sequence[Support], blank: int, token: object) -> int:
    """The place of a token on the axis of its blank; an error names the blank."""
    try:
        return supports[blank].index(token)
    except SupportError as error:
        raise SupportError(f"blank {blank}: {error}") from None
