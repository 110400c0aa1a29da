"""Tokens of a sketch's joint that are not on its axes, and its error bars."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.joints.weighted import Weighted
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

    `holding` takes tokens, as places on the whole axes, by blank. `log_probs` are those of cells
    under every weighting of the sketch, a row each and the sample's own first; `summaries` are the
    summary numbers likewise. A replicate is such a row; `replicates` are joints made of them, for
    functions of a joint. `missing_entropy` is what the entropy of some blanks, in nats, lacks in
    the cells of the sketch. `weighted` is there for a joint of both blanks.
    """

    whole: tuple[Support, ...]
    holding: Callable[[Mapping[int, int]], Joint]
    log_probs: Callable[[Int[Tensor, "cells blanks"]], Float[Tensor, "weightings cells"]]
    replicates: Callable[[], Iterable[Joint]]
    diagnostics: Callable[[], Mapping[str, object]]
    missing_entropy: Callable[[Sequence[int]], float] = lambda _: 0.0
    summaries: Callable[[], Mapping[str, Float[Tensor, " weightings"]]] | None = None
    weighted: Weighted | None = None

    def at(self, joint: Joint, tokens: Mapping[int, Token]) -> tuple[Joint, dict[int, int]]:
        """The joint, with these tokens on its axes, and where they stand there."""
        places = {axis: place_at_blank(self.whole, axis, token) for axis, token in tokens.items()}
        ids = {axis: int(self.whole[axis].ids[place]) for axis, place in places.items()}
        if any(joint.supports[axis].place_of_id(token) is None for axis, token in ids.items()):
            joint = self.holding(places)
        return joint, {axis: joint.supports[axis].index(token) for axis, token in ids.items()}

    def marginal(self, axes: Sequence[int], derive: Callable[[Joint], Joint]) -> "Sketched[Joint]":
        """The same of one of both blanks, or of both in the other order."""

        def log_probs(cells: Tensor) -> Tensor:
            if len(axes) == 2:
                return self.log_probs(cells[:, list(axes)])
            assert self.weighted is not None
            return self.weighted.log_marginals(axes[0])[:, cells[:, 0]]

        def missing(of: Sequence[int]) -> float:
            return self.missing_entropy([axes[axis] for axis in of])

        return replace(self._derived(axes, derive, log_probs), missing_entropy=missing)

    def conditional(
        self, axis: int, place: int, derive: Callable[[Joint], Joint]
    ) -> "Sketched[Joint]":
        """The same of one of both blanks, given a place of the other."""
        assert self.weighted is not None
        weighted = self.weighted
        return self._derived(
            [axis], derive, lambda cells: weighted.log_conditionals(axis, place)[:, cells[:, 0]]
        )

    def _derived(
        self,
        axes: Sequence[int],
        derive: Callable[[Joint], Joint],
        log_probs: Callable[[Tensor], Tensor],
    ) -> "Sketched[Joint]":
        def holding(places: Mapping[int, int]) -> Joint:
            return derive(self.holding({axes[axis]: place for axis, place in places.items()}))

        return Sketched(
            tuple(self.whole[axis] for axis in axes),
            holding,
            log_probs,
            lambda: map(derive, self.replicates()),
            self.diagnostics,
        )


def spread(values: Tensor) -> Tensor:
    """The distance of replicates from the first row: the root of the mean square, a standard error.

    Widened: replicates know only what was drawn, and the rare token that was not and carries much
    is in none of them.
    """
    squares = (values[1:] - values[0]).square().sum(dim=0) / max(1, len(values) - 1)
    errors = _WIDENED * squares.sqrt()
    # what differs by rounding alone was not sampled
    return torch.where(errors < _ROUNDING, errors, errors.hypot(errors.new_tensor(_LEAST_ERROR)))
