"""Rules of parallel decoding, as functions: they decide which blanks are filled in the same step.

A rule reads what one forward pass says of the blanks that are still open, and returns some of them,
by their numbers in that pass, never none: the surest at least. Surest is the blank whose likeliest
token has the largest probability, and of equals the first. Tokens that are filled in one step are
chosen independently; the error of the step is their total correlation, which pairwise dependence
approaches. A rule knows neither texts nor models.

The rules here have names, and a threshold beside the step. A caller's own rule is a function of the
step alone; one that has a parameter `attention` is handed the attention between blanks as well.
"""

import difflib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.arguments import real_number, whole_number
from unmask.errors import MethodError, UnmaskError
from unmask.lazy import computed_once
from unmask.names import DEFAULT_RULE, RULES
from unmask.printable import quoted


@dataclass(frozen=True, eq=False)
class Step:
    """The blanks that are still open, before one step fills some of them.

    Attributes:
        log_probs: A row per open blank, in the order of the text: log-probabilities over the
            support. Not to be changed.
        before: The same blanks as the step before predicted them; None in the first step.
        generator: For rules with chance; its seed is of the text, the step and the caller's seed.
        dependence: In bits, for the rules "mutual-information" and "head" alone.
    """

    log_probs: Float[Tensor, "blanks size"]
    before: Float[Tensor, "blanks size"] | None
    generator: np.random.Generator
    dependence: Float[Tensor, "blanks blanks"] | None = None

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


# a caller's own: of a step, or of a step and `attention`; returns numbers of open blanks
Rule = Callable[..., Sequence[int]]


# --- one at a time, and all at once ------------------------------------------------------------


def surest(step: Step, _: object) -> list[int]:
    """One at a time, the surest first."""
    return step.surest_first[:1]


def left_to_right(_: Step, __: object) -> list[int]:
    """One at a time, in the order of the blanks."""
    return [0]


def margin(step: Step, _: object) -> list[int]:
    """One at a time, first the blank whose likeliest token is furthest ahead of the second."""
    largest = step.log_probs.topk(min(2, step.log_probs.shape[1]), dim=1).values.exp()
    ahead = largest[:, 0] - (largest[:, 1] if largest.shape[1] > 1 else 0.0)
    return [int(ahead.argmax())]


def all_at_once(step: Step, _: object) -> list[int]:
    """All blanks in one step."""
    return list(step.surest_first)


# --- by the predictions ------------------------------------------------------------------------


def confidence(step: Step, threshold: float) -> list[int]:
    """All blanks whose likeliest token has at least this probability."""
    blanks = [n for n in step.surest_first if step.confidence[n] >= threshold]
    return blanks or step.surest_first[:1]


def entropy_bound(step: Step, threshold: float) -> list[int]:
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


# --- by what blanks have to do with each other -------------------------------------------------


def dependence(step: Step, threshold: float) -> list[int]:
    """A blank joins the surer ones if its dependence on them adds up to less than the threshold.

    In bits: of measured mutual information, or predicted by a head, as DEMASK does (2604.02560).
    """
    if step.dependence is None:
        raise MethodError("this rule reads the dependence between blanks; give it with the step")
    blanks, bits = step.surest_first[:1], step.dependence.tolist()
    for blank in step.surest_first[1:]:
        if sum(bits[blank][other] for other in blanks) < threshold:
            blanks.append(blank)
    return blanks


FUNCTIONS: dict[str, Callable[[Step, Any], list[int]]] = {
    "surest": surest,
    "left-to-right": left_to_right,
    "margin": margin,
    "all-at-once": all_at_once,
    "confidence": confidence,
    "entropy-bound": entropy_bound,
    "mutual-information": dependence,
    "head": dependence,
}


def checked_rule(
    rule: Any, threshold: object, passes: object = None
) -> tuple[str | Rule, float | None]:
    """A rule, the default one for None, and its threshold; None if it has none.

    With `passes` it is "head", whose threshold then depends on the number of blanks.
    """
    if passes is not None:
        count = real_number(passes)
        if count is None or not 1 <= count < math.inf:
            raise UnmaskError(f"passes is a number of forward passes from 1, not {quoted(passes)}")
        if rule not in (None, "head") or threshold is not None:
            raise MethodError(
                "passes chooses the threshold of the rule head; give no threshold and no other rule"
            )
        return "head", None
    if callable(rule):
        if threshold is not None:
            raise MethodError(
                "a rule that is a function has no threshold; bind its own with functools.partial"
            )
        return rule, None
    name = DEFAULT_RULE if rule is None else rule
    if not isinstance(name, str) or name not in RULES:
        near = difflib.get_close_matches(str(name), RULES, n=1)
        hint = f"did you mean {quoted(near[0])}? Rules" if near else "rules"
        raise MethodError(f"no rule {quoted(name)}; {hint}: {', '.join(RULES)}")
    unit, default, most = RULES[name]
    if threshold is None:
        if unit is not None and default is None:
            raise MethodError(f"the rule {name} needs a threshold: {unit}")
        return name, default
    if unit is None:
        raise MethodError(f"the rule {name} has no threshold")
    number = real_number(threshold)
    if number is None or not 0 <= number <= most:
        bounds = "from 0" if most == math.inf else f"from 0 to {most:g}"
        raise MethodError(
            f"the rule {name} takes a threshold {bounds} ({unit}), not {quoted(threshold)}"
        )
    return name, number


def rule_name(rule: str | Rule) -> str:
    """The name of a rule, which for a function is the function's."""
    if isinstance(rule, str):
        return rule
    function = rule.func if isinstance(rule, partial) else rule
    return str(getattr(function, "__name__", type(function).__name__))


def asks_for_attention(rule: Rule) -> bool:
    """True for a function that has a parameter `attention`."""
    try:
        return "attention" in inspect.signature(rule).parameters
    except (TypeError, ValueError):  # functions of compiled modules show none
        return False


def own_choice(rule: Rule, step: Step, attention: Tensor | None) -> list[int]:
    """The blanks that a caller's own rule fills, checked: at least one, each once."""
    answer = rule(step) if attention is None else rule(step, attention=attention)
    count = len(step.log_probs)
    listed: object = answer.tolist() if hasattr(answer, "tolist") else answer
    blanks = [whole_number(blank) for blank in listed] if isinstance(listed, Sequence) else []
    places = [blank for blank in blanks if blank is not None and 0 <= blank < count]
    if not places or len(set(places)) != len(blanks):
        raise MethodError(
            f"the rule {quoted(rule_name(rule))} returned {quoted(answer)} for {count} open "
            f"blanks; a rule returns at least one number from 0 to {count - 1}, each once"
        )
    return places
