"""The distribution a person holds: one axis a blank, whatever built it.

Everything is a reduction over one primitive, `scores(rows)`: the unnormalised log joint for
some rows of the first axis, over all of the others. Nothing here knows of models or tables,
and nothing assumes two blanks.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import NumericsError, SupportError
from unmask.joints.agreement import Agreement
from unmask.joints.export import UNITS, as_data_frame, as_text
from unmask.joints.fill import Fill, best_cells
from unmask.joints.odds import changes, log_odds
from unmask.joints.tile_sums import log_marginal
from unmask.logspace import draw, log_sum_exp_by_column, log_zeros, row_blocks
from unmask.printable import quoted
from unmask.text.support import Support, Token, place_at_blank

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Scores = Callable[[slice], Tensor]
# fills are ranked for a few lines of text only where that takes well under a second
_CELLS_RANKED_IN_TEXT = 2**25


def rows_of(table: Tensor, rows: slice) -> Tensor:
    """Some rows of a table, for a `partial` of it: unlike a lambda, that can be pickled."""
    return table[rows]


class Joint:
    """An explicit distribution over the tokens that fill the blanks together."""

    def __init__(
        self,
        scores: Scores,
        supports: tuple[Support, ...],
        *,
        method: str,
        diagnostics: Mapping[str, object] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.scores = scores
        self.supports = supports
        self.method = method
        self._diagnostics = dict(diagnostics or {})
        self._device = device or torch.device("cpu")
        self._ranked: dict[int, list[Fill]] = {}
        self.measure_agreement: Callable[[], Agreement | None] = _not_measured

    @classmethod
    def from_scores(
        cls,
        table: Float[Tensor, "..."],
        supports: tuple[Support, ...],
        *,
        method: str = "given",
        diagnostics: Mapping[str, object] | None = None,
    ) -> "Joint":
        """A joint from a table of unnormalised log-probabilities, one axis a blank."""
        sizes = tuple(len(axis) for axis in supports)
        if tuple(table.shape) != sizes:
            raise SupportError(
                f"a table of shape {tuple(table.shape)} does not fit axes of {sizes}"
            )
        return cls(
            partial(rows_of, table.double()),
            supports,
            method=method,
            diagnostics=diagnostics,
            device=table.device,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """How many tokens each blank ranges over."""
        return tuple(len(axis) for axis in self.supports)

    @property
    def diagnostics(self) -> dict[str, object]:
        """What was done to get this joint, and how: passes, residuals, storage, captured mass."""
        return {"method": self.method, **self._diagnostics}

    def log_rows(self, rows: slice) -> Float[Tensor, " block *others"]:
        """Normalised log-probabilities for some rows of the first axis."""
        return self.scores(rows) - self.log_normalizer

    def log_prob(self, *tokens: Token) -> float:
        """The log-probability, in nats, that these tokens (names or ids) fill the blanks."""
        first, *others = self._cell(tokens)
        row = self.log_rows(slice(first, first + 1))[0]
        return float(row[tuple(others)])

    def marginal(self, *axes: int) -> "Joint":
        """The distribution of one blank, or of some, whatever fills the others."""
        for axis in axes:
            self._check_axis(axis)
        if not axes or len(set(axes)) < len(axes):
            raise SupportError(f"marginal takes one or more blanks, each once, not {quoted(axes)}")
        if axes == tuple(range(len(self.supports))):
            # nothing is summed out, so that no table need be made
            return self
        self._check_room(axes)
        if len(axes) == 1:
            scores = self._log_marginals[axes[0]] - self.log_normalizer
        else:
            scores = log_marginal(self._tiles(), self.shape, axes)
        supports = tuple(self.supports[axis] for axis in axes)
        return Joint.from_scores(
            scores, supports, method=self.method, diagnostics=self._diagnostics
        )

    def conditional(self, axis: int, *, given: Mapping[int, Token]) -> "Joint":
        """The distribution of one blank given tokens for others; the rest are summed out."""
        self._check_axis(axis)
        if not isinstance(given, Mapping):
            other = int(axis == 0)
            raise SupportError(
                f"given is a dictionary from blanks to tokens, as given={{{other}: "
                f"{self.supports[min(other, len(self.supports) - 1)].names[0]!r}}}, not "
                f"{quoted(given)}"
            )
        for blank in given:
            self._check_axis(blank)
        if axis in given:
            raise SupportError(f"blank {axis} cannot be both asked for and given")
        if not given:
            raise SupportError("a conditional needs given={axis: token}; without one use marginal")
        places = {
            other: place_at_blank(self.supports, other, token) for other, token in given.items()
        }
        return Joint.from_scores(
            self._log_slice(axis, places),
            (self.supports[axis],),
            method=self.method,
            diagnostics=self._diagnostics,
        )

    def top(self, n: int = 10) -> list[Fill]:
        """The `n` likeliest fills, best first; ties go to the lower token index."""
        if (whole_number(n) or 0) < 1:
            raise SupportError(f"top takes a number of fills from 1, not {quoted(n)}")
        if n not in self._ranked:
            self._ranked[n] = [self._fill(cell, score) for cell, score in self._best(n)]
        return list(self._ranked[n])

    def sample(self, n: int, *, generator: torch.Generator | None = None) -> list[Fill]:
        """Independent exact samples: first the marginal of blank 0, then its conditional.

        The generator is a CPU generator, so that a seed gives the same draws on every device.
        """
        check_draws(n, generator)
        uniforms = torch.rand(2, n, dtype=torch.float64, generator=generator).to(self._device)
        first = draw(self._log_marginals[0], uniforms[0])
        fills: list[Fill | None] = [None] * n
        for rows in self._blocks():
            drawn = torch.nonzero((first >= rows.start) & (first < rows.stop))[:, 0].tolist()
            tile = self.scores(rows) if drawn else None
            for k in drawn:
                assert tile is not None
                row = tile[int(first[k]) - rows.start].reshape(-1)
                rest = int(draw(row, uniforms[1, k : k + 1])) if row.numel() > 1 else 0
                others = [int(i) for i in torch.unravel_index(torch.tensor(rest), self.shape[1:])]
                fills[k] = self._fill((int(first[k]), *others), float(row[rest]))
        return [fill for fill in fills if fill is not None]

    def entropy(self, *, base_two: bool = False) -> float:
        """Shannon entropy in nats, or bits."""
        return self._entropy / (math.log(2) if base_two else 1.0)

    def mutual_information(self, *, base_two: bool = False) -> float:
        """How much the blanks tell about each other, in nats or bits; 0 when independent.

        With more than two blanks this is their total correlation.
        """
        marginal = sum(self.marginal(axis).entropy() for axis in range(len(self.supports)))
        return (marginal - self._entropy) / (math.log(2) if base_two else 1.0)

    def sums_are_free(self) -> bool:
        """Whether sums over whole blanks (entropy, marginals) run no further row of the model."""
        return True

    def incompatibility(self) -> float | None:
        """J, in bits: how far the conditionals that this was built from contradict each other.

        0 when one distribution has both, at most 1; None unless both tables were elicited.
        """
        return agreement.bits if (agreement := self.agreement()) else None

    def agreement(self) -> Agreement | None:
        """J with what it says in plain words, and whether its solver converged."""
        return self.measure_agreement()

    def pmi(self, *tokens: Token, base_two: bool = False) -> float:
        """Pointwise mutual information: log of the joint over the product of its marginals.

        In nats, or bits; `plot(kind="pmi")` draws it in bits.
        """
        cell = self._cell(tokens)
        apart = sum(float(log[i]) for log, i in zip(self._log_marginals, cell, strict=True))
        apart -= len(cell) * self.log_normalizer
        return (self.log_prob(*tokens) - apart) / (math.log(2) if base_two else 1.0)

    def log_odds(
        self, mutant: Sequence[Token], wildtype: Sequence[Token], *, base_two: bool = False
    ) -> float:
        """How much likelier one fill is than another: log p(mutant) / p(wildtype), nats or bits."""
        return log_odds(self, mutant, wildtype) / (math.log(2) if base_two else 1.0)

    def interaction(
        self, mutant: Sequence[Token], wildtype: Sequence[Token], *, base_two: bool = False
    ) -> float:
        """Epistasis: log-odds of all changes together less those of each alone; see `odds`.

        In nats, or bits. 0 where the blanks are independent, or fewer than two of them change.
        """
        return changes(self, mutant, wildtype).interaction / (math.log(2) if base_two else 1.0)

    def to_dict(self, n: int = 10) -> dict[str, object]:
        """The likeliest fills and the summary numbers that are free, ready for JSON."""
        free = self.sums_are_free()
        return {
            "method": self.method,
            "shape": list(self.shape),
            "fills": [fill.to_dict() for fill in self.top(n)],
            "entropy": self.entropy() if free else None,
            "mutual_information": self.mutual_information() if free else None,
            "incompatibility": self.incompatibility(),
            "units": UNITS,
            "diagnostics": self.diagnostics,
        }

    def to_pandas(self, n: int = 100) -> "pd.DataFrame":
        """The likeliest fills as a data frame, a row each."""
        return as_data_frame(self.top(n))

    def plot(self, n: int = 12, *, kind: str = "probability") -> "Figure":
        """A heat map of the `n` likeliest tokens of two blanks; one blank in bars.

        `kind` is "probability", or "pmi" in bits.
        """
        from unmask.plots.heat_map import plot

        return plot(self, n, kind=kind)

    def __repr__(self) -> str:
        """What it is, with the likeliest fills where ranking them is cheap."""
        size = math.prod(self.shape)
        cheap = size <= _CELLS_RANKED_IN_TEXT and self.sums_are_free()
        return as_text(self.method, self.shape, self.top(min(5, size)) if cheap else None)

    @cached_property
    def log_normalizer(self) -> float:
        """The logarithm of the sum of all exponentiated scores."""
        log_normalizer = float(torch.logsumexp(self._log_marginals[0], dim=0))
        if not math.isfinite(log_normalizer):
            raise NumericsError(f"the joint by {self.method} has a normaliser of {log_normalizer}")
        return log_normalizer

    def _best(self, n: int) -> list[tuple[tuple[int, ...], float]]:
        return best_cells(self._tiles(), n)

    def _blocks(self) -> list[slice]:
        return row_blocks(self.shape[0], math.prod(self.shape[1:]))

    def _tiles(self) -> Iterator[tuple[slice, Tensor]]:
        return ((rows, self.scores(rows)) for rows in self._blocks())

    @cached_property
    def _log_marginals(self) -> tuple[Tensor, ...]:
        """Unnormalised log marginals of every axis, in one pass."""
        first, *others = (log_zeros(size, device=self._device) for size in self.shape)
        for rows, tile in self._tiles():
            first[rows] = torch.logsumexp(tile.reshape(len(tile), -1), dim=1)
            for axis, running in enumerate(others):
                flat = tile.movedim(axis + 1, -1).reshape(-1, running.shape[0])
                running[:] = log_sum_exp_by_column(running, flat)
        return (first, *others)

    @cached_property
    def _entropy(self) -> float:
        total = 0.0
        for _, tile in self._tiles():
            log_p = tile - self.log_normalizer
            total -= float(torch.special.xlogy(log_p.exp(), log_p.exp()).sum())
        return total

    def _log_slice(self, axis: int, places: dict[int, int]) -> Float[Tensor, " size"]:
        """Scores of one axis with some others fixed and the rest summed out."""
        fixed = places.get(0)
        blocks = self._blocks() if fixed is None else [slice(fixed, fixed + 1)]
        sums = log_zeros(self.shape[axis], device=self._device)
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

    def _fill(self, cell: tuple[int, ...], score: float) -> Fill:
        axes = list(zip(self.supports, cell, strict=True))
        return Fill(
            tokens=tuple(axis.names[place] for axis, place in axes),
            ids=tuple(int(axis.ids[place]) for axis, place in axes),
            log_prob=score - self.log_normalizer,
        )

    def _cell(self, tokens: tuple[Token, ...]) -> tuple[int, ...]:
        if len(tokens) != len(self.supports):
            raise SupportError(
                f"{len(self.supports)} blanks need that many tokens, not {len(tokens)}"
            )
        return tuple(
            place_at_blank(self.supports, axis, token) for axis, token in enumerate(tokens)
        )

    def _check_room(self, axes: tuple[int, ...]) -> None:
        """Raise where a table over these blanks would be larger than the memory allowed."""

    def _check_axis(self, axis: int) -> None:
        if not isinstance(axis, int) or not 0 <= axis < len(self.supports):
            raise SupportError(
                f"there is no blank {axis!r}; blanks count from 0 to {len(self.supports) - 1}"
            )


def check_draws(n: object, generator: object) -> None:
    """Raise unless this is a number of draws, and what they are drawn with."""
    draws = whole_number(n)
    if draws is None or draws < 0:
        raise SupportError(f"sample takes a number of draws from 0, not {quoted(n)}")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise SupportError(
            "generator is a torch.Generator, as torch.Generator().manual_seed(1), or None, not "
            f"{quoted(generator)}"
        )


def _not_measured() -> None:
    """J of a joint that no tables are known of."""
