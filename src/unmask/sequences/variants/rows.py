"""Forward passes of many variants: collected, each run once, and looked up by what they hold.

A row is a frame with some residues changed and some masked. A row with masks is read at all of
them; one without is read wherever it was requested.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.model.hooks import without_gradients
from unmask.model.row_reader import Outcomes, RowReader, Rows, folded
from unmask.model.shapes import Shape, run_by_shape
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
        places = self.places.setdefault(row, set())
        if not row.masked:
            places.add(place)
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
    """The log-probabilities of all letters at the places that were read.

    Behind those of the letters is what was taken from the model's logits.
    """

    def __init__(self, read: Mapping[Row, tuple[tuple[int, ...], Vector]]) -> None:
        # of every row the places that were read, and a line for each
        self._read = read

    def at(self, row: Row, place: int) -> Vector:
        """What was read at one place."""
        places, values = self._read[row]
        at_place: Vector = values[bisect_left(places, place)]
        return at_place

    def log_prob(self, row: Row, place: int, letter: int) -> float:
        """A `LogProb`."""
        return float(self.at(row, place)[letter])


@without_gradients
def run_rows(reader: RowReader, requests: Requests) -> Answers:
    """Run every row once, in batches of equal length."""
    rows = [(row, row.masked or tuple(sorted(places))) for row, places in requests.places.items()]
    values = run_by_shape(reader, rows, _shape, lambda some: _log_probs(reader, some).numpy())
    return Answers({row: (places, mine) for (row, places), mine in zip(rows, values, strict=True)})


def _shape(one: tuple[Row, tuple[int, ...]]) -> Shape:
    row, places = one
    read, letters = len(places), len(row.frame.letters)
    return Shape(len(row.frame.ids), numbers=read * letters, alike=(read, letters))


def _log_probs(
    reader: RowReader, rows: Sequence[tuple[Row, tuple[int, ...]]]
) -> Float[Tensor, "rows places letters_and_one"]:
    ids = np.stack([row.frame.ids for row, _ in rows])
    for number, (row, _) in enumerate(rows):
        frame = row.frame
        for place, letter in row.changed:
            ids[number, frame.start + place] = frame.token(place, letter)
        for place in row.masked:
            ids[number, frame.start + place] = reader.model.mask_id
    positions = torch.tensor([[row.frame.start + place for place in read] for row, read in rows])
    letters = np.stack([row.frame.tokens_at(read) for row, read in rows])
    # a letter without a token is never looked up: any id does; the last is for the normalizer
    tokens = torch.from_numpy(np.pad(letters.clip(min=0), ((0, 0), (0, 0), (0, 1))))
    outcomes = Outcomes.every(reader.model)
    kept = torch.empty(tokens.shape, dtype=torch.float64)

    def fold(batch: slice, readouts: Float[Tensor, "rows places width"]) -> None:
        flat, given = readouts.flatten(0, 1), tokens[batch]
        log_probs = folded(flat, outcomes, given.flatten(0, 1))[0].cpu()
        log_probs[:, -1] = outcomes.logits(flat, slice(0, 1))[:, 0].cpu() - log_probs[:, -1]
        kept[batch] = log_probs.view(given.shape)

    reader.each_batch(Rows.of(torch.from_numpy(ids)), positions, fold, batch_for=0)
    return kept
