"""The dependence between every two places of a text, as a value. Knows no model."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.arguments import real_number, whole_number
from unmask.errors import SupportError, UnmaskError
from unmask.names import MEASURES
from unmask.printable import columns, printable, quoted
from unmask.results import ModelResult, data_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# two places, the smaller first
Edge = tuple[int, int]


class Place(NamedTuple):
    """A word, a residue or a blank: its name, its tokens, and its characters if they are known.

    `number` is the position of its first token, where other places of the text were left out.

    Examples:
        >>> lm.dependence("Two dogs are running.", measure="pmi").places[1].name
        'dogs'
    """

    name: str
    positions: tuple[int, ...]
    start: int | None = None
    end: int | None = None
    number: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {**self._asdict(), "positions": list(self.positions)}


def numbers_of(places: Sequence[Place]) -> list[int]:
    """The positions of places, from which their distances are counted."""
    return [n if place.number is None else place.number for n, place in enumerate(places)]


class Dependence(NamedTuple):
    """Two places, by their numbers and names, and how strongly they depend on each other.

    `standard_error` is None where nothing was estimated by samples.

    Examples:
        >>> lm.dependence("Two dogs are running.", measure="pmi").top(1)[0].names
        ('dogs', 'running')
    """

    first: int
    second: int
    names: tuple[str, str]
    value: float
    standard_error: float | None

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {**self._asdict(), "names": list(self.names)}


@dataclass(frozen=True, eq=False)
class DependenceMap(ModelResult):
    """The dependence between every two places of a text, by one `measure`.

    `values` are symmetric, in the `unit`; they are not a number on the diagonal and, with a window,
    between places further apart. `standard_errors` are None where nothing was estimated by samples.
    Dependence in the model is neither dependence in the world nor syntax, and it has no direction.

    Examples:
        >>> round(lm.dependence("Two dogs are running.", measure="pmi")["dogs", "running"], 2)
        1.17
    """

    text: str
    places: tuple[Place, ...]
    measure: str
    values: Float[Tensor, "places places"]
    standard_errors: Float[Tensor, "places places"] | None
    forward_passes: int
    samples: int
    model: str = "masked LM"
    is_corrected: bool = False

    @property
    def unit(self) -> str:
        """Bits or nats."""
        return MEASURES[self.measure].unit

    def __repr__(self) -> str:
        """Measure, size, and the strongest dependence."""
        strongest = ""
        if best := self.top(1):
            first, second = map(printable, best[0].names)
            strongest = f", strongest {first} - {second} {best[0].value:z.3f} {self.unit}"
        return f"<DependenceMap {self.measure}: {len(self.places)} places{strongest}>"

    def __str__(self) -> str:
        """The strongest dependences as a table."""
        return self.table(self.top(10))

    def _repr_html_(self) -> str:
        """The same as a table in HTML, for notebooks."""
        from unmask.plots.dependence import to_html

        return to_html(self)

    def table(self, pairs: Iterable[Dependence]) -> str:
        """Some dependences as a table: the two names, the value, and its standard error if any."""
        head = ["", "", self.unit, *(["error"] if self.standard_errors is not None else [])]
        rows = [
            [
                *map(printable, pair.names),
                f"{pair.value:z.3f}",
                *([] if pair.standard_error is None else [f"{pair.standard_error:.3f}"]),
            ]
            for pair in pairs
        ]
        return columns([head, *rows])

    def __getitem__(self, pair: tuple[int | str, int | str]) -> float:
        """The value of two places, by their numbers or by names that occur once."""
        first, second = (self._number(place) for place in pair)
        return float(self.values[first, second])

    def top(self, n: int = 10, *, apart: int = 1) -> list[Dependence]:
        """The strongest dependences, best first.

        Args:
            n: How many.
            apart: Only of places at least so many places apart; tokens (residues) where places were
                chosen, as the window counts.
        Returns:
            Pairs of places, with values and standard errors.
        Raises:
            SupportError: A number is not one from 1.
        Examples:
            >>> dependence = lm.dependence("Two dogs are running.", measure="pmi")
            >>> dependence.top(1)[0].names
            ('dogs', 'running')
        """
        if (whole_number(n) or 0) < 1 or (whole_number(apart) or 0) < 1:
            raise SupportError(
                f"top takes whole numbers from 1, not {quoted(n)} and apart={quoted(apart)}"
            )
        positions = numbers_of(self.places)
        pairs = [
            pair for pair in self.pairs() if positions[pair.second] - positions[pair.first] >= apart
        ]
        # of equals the first
        return sorted(pairs, key=lambda pair: -pair.value)[:n]

    def pairs(self) -> list[Dependence]:
        """Every two places that have a value, in their order."""
        rows, errors = self.values.tolist(), self.standard_errors
        by_row = None if errors is None else errors.tolist()
        return [
            Dependence(
                first,
                second,
                (self.places[first].name, self.places[second].name),
                rows[first][second],
                None if by_row is None else by_row[first][second],
            )
            for first, second in combinations(range(len(self.places)), 2)
            if rows[first][second] == rows[first][second]
        ]

    def corrected(self) -> "DependenceMap":
        """With the average product correction: minus what both places depend on all others.

        From every value it takes the product of the means of its row and its column, divided by the
        mean of all (Dunn et al. 2008). Values may become negative; there are no standard errors.
        """
        if self.is_corrected:
            return self
        means = torch.nanmean(self.values, dim=1)
        expected = means[:, None] * means / torch.nanmean(self.values)
        return replace(self, values=self.values - expected, standard_errors=None, is_corrected=True)

    def groups(self, at_most: float = 0.05) -> list[tuple[int, ...]]:
        """Groups of places no two of which share more than a bound: they may be filled together.

        Groups are greedy, in the order of the text: a place joins the first group in which it
        shares at most the bound with every other. Pairs beyond the window count as dependent.

        Args:
            at_most: The most that two places of a group may share, in bits.
        Returns:
            Groups of places, by their numbers from 0.
        Raises:
            UnmaskError: The bound is not a number of bits from 0, or the map is not in bits.
        Examples:
            >>> lm.dependence("Two [MASK] are [MASK].", samples=8).groups(at_most=1.0)
            [(0, 1)]
        """
        bits = real_number(at_most)
        if bits is None or not 0 <= bits < math.inf:
            raise UnmaskError(
                "a bound on mutual information is a number of bits from 0, such as 0.05, not "
                f"{quoted(at_most)}"
            )
        if self.unit != "bits":
            raise UnmaskError(
                f"groups are bounded in bits, and {self.measure} is in {self.unit}; take "
                "measure='mutual-information' or 'head'"
            )
        rows, groups = self.values.tolist(), list[list[int]]()
        for place, row in enumerate(rows):
            for group in groups:
                if all(row[other] <= bits for other in group):
                    group.append(place)
                    break
            else:
                groups.append([place])
        return [tuple(group) for group in groups]

    def tree(self) -> list[Edge]:
        """The strongest dependences that join all places without crossing above the text.

        Returns:
            Edges, as pairs of numbers of places.
        Examples:
            >>> lm.dependence("Two dogs are running.", measure="pmi").tree()
            [(0, 3), (1, 3), (2, 3), (3, 4)]
        """
        return projective_tree(self.values.numpy())

    def plot(self, *, tree: bool = False, other: Iterable[Edge] | None = None) -> "Figure":
        """A heat map; with a tree, arcs above the text.

        Args:
            tree: Draw the strongest projective tree instead.
            other: A second tree, as pairs of numbers of places, such as that of a parser: it is
                drawn below the text, so that both can be compared.
        Returns:
            A figure of matplotlib, which notebooks show.
        Examples:
            >>> figure = lm.dependence("Two dogs are running.", measure="pmi").plot(tree=True)
        """
        from unmask.plots.dependence import plot_arcs, plot_map

        return plot_arcs(self, other) if tree or other is not None else plot_map(self)

    def to_dict(self) -> dict[str, object]:
        """The text, its places and every pair of them, ready for JSON."""
        return {
            "text": self.text,
            "model": self.model,
            "measure": self.measure,
            "unit": self.unit,
            "samples": self.samples,
            "forward_passes": self.forward_passes,
            "is_corrected": self.is_corrected,
            "places": [place.to_dict() for place in self.places],
            "pairs": self.to_rows(),
        }

    def to_pandas(self) -> "pd.DataFrame":
        """A data frame with a row per pair of places."""
        return data_frame(self.to_rows())

    def to_rows(self) -> list[dict[str, object]]:
        """A dictionary per pair of places, ready for JSON; residues count from 1, places from 0."""
        positions = numbers_of(self.places)
        return [
            {
                "first": pair.first,
                "second": pair.second,
                "first_name": pair.names[0],
                "second_name": pair.names[1],
                "distance": positions[pair.second] - positions[pair.first],
                self.measure.replace("-", "_"): pair.value,
                "standard_error": pair.standard_error,
                "unit": self.unit,
            }
            for pair in self.pairs()
        ]

    def _number(self, place: int | str) -> int:
        if isinstance(place, str):
            numbers = [number for number, other in enumerate(self.places) if other.name == place]
            if len(numbers) == 1:
                return numbers[0]
            raise UnmaskError(
                f"{quoted(place)} is the name of {len(numbers)} places; give numbers from 0 to "
                f"{len(self.places) - 1}"
            )
        number = whole_number(place)
        if number is None or not 0 <= number < len(self.places):
            raise UnmaskError(
                f"there is no place {quoted(place)}; places count from 0 to {len(self.places) - 1}"
            )
        return number


# --- trees --------------------------------------------------------------------------------------


def projective_tree(values: NDArray[np.float64]) -> list[Edge]:
    """The tree over all places with the largest sum of values, by Eisner's algorithm.

    Values are symmetric, NaN is no edge. No edges of the tree cross when they are drawn above the
    text. The first place is the root: no edge passes over it, so every such tree is found.
    """
    weights = np.where(np.isnan(values), -np.inf, values)
    np.fill_diagonal(weights, -np.inf)
    size = len(weights)
    # spans from one place to another, headed at the left or the right end: with all that belongs
    # to the head on that side (whole), or with the edge between both ends just drawn (open)
    whole, joined = np.zeros((2, size, size)), np.full((size, size), -np.inf)
    cut, split = np.zeros((2, size, size), dtype=int), np.zeros((size, size), dtype=int)
    left, right = whole
    for width in range(1, size):
        for start in range(size - width):
            end = start + width
            halves = left[start, start:end] + right[start + 1 : end + 1, end]
            split[start, end] = start + int(halves.argmax())
            joined[start, end] = halves.max() + weights[start, end]
            # both directions of an edge weigh the same, so that one table of open spans is enough
            by_left = joined[start, start + 1 : end + 1] + left[start + 1 : end + 1, end]
            by_right = right[start, start:end] + joined[start:end, end]
            cut[0, start, end] = start + 1 + int(by_left.argmax())
            cut[1, start, end] = start + int(by_right.argmax())
            left[start, end], right[start, end] = by_left.max(), by_right.max()
    if size > 1 and left[0, size - 1] == -np.inf:
        raise UnmaskError(
            "the map leaves places apart, so no tree joins them all; give a larger window, or none"
        )
    return sorted(_followed(cut, split, size))


def _followed(cut: NDArray[np.int_], split: NDArray[np.int_], size: int) -> Iterable[Edge]:
    """The edges of the best whole span over everything."""
    rest: list[tuple[int, int, int | None]] = [(0, size - 1, 0)]
    while rest:
        start, end, side = rest.pop()
        if start == end:
            continue
        if side is None:
            yield start, end
            middle = int(split[start, end])
            rest += [(start, middle, 0), (middle + 1, end, 1)]
        elif side == 0:
            middle = int(cut[0, start, end])
            rest += [(start, middle, None), (middle, end, 0)]
        else:
            middle = int(cut[1, start, end])
            rest += [(start, middle, 1), (middle, end, None)]
