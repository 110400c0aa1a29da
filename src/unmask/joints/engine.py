"""The source of a joint's numbers. An engine knows places on axes, nothing of tokens.

`Engine` reduces one primitive, the scores of some rows of the first axis over all of the others:
the unnormalised log joint. Its subclasses know shorter ways, or need fewer rows of the model. So
every question to a joint has one way down, whatever it was made of.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import NumericsError, SupportError
from unmask.lazy import computed_once
from unmask.logspace import (
    Scored,
    best_cells,
    draw,
    log_sum_exp_by_column,
    log_zeros,
    row_blocks,
)
from unmask.printable import readable_bytes

Scores = Callable[[slice], Tensor]


class Engine:
    """The sums of a joint; scores and their sums are unnormalised logarithms in float64."""

    def __init__(
        self,
        shape: Sequence[int],
        scores: Scores,
        device: torch.device,
        *,
        log_marginals: tuple[Tensor, ...] | None = None,
        independent: bool = False,
        memory_limit: int | None = None,
    ) -> None:
        """Scores of rows of the first axis over all of the others, and what is known of them.

        A sum over no blank makes a table, which must be within the memory limit if there is one.
        """
        self.shape, self.device = tuple(shape), device
        self.scores, self.independent, self._memory_limit = scores, independent, memory_limit
        if log_marginals is not None:
            self.log_marginals = log_marginals

    @classmethod
    def of_table(cls, table: Float[Tensor, "..."]) -> "Engine":
        """An engine over a table of scores that is all there."""
        # not a lambda, which could not be pickled
        rows = partial(Tensor.__getitem__, table.double())
        return cls(table.shape, rows, table.device)

    def log_rows(self, rows: slice) -> Tensor:
        """Log-probabilities of some rows of the first axis over all of the others."""
        return self.scores(rows) - self.log_normalizer

    def scores_of(self, cells: Int[Tensor, "cells blanks"]) -> Float[Tensor, " cells"]:
        """The scores of some cells; rows that they share are read once."""
        scores = torch.empty(len(cells), dtype=torch.float64)
        for first in cells[:, 0].unique().tolist():
            mine = cells[:, 0] == first
            row = self.scores(slice(first, first + 1))[0]
            scores[mine] = row[tuple(cells[mine, 1:].T)].cpu() if row.ndim else row.cpu()
        return scores

    def is_tabulated(self) -> bool:
        """True if sums over whole blanks run no further row of the model."""
        return True

    def diagnostics(self) -> dict[str, object]:
        """Facts of the work so far, where it grows with what is computed."""
        return {}

    @computed_once
    def log_normalizer(self) -> float:
        """The logarithm of the sum of all exponentiated scores."""
        log_normalizer = float(torch.logsumexp(self.log_marginals[0], dim=0))
        if not math.isfinite(log_normalizer):
            raise NumericsError(f"the joint has a normaliser of {log_normalizer}")
        return log_normalizer

    @computed_once
    def log_marginals(self) -> tuple[Tensor, ...]:
        """Log-sums over all other blanks, one tensor per blank, in one sweep."""
        first, *others = (log_zeros(size, device=self.device) for size in self.shape)
        for rows in self._blocks():
            tile = self.scores(rows)
            first[rows] = torch.logsumexp(tile.reshape(len(tile), -1), dim=1)
            for axis, running in enumerate(others):
                flat = tile.movedim(axis + 1, -1).reshape(-1, running.shape[0])
                running[:] = log_sum_exp_by_column(running, flat)
        return (first, *others)

    @computed_once
    def entropy(self) -> float:
        """Shannon entropy of the normalised joint, in nats."""
        if self.independent:
            each = [(log - self.log_normalizer).exp() for log in self.log_marginals]
            return sum(float(torch.special.entr(p).sum()) for p in each)
        total = 0.0
        for rows in self._blocks():
            total += float(torch.special.entr(self.log_rows(rows).exp()).sum())
        return total

    def best(self, n: int) -> list[Scored]:
        """The `n` highest cells, best first; ties go to the lower place."""
        return best_cells(((rows, self.scores(rows)) for rows in self._blocks()), n)

    def sample(self, n: int, generator: torch.Generator | None) -> list[Scored]:
        """Independent exact draws: first the marginal of blank 0, then its conditional."""
        uniforms = torch.rand(2, n, dtype=torch.float64, generator=generator).to(self.device)
        first = draw(self.log_marginals[0], uniforms[0])
        drawn: dict[int, Scored] = {}
        for rows in self._blocks():
            mine = torch.nonzero((first >= rows.start) & (first < rows.stop))[:, 0].tolist()
            tile = self.scores(rows) if mine else None
            for k in mine:
                assert tile is not None
                row = tile[int(first[k]) - rows.start].reshape(-1)
                rest = int(draw(row, uniforms[1, k : k + 1])) if row.numel() > 1 else 0
                others = map(int, np.unravel_index(rest, self.shape[1:]))
                drawn[k] = ((int(first[k]), *others), float(row[rest]))
        return [drawn[k] for k in range(n)]

    def marginal(self, axes: Sequence[int]) -> "Engine":
        """The law of some blanks, in their order."""
        return Engine.of_table(self.log_marginal(axes) - self.log_normalizer)

    def conditional(self, axis: int, places: Mapping[int, int]) -> "Engine":
        """The law of one blank given places of others."""
        return Engine.of_table(self.log_marginal([axis], places))

    def log_marginal(
        self, axes: Sequence[int], given: Mapping[int, int] | None = None
    ) -> Float[Tensor, "..."]:
        """Log-sums over the blanks that are not named, in the order of those that are.

        Blanks that are `given` stay at their places, and are not summed over.
        """
        if len(axes) == 1 and not given:
            return self.log_marginals[axes[0]]
        needed, limit = 8 * math.prod(self.shape), self._memory_limit
        if len(axes) == len(self.shape) and limit is not None and needed > limit:
            raise SupportError(
                f"marginal{tuple(axes)} makes a table of {' x '.join(map(str, self.shape))} cells, "
                f"{readable_bytes(needed)}, above the memory limit of {readable_bytes(limit)}; "
                f"raise the memory limit, or take marginal{tuple(sorted(axes))}, which makes none"
            )
        ordered = sorted(axes)
        summed = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        total = log_zeros(*(self.shape[axis] for axis in ordered), device=self.device)
        # given blanks have one place
        fixed = dict(given or {})
        first = fixed.pop(0, None)
        for rows in self._blocks() if first is None else [slice(first, first + 1)]:
            tile = self.scores(rows)
            for axis, place in fixed.items():
                tile = tile.narrow(axis, place, 1)
            part = torch.logsumexp(tile, dim=summed) if summed else tile
            if ordered[0] == 0:
                total[rows] = part
            else:
                total = torch.logaddexp(total, part)
        return total.permute([ordered.index(axis) for axis in axes])

    def _blocks(self) -> list[slice]:
        return row_blocks(self.shape[0], math.prod(self.shape[1:]))
