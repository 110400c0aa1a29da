"""The contexts of one blank of a sketch: its head, its weighted sample, and tokens beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# the log weight of a token that adds nothing to sums, but has a probability
_NO_WEIGHT = -60.0


@dataclass(frozen=True, eq=False)
class Side:
    """The contexts of one blank, in the order of its axis; the tail has weights above one."""

    places: Int[Tensor, " size"]
    log_weights: Float[Tensor, " size"]
    tail: Bool[Tensor, " size"]
    # the head: weight one and not a probe
    certain: Bool[Tensor, " size"]

    @classmethod
    def of(cls, head: Sequence[int], drawn: Tensor, log_weights: Tensor) -> "Side":
        """So many certain tokens, and others with their weights."""
        places = torch.cat([torch.tensor(head, dtype=torch.long), drawn])
        weights = torch.cat([torch.zeros(len(head), dtype=torch.float64), log_weights])
        order = torch.argsort(places)
        tail = weights[order] > 0.0
        return cls(places[order], weights[order], tail, ~tail)

    def with_probes(self, probes: Sequence[int]) -> "Side":
        """The same with probes: tokens that have a probability and no weight in sums."""
        present = set(self.places.tolist())
        new = torch.tensor([p for p in dict.fromkeys(probes) if p not in present], dtype=torch.long)
        weights = torch.full((len(new),), _NO_WEIGHT, dtype=torch.float64)
        places = torch.cat([self.places, new])
        order = torch.argsort(places)
        log_weights, no = torch.cat([self.log_weights, weights]), torch.zeros(len(new)).bool()
        tail, certain = (torch.cat([flags, no])[order] for flags in (self.tail, self.certain))
        return Side(places[order], log_weights[order], tail, certain)

    def reweighted(self, generators: Sequence[torch.Generator]) -> Float[Tensor, "weightings size"]:
        """Logarithms of the weights, and of others that vary as those of other samples would.

        A token that stands for w others was drawn with probability 1 / w: multiplying its weight by
        a factor of mean one and variance 1 - 1 / w gives every sum the variance of the sample.
        """
        log_w = self.log_weights[self.tail]
        drawn = log_w.new_empty(len(generators), len(log_w))
        for row, generator in zip(drawn, generators, strict=True):
            # exponential: of mean and variance one, and never negative
            row.exponential_(generator=generator)
        factors = 1.0 + (-torch.expm1(-log_w)).sqrt() * (drawn - 1.0)
        changed = self.log_weights.repeat(1 + len(generators), 1)
        changed[1:, self.tail] += factors.clamp(min=1e-12).log()
        return changed
