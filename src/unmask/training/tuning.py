"""How a model is tuned: all that its weights depend on beside the model and the texts."""

import math
from dataclasses import dataclass

from unmask.arguments import real_number, whole_number
from unmask.errors import UnmaskError
from unmask.printable import quoted

MASKS = ("blanks", "plain", "any")
KEPT = ("best", "last")
# forward passes per text when no number is given: three times through the texts
PASSES_PER_TEXT = 3
# the part of the forward passes over which the learning rate rises
_WARM_UP = 0.06


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Which tokens are masked, which penalties are added, and for how many forward passes.

    `masks` is `blanks` (one token, two adjacent, two random or a span), `plain` (BERT's 15%) or
    `any` (a share of the tokens uniform in (0, 1], as masked diffusion trains).
    `compatibility` and `marginals` are the weights of the two penalties, measured for pairs of
    blanks on `tokens` tokens per blank, in every `every`-th batch. `passes` counts the sequences
    that the model runs on in training, None three per text; `batch_tokens` the tokens of a
    batch, with padding. The held-out texts are measured `evaluations` times, and after `patience`
    of them without an improvement training ends (0: never). `keep` is `best` or `last`: which
    weights the result has.

    Examples:
        >>> from unmask.training import Tuning
        >>> Tuning(masks="any", passes=1000).patience
        3
    """

    masks: str = "blanks"
    compatibility: float = 0.0
    marginals: float = 0.0
    tokens: int = 8
    every: int = 2
    passes: int | None = None
    learning_rate: float = 5e-5
    batch_tokens: int = 2048
    evaluations: int = 10
    patience: int = 3
    keep: str = "best"
    bfloat16: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject values that mean nothing."""
        _check_name("masks", self.masks, MASKS)
        _check_name("keep", self.keep, KEPT)
        for name in ("compatibility", "marginals"):
            _check_real(name, getattr(self, name), allow_zero=True)
        _check_real("learning_rate", self.learning_rate, allow_zero=False)
        least = {"tokens": 2, "every": 1, "batch_tokens": 1, "evaluations": 1, "patience": 0}
        for name, lowest in least.items():
            _check_whole(name, getattr(self, name), lowest)
        if self.passes is not None:
            _check_whole("passes", self.passes, 1)
        if whole_number(self.seed) is None:
            raise UnmaskError(f"seed is a whole number, not {quoted(self.seed)}")
        if not isinstance(self.bfloat16, bool):
            raise UnmaskError(f"bfloat16 is True or False, not {quoted(self.bfloat16)}")

    @property
    def has_penalty(self) -> bool:
        """Whether pairs of blanks are run at all."""
        return self.compatibility > 0 or self.marginals > 0

    def learning_rate_at(self, before: int, after: int) -> float:
        """Linear up over the first passes and down to 0, for a step between two counts of them."""
        assert self.passes is not None
        rising = max(1.0, _WARM_UP * self.passes)
        falling = max(1.0, self.passes - rising)
        return self.learning_rate * min(1.0, after / rising, (self.passes - before) / falling)


def _check_name(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UnmaskError(f"{name} is one of {', '.join(allowed)}, not {quoted(value)}")


def _check_real(name: str, value: object, *, allow_zero: bool) -> None:
    number = real_number(value)
    if number is None or not 0 <= number < math.inf or (number == 0 and not allow_zero):
        least = "from 0" if allow_zero else "above 0"
        raise UnmaskError(f"{name} is a finite number {least}, not {quoted(value)}")


def _check_whole(name: str, value: object, least: int) -> None:
    number = whole_number(value)
    if number is None or number < least:
        raise UnmaskError(f"{name} is a whole number from {least}, not {quoted(value)}")
