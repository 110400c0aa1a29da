"""The distribution that a user holds: one axis per blank, whatever built it.

A joint checks its arguments, turns tokens into places and back, and leaves the numbers to its
engine. Nothing here knows of models or tables, and nothing assumes two blanks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import SupportError
from unmask.joints.agreement import UNITS, Agreement
from unmask.joints.engine import Engine, Scores
from unmask.joints.fill import Fill
from unmask.joints.odds import changes, fill_ids, log_odds
from unmask.printable import columns, printable, quoted
from unmask.text.support import Support, Token, place_at_blank

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# fills are ranked for a few lines of text only where that takes well under a second
_CELLS_RANKED_IN_TEXT = 2**25


@final
class Joint:
    """An explicit distribution over the tokens that fill the blanks together.

    Of your own numbers: `Joint.from_scores(table, supports)`, or `Joint(scores, supports)` with a
    function that returns the unnormalised log joint of some rows of the first axis.
    """

    def __init__(
        self,
        engine: Engine | Scores,
        supports: tuple[Support, ...],
        *,
        method: str = "given",
        diagnostics: Mapping[str, object] | None = None,
        agreement: Callable[[], Agreement | None] | None = None,
    ) -> None:
        sizes = tuple(len(axis) for axis in supports)
        if not isinstance(engine, Engine):
            engine = Engine(sizes, engine, torch.device("cpu"))
        if engine.shape != sizes:
            raise SupportError(f"a table of shape {engine.shape} does not fit axes of {sizes}")
        self.engine = engine
        self.supports, self.method = supports, method
        self._diagnostics = dict(diagnostics or {})
        self._agreement = agreement
        self._ranked: dict[int, list[Fill]] = {}

    @classmethod
    def from_scores(
        cls,
        table: Float[Tensor, "..."],
        supports: tuple[Support, ...],
        *,
        method: str = "given",
        diagnostics: Mapping[str, object] | None = None,
    ) -> "Joint":
        """A joint from a table of unnormalised log-probabilities, one axis per blank."""
        return cls(Engine.of_table(table), supports, method=method, diagnostics=diagnostics)

    def named(
        self,
        method: str,
        diagnostics: Mapping[str, object] | None = None,
        agreement: Callable[[], Agreement | None] | None = None,
    ) -> "Joint":
        """The same distribution under another name, with more diagnostics."""
        known = {**self._diagnostics, **(diagnostics or {})}
        joint = Joint(self.engine, self.supports, method=method, diagnostics=known)
        joint._agreement = agreement or self._agreement
        return joint

    @property
    def shape(self) -> tuple[int, ...]:
        """How many tokens each blank ranges over."""
        return tuple(len(axis) for axis in self.supports)

    @property
    def diagnostics(self) -> dict[str, object]:
        """What was done to get this joint, and how: passes, residuals, storage, captured mass."""
        return {"method": self.method, **self._diagnostics, **self.engine.diagnostics()}

    @property
    def log_normalizer(self) -> float:
        """The logarithm of the sum of all exponentiated scores."""
        return self.engine.log_normalizer

    def scores(self, rows: slice) -> Float[Tensor, " block *others"]:
        """The unnormalised log joint for some rows of the first axis."""
        return self.engine.scores(rows)

    def log_rows(self, rows: slice) -> Float[Tensor, " block *others"]:
        """Normalised log-probabilities for some rows of the first axis."""
        return self.scores(rows) - self.log_normalizer

    def log_prob(self, *tokens: Token) -> float:
        """The log-probability, in nats, that these tokens (names or ids) fill the blanks."""
        score = self.engine.scores_of(torch.tensor([self._cell(tokens)]))[0]
        return float(score) - self.log_normalizer

    def marginal(self, *axes: int) -> "Joint":
        """The distribution of one blank, or of some, whatever fills the others."""
        for axis in axes:
            self._check_axis(axis)
        if not axes or len(set(axes)) < len(axes):
            raise SupportError(f"marginal takes one or more blanks, each once, not {quoted(axes)}")
        if axes == tuple(range(len(self.supports))):
            # nothing is summed out, so that no table need be made
            return self
        scores = self.engine.log_marginal(axes) - self.log_normalizer
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
            raise SupportError(f"blank {axis} cannot be both requested and given")
        if not given:
            raise SupportError("a conditional needs given={axis: token}; without one use marginal")
        places = {
            other: place_at_blank(self.supports, other, token) for other, token in given.items()
        }
        return Joint.from_scores(
            self.engine.log_marginal([axis], places),
            (self.supports[axis],),
            method=self.method,
            diagnostics=self._diagnostics,
        )

    def top(self, n: int = 10) -> list[Fill]:
        """The `n` likeliest fills, best first; ties go to the lower token index."""
        if (whole_number(n) or 0) < 1:
            raise SupportError(f"top takes a number of fills from 1, not {quoted(n)}")
        if n not in self._ranked:
            self._ranked[n] = [self._fill(cell, score) for cell, score in self.engine.best(n)]
        return list(self._ranked[n])

    def sample(self, n: int, *, generator: torch.Generator | None = None) -> list[Fill]:
        """Independent exact samples.

        The generator is a CPU generator, so that a seed gives the same draws on every device.
        """
        draws = whole_number(n)
        if draws is None or draws < 0:
            raise SupportError(f"sample takes a number of draws from 0, not {quoted(n)}")
        if generator is not None and not isinstance(generator, torch.Generator):
            raise SupportError(
                "generator is a torch.Generator, as torch.Generator().manual_seed(1), or None, not "
                f"{quoted(generator)}"
            )
        if not draws:
            return []
        return [self._fill(cell, score) for cell, score in self.engine.sample(draws, generator)]

    def entropy(self, *, base_two: bool = False) -> float:
        """Shannon entropy in nats, or bits."""
        return self.engine.entropy / (math.log(2) if base_two else 1.0)

    def mutual_information(self, *, base_two: bool = False) -> float:
        """How much the blanks tell about each other, in nats or bits; 0 when independent.

        With more than two blanks this is their total correlation.
        """
        marginal = sum(self.marginal(axis).entropy() for axis in range(len(self.supports)))
        return (marginal - self.engine.entropy) / (math.log(2) if base_two else 1.0)

    def is_tabulated(self) -> bool:
        """Whether sums over whole blanks (entropy, marginals) run no further row of the model."""
        return self.engine.is_tabulated()

    def incompatibility(self) -> float | None:
        """J, in bits: how far the conditionals that this was built from contradict each other.

        0 when one distribution has both, at most 1; None unless both tables were elicited.
        """
        return agreement.bits if (agreement := self.agreement()) else None

    def agreement(self) -> Agreement | None:
        """J with what it says in plain words, and whether its solver converged."""
        return None if self._agreement is None else self._agreement()

    def pmi(self, *tokens: Token, base_two: bool = False) -> float:
        """Pointwise mutual information: log of the joint over the product of its marginals.

        In nats, or bits; `plot(kind="pmi")` draws it in nats.
        """
        cell = self._cell(tokens)
        apart = sum(float(log[i]) for log, i in zip(self.engine.log_marginals, cell, strict=True))
        apart -= len(cell) * self.log_normalizer
        return (self.log_prob(*tokens) - apart) / (math.log(2) if base_two else 1.0)

    def log_odds(
        self, mutant: Sequence[Token], wildtype: Sequence[Token], *, base_two: bool = False
    ) -> float:
        """How much likelier one fill is than another: log p(mutant) / p(wildtype), nats or bits."""
        one, other = (
            fill_ids(self.supports, fill, name)
            for fill, name in ((mutant, "mutant"), (wildtype, "wildtype"))
        )
        return log_odds(self.log_prob, one, other) / (math.log(2) if base_two else 1.0)

    def interaction(
        self, mutant: Sequence[Token], wildtype: Sequence[Token], *, base_two: bool = False
    ) -> float:
        """Epistasis: log-odds of all changes together less those of each alone; see `odds`.

        In nats, or bits. 0 where the blanks are independent, or fewer than two of them change.
        """
        found = changes(self.supports, self.log_prob, mutant, wildtype)
        return found.interaction / (math.log(2) if base_two else 1.0)

    def to_dict(self, n: int = 10) -> dict[str, object]:
        """The likeliest fills and the summary numbers that are free, ready for JSON."""
        free = self.is_tabulated()
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
        try:
            import pandas as pd
        except ImportError:
            said = "to_pandas needs pandas: pip install 'unmask[pandas]', or use to_dict"
            raise ImportError(said) from None
        rows = [
            {
                **{f"token_{axis}": token for axis, token in enumerate(fill.tokens)},
                **{f"id_{axis}": token_id for axis, token_id in enumerate(fill.ids)},
                "probability": fill.probability,
                "log_prob": fill.log_prob,
            }
            for fill in self.top(n)
        ]
        return pd.DataFrame(rows)

    def plot(self, n: int = 12, *, kind: str = "probability") -> "Figure":
        """A heat map of the `n` likeliest tokens of two blanks; one blank in bars.

        `kind` is "probability", or "pmi" in nats.
        """
        from unmask.plots.heat_map import plot

        return plot(self, n, kind=kind)

    def __repr__(self) -> str:
        """What it is, with the likeliest fills where ranking them is cheap."""
        size, count = math.prod(self.shape), len(self.shape)
        axes = " x ".join(f"{length:,}" for length in self.shape)
        head = f"Joint over {count} blank{'s' * (count != 1)} ({axes} tokens) by {self.method}"
        if size > _CELLS_RANKED_IN_TEXT or not self.is_tabulated():
            return f"<{head}; .top(5) ranks its fills>"
        fills = self.top(min(5, size))
        table = [[f"{fill.probability:.4f}", *map(printable, fill.tokens)] for fill in fills]
        return f"<{head}>\n{columns(table)}"

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

    def _check_axis(self, axis: int) -> None:
        if not isinstance(axis, int) or not 0 <= axis < len(self.supports):
            raise SupportError(
                f"there is no blank {axis!r}; blanks count from 0 to {len(self.supports) - 1}"
            )
