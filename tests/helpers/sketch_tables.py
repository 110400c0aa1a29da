"""Tables that sketches are tried on."""

import numpy as np
import torch

from unmask.tables.conditional import DenseLogits
from unmask.tables.marginals import MaskedMarginals
from unmask.tables.pair_tables import PairTables


def clustered(size: int, seed: int, *, locked: float = 6.0) -> np.ndarray:
    """A joint with a heavy head, a long tail and pairs that go together."""
    rng = np.random.default_rng(seed)
    ranks = np.arange(1, size + 1)
    log_p = -1.3 * np.log(ranks)[:, None] - 1.1 * np.log(ranks)[None]
    log_p = log_p + locked * rng.random((size, 4)) @ rng.random((4, size))
    log_p = log_p + rng.normal(size=(size, size))
    joint = np.exp(log_p - log_p.max())
    order_a, order_b = rng.permutation(size), rng.permutation(size)
    joint = joint[order_a][:, order_b]
    return joint / joint.sum()


def tables_of(joint: np.ndarray, *, noise: float = 0.0, seed: int = 0) -> PairTables:
    """Both conditionals of a joint, each with noise of its own; masked, its marginals."""
    rng = np.random.default_rng(seed)
    log_a, log_b = (np.log(joint) + noise * rng.normal(size=joint.shape) for _ in (0, 1))
    masked = MaskedMarginals(torch.tensor(np.log(joint.sum(1))), torch.tensor(np.log(joint.sum(0))))
    logits = (DenseLogits(torch.tensor(log).float().contiguous()) for log in (log_a, log_b))
    return PairTables.from_logits(*logits, marginals=masked)
