"""Which blanks of a text are filled in the same step: rules of parallel decoding, as functions.

A rule reads what one forward pass says of the blanks that are still masked, and returns some of
them, by their numbers in that pass, never none: the surest at least. Surest is the blank whose
likeliest token has the largest probability, and of equals the first. Tokens that are filled in one
step are chosen independently; the error of the step is their total correlation, which pairwise
dependence approaches. A rule knows neither texts nor models.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.arguments import real_number
from unmask.errors import MethodError
from unmask.lazy import computed_once
from unmask.names import RULES
from unmask.printable import quoted

# KLASS: a prediction is stable if it moved by less than this since the pass before, in nats
STABLE = 0.01


@dataclass(eq=False)
class MaskedStep:
    """What is known of the blanks that are still masked, before one step.

    `log_probs` are those of this pass, `before` those of the pass before, if any. `dependence` is
    in bits; `attention` is the mean over heads. Both are symmetric, with a diagonal that is not
    read. `draw` is what rules with chance draw from.
    """

    log_probs: Float[Tensor, "blanks size"]
    before: Float[Tensor, "blanks size"] | None = None
    dependence: Float[Tensor, "blanks blanks"] | None = None
    attention: Float[Tensor, "blanks blanks"] | None = None
    draw: np.random.Generator | None = None

    @computed_once
    def likeliest(self) -> tuple[Float[Tensor, " blanks"], Int[Tensor, " blanks"]]:
        """The log-probability of the likeliest token of each blank, and its place."""
        values, places = self.log_probs.max(dim=1)
        return values, places

    @computed_once
    def confidence(self) -> Float[Tensor, " blanks"]:
        """The probability of the likeliest token of each blank."""
        return self.likeliest[0].exp()

    @computed_once
    def surest_first(self) -> list[int]:
        """All blanks by confidence; of equals the first."""
        order: list[int] = self.confidence.argsort(descending=True, stable=True).tolist()
        return order


Rule = Callable[[MaskedStep, float], list[int]]


# --- one at a time, and all at once ------------------------------------------------------------


def surest(step: MaskedStep, _: float) -> list[int]:
    """One at a time, the surest first."""
    return step.surest_first[:1]


def left_to_right(_: MaskedStep, __: float) -> list[int]:
    """One at a time, in the order of the blanks."""
    return [0]


def margin(step: MaskedStep, _: float) -> list[int]:
    """One at a time, first the blank whose likeliest token is furthest ahead of the second."""
    largest = step.log_probs.topk(min(2, step.log_probs.shape[1]), dim=1).values.exp()
    ahead = largest[:, 0] - (largest[:, 1] if largest.shape[1] > 1 else 0.0)
    return [int(ahead.argmax())]


def all_at_once(step: MaskedStep, _: float) -> list[int]:
    """All blanks in one step."""
    return list(step.surest_first)


# --- by the predictions ------------------------------------------------------------------------


def top_k(step: MaskedStep, threshold: float) -> list[int]:
    """The so many surest."""
    return step.surest_first[: max(1, int(min(threshold, len(step.log_probs))))]


def confidence(step: MaskedStep, threshold: float) -> list[int]:
    """All blanks whose likeliest token has at least this probability."""
    return _or_surest(step, [n for n in step.surest_first if step.confidence[n] >= threshold])


def factor(step: MaskedStep, threshold: float) -> list[int]:
    """The most n surest with (n + 1) (1 - c_n) below the threshold, c_n being the n-th confidence.

    Fast-dLLM (Wu et al. 2025, 2505.22618).
    """
    sure = [float(step.confidence[n]) for n in step.surest_first]
    sizes = [n for n, c in enumerate(sure, start=1) if (n + 1) * (1 - c) < threshold]
    return step.surest_first[: max(sizes, default=1)]


def entropy_bound(step: MaskedStep, threshold: float) -> list[int]:
    """The longest run of the surest whose entropies, without the largest, add up to the threshold.

    EB-Sampler (Ben-Hamu et al. 2025, 2505.24857), in nats, by confidence: the sum bounds the total
    correlation of what is filled.
    """
    probabilities = step.log_probs.double().exp()
    ordered = -torch.xlogy(probabilities, probabilities).sum(dim=1)[step.surest_first]
    others = ordered.cumsum(dim=0) - ordered.cummax(dim=0).values
    # the first has no others; rounding must not say otherwise
    others[0] = 0.0
    return step.surest_first[: max(1, int((others <= threshold).sum()))]


def stability(step: MaskedStep, threshold: float) -> list[int]:
    """The blanks as sure as the threshold whose prediction did not move since the pass before.

    KLASS (Kim et al. 2025), with one pass of history: KL(now || before) below `STABLE` nats. In the
    first pass nothing is stable.
    """
    if step.before is None:
        return surest(step, threshold)
    now = step.log_probs.double()
    # where both are impossible nothing moved
    apart = torch.where(now == -math.inf, 0.0, now.exp() * (now - step.before.double()))
    chosen = (apart.sum(dim=1) < STABLE) & (step.confidence >= threshold)
    return _or_surest(step, [n for n in step.surest_first if chosen[n]])


# --- by what blanks have to do with each other -------------------------------------------------


def attention(step: MaskedStep, threshold: float) -> list[int]:
    """Blanks of which no two attend to each other by as much as the threshold, the surest first.

    An independent set of the attention graph, as DAPD has it (2603.12996).
    """
    return _greedy(step, _given(step.attention, "attention"), threshold, max)


def dependence(step: MaskedStep, threshold: float) -> list[int]:
    """A blank joins the surer ones if its dependence on them adds up to less than the threshold.

    In bits: of measured mutual information, or predicted by a head, as DEMASK does (2604.02560).
    """
    return _greedy(step, _given(step.dependence, "dependence"), threshold, sum)


def random_sizes(step: MaskedStep, threshold: float) -> list[int]:
    """Blanks at random, a random number of them: of n on average about n times the threshold.

    After the idea of Zhao & Cai (2602.20126): sizes that are drawn and shrink with what is left
    have an error in proportion to the total correlation, whatever it is. The weights of their
    schedules are not reproduced here: a size is uniform from 1 to 2 n threshold - 1.
    """
    if step.draw is None:
        raise MethodError("the rule random-sizes draws; give a step with `draw`")
    count = len(step.log_probs)
    largest = 2 * max(1.0, min(threshold, 1.0) * count) - 1
    size = count if math.isinf(threshold) else min(count, 1 + int(step.draw.random() * largest))
    chosen: list[int] = step.draw.permutation(count)[:size].tolist()
    return chosen


def _greedy(
    step: MaskedStep,
    values: Float[Tensor, "blanks blanks"],
    threshold: float,
    summed: Callable[[list[float]], float],
) -> list[int]:
    chosen, table = step.surest_first[:1], values.tolist()
    for blank in step.surest_first[1:]:
        if summed([table[blank][other] for other in chosen]) < threshold:
            chosen.append(blank)
    return chosen


def _given(values: Tensor | None, name: str) -> Tensor:
    if values is None:
        raise MethodError(f"this rule reads the {name} between blanks; give a step with `{name}`")
    return values


def _or_surest(step: MaskedStep, chosen: list[int]) -> list[int]:
    return chosen or step.surest_first[:1]


FUNCTIONS: dict[str, Rule] = {
    "surest": surest,
    "left-to-right": left_to_right,
    "margin": margin,
    "all-at-once": all_at_once,
    "top-k": top_k,
    "confidence": confidence,
    "factor": factor,
    "entropy-bound": entropy_bound,
    "stability": stability,
    "attention": attention,
    "mutual-information": dependence,
    "head": dependence,
    "random-sizes": random_sizes,
}


def check_rule(rule: object, threshold: object) -> float:
    """The threshold of a rule as a number; 0 for a rule that has none."""
    if not isinstance(rule, str) or rule not in RULES:
        raise MethodError(f"no rule {quoted(rule)}; rules: {', '.join(RULES)}")
    meaning = RULES[rule].threshold
    if meaning is None:
        if threshold is not None:
            raise MethodError(f"the rule {rule} has no threshold")
        return 0.0
    if threshold is None:
        raise MethodError(f"the rule {rule} needs a threshold: {meaning}")
    number = real_number(threshold)
    if number is None or math.isnan(number) or number < 0:
        raise MethodError(
            f"the rule {rule} takes a threshold from 0 ({meaning}), not {quoted(threshold)}"
        )
    return number
