"""Which numbers of a chain's states are watched for convergence: a chain of tokens has none itself.

For every blank whether it holds each of its frequent tokens, for the whole state whether it is each
of the frequent fills (locked blanks may mix one by one, and not together), and its log-score.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from torch import Tensor

from unmask.printable import quoted
from unmask.queries.sampling.chains import Trace
from unmask.queries.sampling.convergence import Mixing, mixing
from unmask.text.support import Support

Value = TypeVar("Value", int, tuple[int, ...])

# a token or fill this frequent over all chains is watched, and the most frequent one always
FREQUENT = 0.05


def mixing_of(trace: Trace, supports: tuple[Support, ...]) -> tuple[Mixing, ...]:
    """R-hat and effective sample size of everything that is watched."""
    found = [mixing("log-score", trace.log_scores.numpy())]
    for blank, support in enumerate(supports):
        for token in _frequent(trace.tokens[:, :, blank].reshape(-1).tolist()):
            name = f"blank {blank} = {quoted(support.names[support.index(token)])}"
            found.append(_indicator(name, trace.tokens[:, :, blank] == token))
    for fill in _frequent([tuple(t) for t in trace.tokens.reshape(-1, len(supports)).tolist()]):
        same = (trace.tokens == trace.tokens.new_tensor(fill)).all(dim=-1)
        found.append(_indicator(_named(fill, supports), same))
    return tuple(found)


def _indicator(name: str, holds: Tensor) -> Mixing:
    return mixing(name, holds.numpy().astype(np.float64))


def _frequent(values: Sequence[Value]) -> list[Value]:
    """Most frequent first; of equals, the one that comes first."""
    ranked = Counter(values).most_common()
    return [v for k, (v, count) in enumerate(ranked) if k == 0 or count >= FREQUENT * len(values)]


def _named(fill: tuple[int, ...], supports: tuple[Support, ...]) -> str:
    named = zip(fill, supports, strict=True)
    return f"fill {' '.join(quoted(axis.names[axis.index(token)]) for token, axis in named)}"
