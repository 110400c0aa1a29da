"""Forward passes of many variants: collected, each run once, and looked up by what they hold.

A row is a frame with some residues changed and some masked. A row with masks is read at all of
them; one without is read wherever it was requested.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.model.batches import longest_first
from unmask.model.hooks import without_gradients
from unmask.sequences.pll import TOKENS_PER_CHUNK, TokenReader
from unmask.sequences.variants.reading import Frame

# places and the letters that they change to, in the order of places
Changed = tuple[tuple[int, int], ...]
Vector = NDArray[np.float64]


class Row(NamedTuple):
    """One input of the model."""

    frame: Frame
    changed: Changed = ()
    masked: tuple[int, ...] = ()


# the log-probability of a letter at a place of a row
LogProb = Callable[[Row, int, int], float]


class Requests:
    """The rows that are wanted: collected, and counted."""

    def __init__(self) -> None:
        self.places: dict[Row, set[int]] = {}

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.places)

    def log_prob(self, row: Row, place: int, letter: int) -> float:
        """A `LogProb` that notes what is requested; the number stands for nothing."""
        found = self.places.setdefault(row, set())
        if not row.masked:
            found.add(place)
        return 0.0

    def add(self, rows: Iterable[Row]) -> None:
        """Request masked rows."""
        for row in rows:
            self.places.setdefault(row, set())

    def update(self, other: "Requests") -> None:
        """Request what another does."""
        for row, places in other.places.items():
            self.places.setdefault(row, set()).update(places)


class Answers:
    """The log-probabilities of all letters at the places that were read."""

    def __init__(self) -> None:
        self._found: dict[Row, tuple[tuple[int, ...], NDArray[np.float64]]] = {}

    def keep(self, row: Row, places: tuple[int, ...], values: NDArray[np.float64]) -> None:
        """What was read of a row, a line per place."""
        self._found[row] = places, values

    def at(self, row: Row, place: int) -> Vector:
        """The log-probabilities of all letters at one place."""
        places, values = self._found[row]
        found: Vector = values[bisect_left(places, place)]
        return found

    def log_prob(self, row: Row, place: int, letter: int) -> float:
        """A `LogProb`."""
        return float(self.at(row, place)[letter])


@without_gradients
def run_rows(reader: TokenReader, requests: Requests) -> Answers:
    """Run every row once, in batches of equal length."""
    rows = [(row, row.masked or tuple(sorted(places))) for row, places in requests.places.items()]
    answers = Answers()
    reader.expect(len(rows))
    sizes = (
        (number, (len(row.frame.ids), len(places), len(row.frame.letters)))
        for number, (row, places) in enumerate(rows)
    )
    for (length, read, letters), members in longest_first(sizes):
        for some in row_blocks(len(members), max(length, read * letters), TOKENS_PER_CHUNK):
            chosen = [rows[number] for number in members[some]]
            values = _log_probs(reader, chosen).numpy()
            for (row, places), mine in zip(chosen, values, strict=True):
                answers.keep(row, places, mine)
    return answers


def _log_probs(
    reader: TokenReader, rows: Sequence[tuple[Row, tuple[int, ...]]]
) -> Float[Tensor, "rows places letters"]:
    ids = np.stack([row.frame.ids for row, _ in rows])
    for number, (row, _) in enumerate(rows):
        frame = row.frame
        for place, letter in row.changed:
            ids[number, frame.start + place] = frame.token(place, letter)
        for place in row.masked:
            ids[number, frame.start + place] = reader.model.mask_id
    places = np.array([[row.frame.start + place for place in read] for row, read in rows])
    tokens = np.stack([row.frame.tokens_at(read) for row, read in rows])
    # a letter without a token is never looked up; any id does
    return reader.log_probs(
        torch.from_numpy(ids), torch.from_numpy(places), torch.from_numpy(tokens.clip(min=0))
    )
