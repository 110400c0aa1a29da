"""Random tables whose stationary law is about as hard to find as a real model's.

Both tables come from one score of a pair, of low rank, plus what makes each token likely by itself,
plus a noise of their own, so that they nearly agree on a joint, as those of real models do. With
the strengths below, it takes about as many sweeps as on captions, where tables of independent noise
would be settled in a few.
"""

import torch
from torch import Tensor

import unmask

# standard deviations, in nats: of what ties a pair, of what the tables disagree on, of how likely
# tokens are by themselves, and of how far the doubly masked distributions are from that
TIE, DISAGREEMENT, POPULARITY, START = 2.5, 0.5, 3.0, 0.5
# the rank of the score, of that of each whole table
SHARED = 4


def room_for_dense(vocabulary: int) -> int:
    """A memory limit under which both tables are kept cell by cell, with a copy for iterations."""
    return 18 * vocabulary**2


def nearly_compatible(
    vocabulary: int, width: int, *, memory_limit: int, seed: int = 0
) -> unmask.PairTables:
    """Factored tables of so many tokens a blank, with readouts so wide."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def factors(rank: int, strength: float) -> tuple[Tensor, Tensor]:
        """Two factors whose products have this standard deviation."""
        scale = (strength / rank**0.5) ** 0.5
        return scale * normal(vocabulary, rank), scale * normal(vocabulary, rank)

    shared = width // SHARED
    score = factors(shared, TIE)
    own = [factors(width - shared, DISAGREEMENT) for _ in range(2)]
    sides = [[torch.cat(pair, dim=1) for pair in zip(score, one, strict=True)] for one in own]
    popular = [POPULARITY * normal(vocabulary) for _ in range(2)]
    masked = [
        torch.log_softmax((one + START * normal(vocabulary)).double(), dim=0) for one in popular
    ]
    return unmask.PairTables.from_logits(
        unmask.FactoredLogits(sides[0][0], sides[0][1], bias_a=popular[0]),
        unmask.FactoredLogits(sides[1][0], sides[1][1], bias_b=popular[1]),
        marginals=unmask.MaskedMarginals(masked[0], masked[1]),
        memory_limit=memory_limit,
    )
