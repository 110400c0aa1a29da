"""Where a joint's numbers come from. An engine knows places on axes, nothing of tokens.

`Tiles` reduces one primitive, the scores of some rows of the first axis over all of the others: the
unnormalised log joint. Other engines know shorter ways, or need fewer rows of the model.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import NumericsError
from unmask.joints.fill import best_cells
from unmask.joints.tile_sums import log_marginal
from unmask.lazy import computed_once
from unmask.logspace import draw, log_sum_exp_by_column, log_zeros, row_blocks

Scores = Callable[[slice], Tensor]
Cell = tuple[int, ...]
# a cell and its unnormalised log-probability
Scored = tuple[Cell, float]


class Engine(ABC):
    """What a joint asks; scores and their sums are unnormalised logarithms in float64."""

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def log_normalizer(self) -> float:
        """The logarithm of the sum of all exponentiated scores."""

    @property
    @abstractmethod
    def log_marginals(self) -> tuple[Tensor, ...]:
        """Log-sums over all other blanks, one tensor per blank."""

    @property
    @abstractmethod
    def entropy(self) -> float:
        """Shannon entropy of the normalised joint, in nats."""

    @abstractmethod
    def scores(self, rows: slice) -> Float[Tensor, " block *others"]:
        """Scores of some rows of the first axis, over all of the others."""

    @abstractmethod
    def scores_of(self, cells: Int[Tensor, "cells blanks"]) -> Float[Tensor, " cells"]:
        """The scores of some cells; rows of the model that they share run once."""

    @abstractmethod
    def best(self, n: int) -> list[Scored]:
        """The `n` highest cells, best first; ties go to the lower place."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None) -> list[Scored]:
        """Independent exact draws."""

    @abstractmethod
    def log_marginal(self, axes: Sequence[int]) -> Float[Tensor, "..."]:
        """Log-sums over the blanks that are not named, in the order of those that are."""

    @abstractmethod
    def log_slice(self, axis: int, places: dict[int, int]) -> Float[Tensor, " size"]:
        """Scores of one axis with some others fixed and the rest summed out."""

    @abstractmethod
    def is_tabulated(self) -> bool:
        """Whether sums over whole blanks run no further row of the model."""

    @abstractmethod
    def diagnostics(self) -> dict[str, object]:
        """What has been done so far, where that grows with what is asked."""


class Tiles(Engine):
    """An engine over a function that gives the scores of some rows."""

    def __init__(self, shape: Sequence[int], scores: Scores, device: torch.device) -> None:
        self.shape, self.device = tuple(shape), device
        self._scores = scores

    def scores(self, rows: slice) -> Float[Tensor, " block *others"]:
        """Scores of some rows of the first axis, over all of the others."""
        return self._scores(rows)

    def scores_of(self, cells: Int[Tensor, "cells blanks"]) -> Float[Tensor, " cells"]:
        """The scores of some cells."""
        found = torch.empty(len(cells), dtype=torch.float64)
        for first in cells[:, 0].unique().tolist():
            mine = cells[:, 0] == first
            row = self.scores(slice(first, first + 1))[0]
            found[mine] = row[tuple(cells[mine, 1:].T)].cpu() if row.ndim else row.cpu()
        return found

    def is_tabulated(self) -> bool:
        """Always: scores are at hand."""
        return True

    def diagnostics(self) -> dict[str, object]:
        """Nothing beyond what was known before."""
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
        for rows, tile in self.tiles():
            first[rows] = torch.logsumexp(tile.reshape(len(tile), -1), dim=1)
            for axis, running in enumerate(others):
                flat = tile.movedim(axis + 1, -1).reshape(-1, running.shape[0])
                running[:] = log_sum_exp_by_column(running, flat)
        return (first, *others)

    @computed_once
    def entropy(self) -> float:
        """Shannon entropy of the normalised joint, in nats."""
        total = 0.0
        for _, tile in self.tiles():
            log_p = tile - self.log_normalizer
            total -= float(torch.special.xlogy(log_p.exp(), log_p.exp()).sum())
        return total

    def best(self, n: int) -> list[Scored]:
        """The `n` highest cells, best first; ties go to the lower place."""
        return best_cells(self.tiles(), n)

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
                others = [int(i) for i in torch.unravel_index(torch.tensor(rest), self.shape[1:])]
                drawn[k] = ((int(first[k]), *others), float(row[rest]))
        return [drawn[k] for k in range(n)]

    def log_marginal(self, axes: Sequence[int]) -> Float[Tensor, "..."]:
        """Log-sums over the blanks that are not named, in the order of those that are."""
        if len(axes) == 1:
            return self.log_marginals[axes[0]]
        return log_marginal(self.tiles(), self.shape, axes)

    def log_slice(self, axis: int, places: dict[int, int]) -> Float[Tensor, " size"]:
        """Scores of one axis with some others fixed and the rest summed out."""
        fixed = places.get(0)
        blocks = self._blocks() if fixed is None else [slice(fixed, fixed + 1)]
        sums = log_zeros(self.shape[axis], device=self.device)
        for rows in blocks:
            tile = self.scores(rows)
            for other in sorted((o for o in places if o > 0), reverse=True):
                tile = tile.select(other, places[other]).unsqueeze(other)
            flat = tile.movedim(axis, 0).reshape(tile.shape[axis], -1)
            if axis == 0:
                sums[rows] = torch.logsumexp(flat, dim=1)
            else:
                sums[:] = torch.logaddexp(sums, torch.logsumexp(flat, dim=1))
        return sums

    def tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """All rows, some at a time."""
        return ((rows, self.scores(rows)) for rows in self._blocks())

    def _blocks(self) -> list[slice]:
        return row_blocks(self.shape[0], math.prod(self.shape[1:]))


class Table(Tiles):
    """An engine over a table of scores that is all there."""

    def __init__(self, table: Float[Tensor, "..."]) -> None:
        # not a lambda, which could not be pickled
        super().__init__(table.shape, partial(_some_rows, table.double()), table.device)


def _some_rows(table: Tensor, rows: slice) -> Tensor:
    return table[rows]
