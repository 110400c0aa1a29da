"""In which orders places are filled, and the rows of a model that all orders need together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor


def drawn_orders(places: int, orders: int, entropy: Sequence[int]) -> Int[Tensor, "orders places"]:
    """So many different orders of the places, or all if there are no more than that.

    The generator is seeded by `entropy` alone.
    """
    if places < 20 and math.factorial(places) <= orders:
        return torch.tensor(list(permutations(range(places)))).view(-1, places)
    generator = np.random.default_rng(list(entropy))
    found: dict[tuple[int, ...], None] = {}
    while len(found) < orders:
        found[tuple(generator.permutation(places).tolist())] = None
    return torch.tensor(list(found))


@dataclass(frozen=True, eq=False)
class Walks:
    """Orders of filling places, and what must be read for them: nothing twice.

    A row has some places `filled`; a read is one place of a row, and `reads[order, step]` is what
    an order needs there. Rows with equally many reads come together in `groups`, as the numbers
    of rows and those of their reads.
    """

    orders: Int[Tensor, "orders places"]
    filled: Bool[Tensor, "rows places"]
    place_of_read: Int[Tensor, " reads"]
    reads: Int[Tensor, "orders places"]
    groups: tuple[tuple[Int[Tensor, " group"], Int[Tensor, "group read"]], ...]

    @property
    def rows(self) -> int:
        """How many rows one text takes."""
        return len(self.filled)


def plan_walks(orders: Int[Tensor, "orders places"], *, rows_by_place: bool) -> Walks:
    """What must be read to walk these orders.

    Rows are told apart by the places filled, and with `rows_by_place` by the one that is read too.
    """
    count, places = orders.shape
    filled = orders.argsort(dim=1)[:, None, :] < torch.arange(places)[:, None]
    told_by = filled
    if rows_by_place:
        told_by = torch.cat([filled, torch.nn.functional.one_hot(orders, places).bool()], dim=2)
    packed = np.packbits(told_by.flatten(0, 1).numpy(), axis=1)
    _, first, row = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    # reads by row, then by place
    numbers = row.reshape(-1) * places + orders.flatten().numpy()
    distinct, reads = np.unique(numbers, return_inverse=True)
    return Walks(
        orders,
        filled.flatten(0, 1)[torch.from_numpy(first)],
        torch.from_numpy(distinct % places),
        torch.from_numpy(reads.reshape(count, places)),
        _groups(torch.from_numpy(distinct // places)),
    )


def _groups(row_of_read: Int[Tensor, " reads"]) -> tuple[tuple[Tensor, Tensor], ...]:
    """Rows by how many reads they have; reads of one row are consecutive."""
    counts = row_of_read.bincount()
    starts = counts.cumsum(0) - counts
    groups = []
    for count in counts.unique().tolist():
        rows = (counts == count).nonzero()[:, 0]
        groups.append((rows, starts[rows, None] + torch.arange(count)))
    return tuple(groups)
