"""Chains over the tokens of all blanks, moved a pair of blanks at a time.

Knows how to schedule updates and what to keep; a `PairBlock` knows how to draw. The pair is the
same for all chains of a step, so that their rows make one batch. Each purpose has a generator of
its own, on the CPU, derived from the seed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.printable import quoted
from unmask.progress import Shown, bar
from unmask.queries.sampling.conditionals import Conditionals, DrawnTokens
from unmask.queries.sampling.convergence import Mixing, mixing
from unmask.queries.sampling.pair_blocks import PairBlock
from unmask.text.support import Support

Value = TypeVar("Value", int, tuple[int, ...])

_PURPOSES = ("start", "pairs", "tokens")


@dataclass(frozen=True)
class Schedule:
    """How many chains, and what each keeps: `draws` states, `thin` sweeps apart."""

    chains: int
    draws: int
    warm_up: int
    thin: int
    seed: int

    def sweeps(self) -> int:
        """How many sweeps a chain makes."""
        return self.warm_up + self.draws * self.thin


@dataclass(frozen=True, eq=False)
class Trace:
    """The states that were kept, the log-score of each, and the updates that a chain made.

    A log-score is the sum over blanks of the log-probability that each token had when it was drawn.
    """

    tokens: Int[Tensor, "chains draws blanks"]
    log_scores: Float[Tensor, "chains draws"]
    updates: int

    @classmethod
    def of_one(cls, drawn: DrawnTokens) -> "Trace":
        """One update of each chain, that drew every blank."""
        return cls(drawn.tokens[:, None], drawn.log_probs.sum(dim=1)[:, None], 1)


def generator(seed: int, purpose: str) -> torch.Generator:
    """A generator on the CPU for one purpose."""
    mixed = np.random.SeedSequence([seed, _PURPOSES.index(purpose)]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(mixed[0]) >> 1)


def updates_per_sweep(blanks: int) -> int:
    """Enough updates of pairs that a blank is drawn once, on average."""
    return -(-blanks // 2)


def start(conditionals: Conditionals, chains: int, seed: int) -> DrawnTokens:
    """Every blank from the model's distribution with all masked: a row per blank for all chains."""
    blanks = conditionals.blanks
    every = torch.arange(blanks).repeat(chains)
    masks = torch.full((chains * blanks, blanks), conditionals.mask_id)
    source = generator(seed, "start")
    uniforms = torch.rand(chains * blanks, dtype=torch.float64, generator=source)
    drawn = conditionals.draw(masks, every, uniforms)
    return DrawnTokens(drawn.tokens.view(chains, blanks), drawn.log_probs.view(chains, blanks))


def run(block: PairBlock, begun: DrawnTokens, schedule: Schedule, progress: Shown) -> Trace:
    """Move the chains through their schedule: random pairs of blanks, each pair as likely."""
    tokens, log_probs = begun.tokens.clone(), begun.log_probs.clone()
    blanks = tokens.shape[1]
    pairs, per_sweep = list(combinations(range(blanks), 2)), updates_per_sweep(blanks)
    total = schedule.sweeps() * per_sweep
    scan = torch.randint(len(pairs), (total,), generator=generator(schedule.seed, "pairs")).tolist()
    kept = torch.empty(schedule.chains, schedule.draws, blanks, dtype=torch.long)
    scores = torch.empty(schedule.chains, schedule.draws, dtype=torch.float64)
    with bar("sampling", unit="update", total=total, shown=progress) as counted:
        for step in range(total):
            pair = list(pairs[scan[step]])
            drawn = block.draw(tokens, pairs[scan[step]])
            tokens[:, pair], log_probs[:, pair] = drawn.tokens, drawn.log_probs
            done = step + 1 - schedule.warm_up * per_sweep
            draw, between = divmod(done, schedule.thin * per_sweep)
            if draw > 0 and between == 0:
                kept[:, draw - 1], scores[:, draw - 1] = tokens, log_probs.sum(dim=1)
            counted.update()
    return Trace(kept, scores, total)


# --- what is watched for convergence: a chain of tokens has no numbers of its own ---------------

# a token or fill this frequent over all chains is watched, and the most frequent one always
FREQUENT = 0.05


def mixing_of(trace: Trace, supports: tuple[Support, ...]) -> tuple[Mixing, ...]:
    """R-hat and effective sample size of everything that is watched.

    For every blank whether it holds each of its frequent tokens, for the whole state whether it is
    each of the frequent fills (locked blanks may mix one by one, and not together), and its
    log-score.
    """
    traces = [mixing("log-score", trace.log_scores.numpy())]
    for blank, support in enumerate(supports):
        for token in _frequent(trace.tokens[:, :, blank].reshape(-1).tolist()):
            name = f"blank {blank} = {quoted(support.names[support.index(token)])}"
            traces.append(_indicator(name, trace.tokens[:, :, blank] == token))
    for fill in _frequent([tuple(t) for t in trace.tokens.reshape(-1, len(supports)).tolist()]):
        same = (trace.tokens == trace.tokens.new_tensor(fill)).all(dim=-1)
        traces.append(_indicator(_named(fill, supports), same))
    return tuple(traces)


def _indicator(name: str, holds: Tensor) -> Mixing:
    return mixing(name, holds.numpy().astype(np.float64))


def _frequent(values: Sequence[Value]) -> list[Value]:
    """Most frequent first; of equals, the one that comes first."""
    ranked = Counter(values).most_common()
    return [v for k, (v, count) in enumerate(ranked) if k == 0 or count >= FREQUENT * len(values)]


def _named(fill: tuple[int, ...], supports: tuple[Support, ...]) -> str:
    named = zip(fill, supports, strict=True)
    return f"fill {' '.join(quoted(axis.names[axis.index(token)]) for token, axis in named)}"
