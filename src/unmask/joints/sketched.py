"""What a joint of a sketch has beyond its axes: tokens that are not on them, and error bars."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from unmask.text.support import Support, Token, place_at_blank


class _HasAxes(Protocol):
    @property
    def supports(self) -> tuple[Support, ...]: ...


# chosen on dev pairs, so that two standard errors held 95% of the exact values
_WIDENED = 1.3
# a sketch knows no number better than this, in nats or bits
_LEAST_ERROR = 0.001
_ROUNDING = 1e-5

Joint = TypeVar("Joint", bound=_HasAxes)


@dataclass(frozen=True, eq=False)
class Sketched(Generic[Joint]):
    """The whole axes behind a sketch, the joint with further tokens, and its replicates.

    `holding` takes tokens, as places on the whole axes, by blank; a replicate is the same joint
    from other weights, as another sample might have had them. `missing_entropy` is what the entropy
    of some blanks, in nats, lacks in the cells of the sketch.
    """

    whole: tuple[Support, ...]
    holding: Callable[[Mapping[int, int]], Joint]
    replicates: Callable[[], Sequence[Joint]]
    diagnostics: Callable[[], Mapping[str, object]]
    missing_entropy: Callable[[Sequence[int]], float] = lambda _: 0.0

    def at(self, joint: Joint, tokens: Mapping[int, Token]) -> tuple[Joint, dict[int, int]]:
        """The joint, with these tokens on its axes, and where they stand there."""
        places = {axis: place_at_blank(self.whole, axis, token) for axis, token in tokens.items()}
        ids = {axis: int(self.whole[axis].ids[place]) for axis, place in places.items()}
        if any(joint.supports[axis].place_of_id(one) is None for axis, one in ids.items()):
            joint = self.holding(places)
        return joint, {axis: joint.supports[axis].index(one) for axis, one in ids.items()}

    def marginal(self, axes: Sequence[int], derive: Callable[[Joint], Joint]) -> "Sketched[Joint]":
        """The same of the distribution of some blanks."""
        return replace(
            self.derived(axes, derive),
            missing_entropy=lambda kept: self.missing_entropy([axes[axis] for axis in kept]),
        )

    def derived(self, axes: Sequence[int], derive: Callable[[Joint], Joint]) -> "Sketched[Joint]":
        """The same of a distribution of some blanks that is computed from the joint's."""

        def holding(places: Mapping[int, int]) -> Joint:
            return derive(self.holding({axes[axis]: place for axis, place in places.items()}))

        return Sketched(
            tuple(self.whole[axis] for axis in axes),
            holding,
            lambda: [derive(one) for one in self.replicates()],
            self.diagnostics,
        )


def spread(value: float, others: Sequence[float]) -> float:
    """How far replicates are from a value: the root of the mean square, a standard error.

    Widened: replicates know only what was drawn, and the rare token that was not and carries much
    is in none of them.
    """
    squares = math.fsum((other - value) ** 2 for other in others)
    error = _WIDENED * math.sqrt(squares / max(1, len(others)))
    # what differs by rounding alone was not sampled
    return error if error < _ROUNDING else math.hypot(error, _LEAST_ERROR)
