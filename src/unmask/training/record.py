"""How far a tuning is: what a checkpoint holds beside the weights, as JSON values."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from unmask.training.tuning import Tuning


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured on the held-out texts after a number of forward passes.

    `loss` is in nats per masked token, on the same blanks every time; they are also the same for
    the masks `blanks` and `plain`, and any share of a text for `any`.
    `single_blanks` is that of the texts with one blank, None if there are none.
    `compatibility` and `marginals` are the two penalties on pairs of blanks, None if no text has
    two; `interaction` is how far the blanks move each other, which the first is relative to.
    `objective` is what is minimised: the loss, and each penalty times its weight.
    `training_loss` is the mean since the evaluation before.
    """

    passes: int
    loss: float
    compatibility: float | None
    marginals: float | None
    objective: float
    training_loss: float | None
    single_blanks: float | None = None
    interaction: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


@dataclass(kw_only=True)
class TrainingRecord:
    """Steps and forward passes so far, and every evaluation; changes as training goes on."""

    step: int = 0
    passes: int = 0
    tokens: int = 0
    pair_passes: int = 0
    held_out_passes: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)

    @property
    def best(self) -> Evaluation:
        """The first with the lowest objective."""
        return min(self.evaluations, key=lambda one: one.objective)

    def add(self, evaluation: Evaluation) -> bool:
        """Keep an evaluation; whether it is the best so far."""
        self.evaluations.append(evaluation)
        self.losses.clear()
        return self.best is evaluation

    def is_due(self, tuning: Tuning) -> bool:
        """Whether the held-out texts are to be measured now: so often, evenly, and at both ends."""
        assert tuning.passes is not None
        if not self.evaluations:
            return True
        last = self.evaluations[-1].passes
        parts = tuning.evaluations
        # in whole numbers, so that no rounding moves the last one
        return (
            self.passes > last
            and self.passes * parts // tuning.passes > last * parts // tuning.passes
        )

    def is_over(self, tuning: Tuning) -> bool:
        """Whether the passes are used up, or patience is."""
        assert tuning.passes is not None
        return self.passes >= tuning.passes or self.has_stalled(tuning)

    def has_stalled(self, tuning: Tuning) -> bool:
        """Whether the last `patience` evaluations brought no improvement."""
        since = len(self.evaluations) - 1 - self.evaluations.index(self.best)
        return 0 < tuning.patience <= since

    def mean_loss(self) -> float | None:
        """Of the batches since the last evaluation."""
        return math.fsum(self.losses) / len(self.losses) if self.losses else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingRecord":
        """Read back what `to_dict` made."""
        each = [Evaluation(**one) for one in values["evaluations"]]
        return cls(**{**values, "evaluations": each})
