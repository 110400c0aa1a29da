"""In which orders places are filled, and the forward passes that all orders need together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import UnmaskError
from unmask.printable import quoted

# what callers may ask for: more orders than this are a slip of the hand
_LIMITS = {"orders": (1, 10_000), "seed": (0, 2**31 - 1)}


def check_orders(orders: object, seed: object) -> None:
    """Reject a number of orders, or a seed, that cannot be used."""
    for (name, (least, most)), given in zip(_LIMITS.items(), (orders, seed), strict=True):
        count = whole_number(given)
        if count is None or not least <= count <= most:
            raise UnmaskError(
                f"{name} is a whole number from {least} to {most:,}, not {quoted(given)}"
            )


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
    """Orders of filling places, and the forward passes that they need: none twice.

    A forward pass has some places `filled` and reads one, `place_read`; the number of the one that
    an order needs at a step is `pass_at[order, step]`.
    """

    orders: Int[Tensor, "orders places"]
    filled: Bool[Tensor, "passes places"]
    place_read: Int[Tensor, " passes"]
    pass_at: Int[Tensor, "orders places"]

    @property
    def forward_passes(self) -> int:
        """How many forward passes one pair of texts takes."""
        return len(self.filled)


def plan_walks(orders: Int[Tensor, "orders places"]) -> Walks:
    """The forward passes that walking these orders needs."""
    filled = orders.argsort(dim=1)[:, None, :] < torch.arange(orders.shape[1])[:, None]
    read = torch.nn.functional.one_hot(orders, orders.shape[1]).bool()
    packed = np.packbits(torch.cat([filled, read], dim=2).flatten(0, 1).numpy(), axis=1)
    _, first, number = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    chosen = torch.from_numpy(first)
    return Walks(
        orders,
        filled.flatten(0, 1)[chosen],
        orders.flatten()[chosen],
        torch.from_numpy(number).view(orders.shape),
    )
