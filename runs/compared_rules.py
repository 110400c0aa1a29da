"""Rules of parallel decoding that are compared with the package's own, as functions of one step.

Each is what `lm.decode(texts, rule=...)` takes once its threshold is bound, and returns at
least one blank. `random_sizes` follows Zhao & Cai (2602.20126): sizes that are drawn and shrink
with what is left have an error in proportion to the total correlation, whatever it is. The weights
of their schedules are not reproduced: a size is uniform from 1 to 2 n threshold - 1.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from unmask.queries.decode.rules import FUNCTIONS, Rule, Step

# KLASS: a prediction is stable if it moved by less than this since the pass before, in nats
STABLE = 0.01


def top_k(step: Step, threshold: float) -> list[int]:
    """The so many surest."""
    return step.surest_first[: max(1, int(min(threshold, len(step.log_probs))))]


def factor(step: Step, threshold: float) -> list[int]:
    """The n surest while (n + 1) (1 - confidence) is below it: Fast-dLLM (2505.22618)."""
    sure = [float(step.confidence[n]) for n in step.surest_first]
    sizes = [n for n, c in enumerate(sure, start=1) if (n + 1) * (1 - c) < threshold]
    return step.surest_first[: max(sizes, default=1)]


def stability(step: Step, threshold: float) -> list[int]:
    """Those as sure that did not move since the pass before: KLASS (Kim et al. 2025)."""
    if step.before is None:
        return step.surest_first[:1]
    now = step.log_probs.double()
    # where both are impossible nothing moved
    moves = torch.where(now == -math.inf, 0.0, now.exp() * (now - step.before.double()))
    stable = (moves.sum(dim=1) < STABLE) & (step.confidence >= threshold)
    return [n for n in step.surest_first if stable[n]] or step.surest_first[:1]


def apart(step: Step, attention: Tensor, threshold: float) -> list[int]:
    """Blanks of which no two attend to each other by as much: DAPD (2603.12996)."""
    blanks, weights = step.surest_first[:1], attention.tolist()
    for blank in step.surest_first[1:]:
        if max(weights[blank][other] for other in blanks) < threshold:
            blanks.append(blank)
    return blanks


def random_sizes(step: Step, threshold: float) -> list[int]:
    """Blanks at random, a random number of them: of n on average about n times the threshold."""
    count = len(step.log_probs)
    largest = 2 * max(1.0, min(threshold, 1.0) * count) - 1
    size = count if math.isinf(threshold) else 1 + int(step.generator.random() * largest)
    blanks: list[int] = step.generator.permutation(count)[: min(count, size)].tolist()
    return blanks


COMPARED: dict[str, Callable[..., list[int]]] = {
    "top-k": top_k,
    "factor": factor,
    "stability": stability,
    "attention": apart,
    "random-sizes": random_sizes,
}


def named_rule(name: str, threshold: float) -> tuple[str | Rule, float]:
    """Rule and threshold of a decoding: a function with its threshold bound has none beside it."""
    if name in COMPARED:
        return partial(COMPARED[name], threshold=threshold), 0.0
    return name, threshold


def chosen(name: str, threshold: float, step: Step, attention: Tensor | None = None) -> list[int]:
    """The blanks that a rule of either kind fills in one step."""
    if name == "attention":
        assert attention is not None
        return apart(step, attention, threshold)
    return (COMPARED.get(name) or FUNCTIONS[name])(step, threshold)
