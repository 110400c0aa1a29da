"""Beam search along given orders, and candidate sets grown from what the beams meet."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.logspace import highest
from unmask.tables.blank_reader import BlankReader
from unmask.tables.contexts import EMPTY
from unmask.text.support import Support

# contexts a beam keeps while candidates are grown, and the part that full masking has in the end:
# a token that no beam came upon is still ranked
_CONTEXTS, _FLOOR = 25, 0.02


def search(
    reader: BlankReader, orders: Sequence[Sequence[int]], width: int
) -> Int[Tensor, "fills blanks"]:
    """Fills that beams along the orders end with, by the best order of each, best first."""
    best: dict[tuple[int, ...], float] = {}
    for order in orders:
        beam = _Beam.empty(len(reader.supports))
        for blank in order:
            beam = beam.extended(reader, blank, width)
        fills = map(tuple, beam.fills.tolist())
        for fill, score in zip(fills, beam.log_probs.tolist(), strict=True):
            best[fill] = max(score, best.get(fill, score))
    ranked = sorted(best, key=lambda fill: (-best[fill], fill))
    return torch.tensor(ranked, dtype=torch.long)


def growing_rows(blanks: int) -> int:
    """Rows that growing candidates takes, at most."""
    return 1 if blanks == 1 else 2 * (1 + _CONTEXTS * (blanks - 1))


def grown(
    reader: BlankReader, sizes: Sequence[int], contexts: int = _CONTEXTS
) -> tuple[tuple[Support, ...], list[float]]:
    """The likeliest tokens of each blank, on average over beams from both ends.

    Full masking alone misses the halves of locked pairs: "Angeles" is likely only after "Los". So a
    blank's tokens are ranked by the mean of its distributions along the beams, each context counted
    by its probability. Also the part of that mean which the chosen tokens hold: an estimate.
    """
    forth = tuple(range(len(reader.supports)))
    orders = [forth, forth[::-1]] if len(forth) > 1 else [forth]
    total = [torch.zeros(len(s), dtype=torch.float64) for s in reader.supports]
    for order in orders:
        beam = _Beam.empty(len(forth))
        for k, blank in enumerate(order):
            mass = torch.zeros_like(total[blank])
            beam = beam.extended(reader, blank, contexts, mass)
            total[blank] += (_FLOOR if k == 0 and len(forth) > 1 else 1.0) * mass
    supports, held = list[Support](), list[float]()
    for support, mass, size in zip(reader.supports, total, sizes, strict=True):
        # in the order of the support, so that equal requests give equal axes
        places = highest(mass, size).sort().values
        supports.append(support.part(places.tolist()))
        held.append(min(1.0, float((mass / mass.sum())[places].sum())))
    return tuple(supports), held


class _Beam(NamedTuple):
    """The likeliest partial fills along an order."""

    fills: Int[Tensor, "beam blanks"]
    log_probs: Float[Tensor, " beam"]

    @classmethod
    def empty(cls, blanks: int) -> "_Beam":
        """Nothing filled yet."""
        return cls(torch.full((1, blanks), EMPTY), torch.zeros(1, dtype=torch.float64))

    def extended(
        self, reader: BlankReader, blank: int, width: int, mass: Tensor | None = None
    ) -> "_Beam":
        """The likeliest fills with one further blank.

        What the beam makes of that blank, each fill counted by its probability, is added to `mass`.
        """
        weights = torch.softmax(self.log_probs, dim=0)
        per_row = min(width, len(reader.supports[blank]))
        scores = torch.empty(len(self.fills), per_row, dtype=torch.float64)
        tokens = torch.empty(len(self.fills), per_row, dtype=torch.long)

        def use(which: Tensor, _: int, log_p: Tensor) -> None:
            log_p = log_p.cpu()
            if mass is not None:
                mass.add_(weights[which] @ log_p.exp())
            # a few of each row suffice
            for row, log_row in zip(which.tolist(), log_p, strict=True):
                tokens[row] = highest(log_row, per_row)
                scores[row] = self.log_probs[row] + log_row[tokens[row]]

        wanted = torch.zeros(self.fills.shape, dtype=torch.bool)
        wanted[:, blank] = True
        reader.read(self.fills, use, wanted=wanted)
        best = torch.sort(scores.reshape(-1), descending=True, stable=True).indices[:width]
        fills = self.fills[best // per_row].clone()
        fills[:, blank] = tokens.reshape(-1)[best]
        return _Beam(fills, scores.reshape(-1)[best])
