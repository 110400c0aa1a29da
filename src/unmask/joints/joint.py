"""The distribution that a user holds: one axis per blank, whatever built it.

A joint checks its arguments, turns tokens into places and back, and leaves the numbers to its
engine. Nothing here knows of models or tables, and nothing assumes two blanks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import NumericsError, SupportError
from unmask.joints.agreement import UNITS, Agreement
from unmask.joints.engine import Engine, Scores
from unmask.joints.fill import Fill
from unmask.joints.sketched import Estimated, Sketched, spread
from unmask.logspace import Scored
from unmask.printable import columns, printable, quoted
from unmask.results import ModelResult, data_frame
from unmask.text.support import Support, Token, place_at_blank

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# the token ids of a fill
FillIds = tuple[int, ...]

# fills are ranked for a few lines of text only where that takes well under a second
CELLS_RANKED_IN_TEXT = 2**25
# a call's fills are all in memory; a generator as the seed draws further ones
MOST_DRAWS = 10_000_000


@final
class Joint(ModelResult):
    """An explicit distribution over the tokens that fill the blanks together.

    `LanguageModel.joint` makes one. To make one from your own numbers: `Joint.from_scores`, or this
    class with a function of rows. The examples below use the joint of this one.

    Args:
        engine: A function that gives the unnormalised log joint for a slice of the first axis.
        supports: The axis of each blank.
        method: Name of the construction.
        diagnostics: How the numbers were computed.
        agreement: A function that measures J when it is first asked for.
    Examples:
        >>> joint = lm.joint("Two [MASK] are [MASK].", support=20)
        >>> joint.top(2)
        [Fill('people' 'outside', probability=0.03755), Fill('men' 'outside', probability=0.03214)]
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
        # the facts that it was made with: its engine adds those of the work so far
        self.made_by, self._agreement = dict(diagnostics or {}), agreement
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
        """A joint from a table of unnormalised log-probabilities.

        Args:
            table: A tensor with one axis per blank.
            supports: The axis of each blank.
            method: Name of the construction.
            diagnostics: How the numbers were computed.
        Returns:
            The joint, normalised.
        Raises:
            SupportError: The table does not fit the axes.
        Examples:
            >>> import torch
            >>> axes = lm.support(["dogs", "cats"]), lm.support(["run", "sleep"])
            >>> table = torch.tensor([[3.0, 1.0], [1.0, 3.0]]).log()
            >>> round(unmask.Joint.from_scores(table, axes).mutual_information(base_two=True), 3)
            0.189
        """
        return cls(Engine.of_table(table), supports, method=method, diagnostics=diagnostics)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of tokens that each blank ranges over.

        Examples:
            >>> joint.shape
            (20, 20)
        """
        return tuple(len(axis) for axis in self.supports)

    @property
    def diagnostics(self) -> dict[str, object]:
        """Facts of how this joint was computed: forward passes, residuals, storage, captured mass.

        Examples:
            >>> joint.diagnostics["forward_passes"], joint.diagnostics["converged"]
            (93, True)
        """
        return {"method": self.method, **self.made_by, **self.engine.diagnostics()}

    def is_sketched(self) -> bool:
        """True for an estimate, with error bars, from some contexts of a vocabulary.

        Returns:
            False for an exact joint.
        Examples:
            >>> joint.is_sketched()
            False
        """
        return isinstance(self.engine, Estimated)

    @property
    def log_normalizer(self) -> float:
        """The logarithm of the sum of all exponentiated scores."""
        return self.engine.log_normalizer

    def scores(self, rows: slice) -> Float[Tensor, " block *others"]:
        """The unnormalised log joint for some rows of the first axis.

        Args:
            rows: A slice of the first axis.
        Returns:
            A tensor: the rows, and all other axes.
        Examples:
            >>> joint.scores(slice(0, 2)).shape
            torch.Size([2, 20])
        """
        return self.engine.scores(rows)

    def log_rows(self, rows: slice) -> Float[Tensor, " block *others"]:
        """Normalised log-probabilities, in nats, for some rows of the first axis.

        Args:
            rows: A slice of the first axis.
        Returns:
            A tensor: the rows, and all other axes.
        Examples:
            >>> round(float(joint.log_rows(slice(None)).exp().sum()), 6)
            1.0
        """
        return self.engine.log_rows(rows)

    def log_prob(self, *tokens: Token) -> float:
        """The log-probability, in nats, that these tokens fill the blanks.

        Args:
            *tokens: A token per blank, by name or id.
        Returns:
            A number of nats.
        Raises:
            SupportError: A token is not on its axis, or their number is not that of the blanks.
        Examples:
            >>> round(joint.log_prob("dogs", "running"), 2)
            -3.72
        """
        joint, cell = self._at(tokens)
        return float(joint.engine.scores_of(torch.tensor([cell]))[0]) - joint.log_normalizer

    def standard_error(self, statistic: Callable[["Joint"], float]) -> float:
        """The standard error of a number estimated from a sketch, due to its sample of contexts.

        Args:
            statistic: A function of a joint, such as `Joint.entropy` or
                `lambda j: j.log_prob("hot", "dog")`.
        Returns:
            The error in the unit of the statistic; 0 for an exact joint.
        Examples:
            >>> joint.standard_error(unmask.Joint.entropy)
            0.0
        """
        if not isinstance(self.engine, Estimated):
            return 0.0
        # a replicate becomes a joint here, for a function of joints
        others = (
            Joint(engine, self.supports, method=self.method, agreement=engine.agreement)
            for engine in self.engine.replicates()
        )
        values = [statistic(self), *map(statistic, others)]
        return float(spread(torch.tensor(values, dtype=torch.float64)))

    def standard_errors(self) -> dict[str, float | None]:
        """The standard errors of the summary numbers.

        Returns:
            Those of entropy and mutual information, in nats, and of J, in bits; zeros for an exact
            joint, None for J if there are no tables.
        Examples:
            >>> joint.standard_errors()
            {'entropy': 0.0, 'mutual_information': 0.0, 'incompatibility': 0.0}
        """
        if isinstance(self.engine, Sketched):
            numbers = self.engine.numbers().items()
            return {name: float(spread(values)) for name, values in numbers}
        return {
            "entropy": self.standard_error(Joint.entropy),
            "mutual_information": self.standard_error(Joint.mutual_information),
            "incompatibility": None if self.incompatibility() is None else 0.0,
        }

    def marginal(self, *axes: int) -> "Joint":
        """The distribution of one blank, or of some, whatever fills the others.

        Args:
            *axes: Blanks, from 0, each once.
        Returns:
            A joint over these blanks, in this order.
        Raises:
            SupportError: There is no such blank.
        Examples:
            >>> joint.marginal(0).top(2)
            [Fill('people', probability=0.2029), Fill('men', probability=0.1928)]
        """
        axes = tuple(map(self._axis, axes))
        if not axes or len(set(axes)) < len(axes):
            raise SupportError(f"marginal takes one or more blanks, each once, not {quoted(axes)}")
        if axes == tuple(range(len(self.supports))):
            # nothing is summed out, so that no table need be made
            return self
        supports = tuple(self.supports[axis] for axis in axes)
        engine = self.engine.marginal(axes)
        return Joint(engine, supports, method=self.method, diagnostics=self.made_by)

    def conditional(self, axis: int, *, given: Mapping[int, Token]) -> "Joint":
        """The distribution of one blank given tokens for others; the rest are summed out.

        Args:
            axis: The blank, from 0.
            given: Tokens by blank.
        Returns:
            A joint over one blank.
        Raises:
            SupportError: There is no such blank or token, or the blank itself is given.
        Examples:
            >>> joint.conditional(1, given={0: "dogs"}).top(1)
            [Fill('running', probability=0.232)]
        """
        axis = self._axis(axis)
        if not isinstance(given, Mapping):
            other = int(axis == 0)
            raise SupportError(
                f"given is a dictionary from blanks to tokens, as given={{{other}: "
                f"{self.supports[min(other, len(self.supports) - 1)].names[0]!r}}}, not "
                f"{quoted(given)}"
            )
        given = {self._axis(blank): token for blank, token in given.items()}
        if axis in given:
            raise SupportError(f"blank {axis} cannot be both requested and given")
        if not given:
            raise SupportError("a conditional needs given={axis: token}; without one use marginal")
        joint, places = self._placed(given)
        engine, support = joint.engine.conditional(axis, places), joint.supports[axis]
        return Joint(engine, (support,), method=self.method, diagnostics=self.made_by)

    def top(self, n: int = 10) -> list[Fill]:
        """The likeliest fills, best first; ties go to the lower token index.

        Args:
            n: How many fills.
        Returns:
            Fills, with standard errors if this is a sketch.
        Raises:
            SupportError: The number is not one from 1.
        Examples:
            >>> joint.top(1)[0].tokens
            ('people', 'outside')
        """
        if (whole_number(n) or 0) < 1:
            raise SupportError(f"top takes a number of fills from 1, not {quoted(n)}")
        if n not in self._ranked:
            self._ranked[n] = self._fills(self.engine.best(n))
        return list(self._ranked[n])

    def sample(self, n: int, *, seed: int | torch.Generator = 0) -> list[Fill]:
        """Independent samples; exact, except from a sketch, where a rare token represents others.

        A seed gives the same draws on every device. A CPU generator in its place gives further
        draws with every call.

        Args:
            n: How many draws, from 0.
            seed: Seed of everything that is drawn.
        Returns:
            Fills, in the order drawn.
        Raises:
            SupportError: The number or the seed is not one.
        Examples:
            >>> len(joint.sample(3))
            3
        """
        draws = whole_number(n)
        if draws is None or not 0 <= draws <= MOST_DRAWS:
            raise SupportError(
                f"sample takes a number of draws from 0 to {MOST_DRAWS:,}, not {quoted(n)}"
            )
        if not isinstance(seed, torch.Generator):
            number = whole_number(seed)
            if number is None or not 0 <= number < 2**63:
                raise SupportError(
                    f"a seed is a whole number from 0, or a torch.Generator, not {quoted(seed)}"
                )
            seed = torch.Generator().manual_seed(number)
        if not draws:
            return []
        return self._fills(self.engine.sample(draws, seed))

    def entropy(self, *, base_two: bool = False) -> float:
        """Shannon entropy.

        Args:
            base_two: In bits instead of nats.
        Returns:
            A number from 0.
        Examples:
            >>> round(joint.entropy(), 2)
            5.05
        """
        return self.engine.entropy / (math.log(2) if base_two else 1.0)

    def mutual_information(self, *, base_two: bool = False) -> float:
        """The information that the blanks share, in nats; 0 when independent.

        With more than two blanks this is their total correlation.

        Args:
            base_two: In bits instead of nats.
        Returns:
            A number from 0.
        Examples:
            >>> round(joint.mutual_information(base_two=True), 2)
            0.09
        """
        marginal = sum(self.marginal(axis).entropy() for axis in range(len(self.supports)))
        # rounding, or the noise of a sketch, can leave it below zero
        return max(0.0, marginal - self.entropy()) / (math.log(2) if base_two else 1.0)

    def is_tabulated(self) -> bool:
        """True if sums over whole blanks (entropy, marginals) need no more forward passes.

        Returns:
            False for a joint without tables, as by `orders` over a vocabulary.
        Examples:
            >>> joint.is_tabulated()
            True
        """
        return self.engine.is_tabulated()

    def incompatibility(self) -> float | None:
        """J, in bits: how far the conditionals that this was built from contradict each other.

        Returns:
            0 when one distribution has both, at most 1; None unless both tables were computed, and
            where these do not determine it.
        Examples:
            >>> round(joint.incompatibility(), 3)
            0.012
        """
        return agreement.bits if (agreement := self.agreement()) else None

    def agreement(self) -> Agreement | None:
        """J with its meaning in plain words.

        Returns:
            None unless both tables were computed, and where these do not determine it.
        Examples:
            >>> joint.agreement().words()
            'the two conditionals agree roughly: small differences of probability mean little'
        """
        return None if self._agreement is None else self._agreement()

    def pmi(self, *tokens: Token, base_two: bool = False) -> float:
        """Pointwise mutual information: log of the joint over the product of its marginals.

        Args:
            *tokens: A token per blank, by name or id.
            base_two: In bits instead of nats.
        Returns:
            Above 0 if the tokens go together.
        Raises:
            SupportError: A token is not on its axis, or their number is not that of the blanks.
        Examples:
            >>> round(joint.pmi("dogs", "running"), 2)
            0.91
        """
        joint, _ = self._at(tokens)
        alone = sum(joint.marginal(axis).log_prob(token) for axis, token in enumerate(tokens))
        return _defined(joint.log_prob(*tokens) - alone) / (math.log(2) if base_two else 1.0)

    def log_odds(
        self, mutant: Sequence[Token], wildtype: Sequence[Token], *, base_two: bool = False
    ) -> float:
        """The log-odds of one fill against another: log p(mutant) / p(wildtype).

        Args:
            mutant: A token per blank.
            wildtype: A token per blank, to compare with.
            base_two: In bits instead of nats.
        Returns:
            A difference of two log-probabilities.
        Raises:
            SupportError: A token is not on its axis, or their number is not that of the blanks.
        Examples:
            >>> round(joint.log_odds(["dogs", "running"], ["people", "running"]), 2)
            0.91
        """
        fills = self._ids(mutant, "mutant"), self._ids(wildtype, "wildtype")
        return _log_odds(self.log_prob, *fills) / (math.log(2) if base_two else 1.0)

    def interaction(
        self, mutant: Sequence[Token], wildtype: Sequence[Token], *, base_two: bool = False
    ) -> float:
        """Epistasis: log-odds of all changes together minus those of each alone.

        Args:
            mutant: A token per blank.
            wildtype: A token per blank, to compare with.
            base_two: In bits instead of nats.
        Returns:
            0 if the blanks are independent, or if fewer than two of them change.
        Raises:
            SupportError: A token is not on its axis, or their number is not that of the blanks.
        Examples:
            >>> round(joint.interaction(["dogs", "running"], ["people", "talking"]), 2)
            3.89
        """
        changed, before = self._ids(mutant, "mutant"), self._ids(wildtype, "wildtype")
        # a lazy joint runs the model for every fill
        log_prob = cache(self.log_prob)
        alone = [(*before[:k], changed[k], *before[k + 1 :]) for k in range(len(before))]
        singles = sum(_log_odds(log_prob, single, before) for single in alone)
        interaction = _defined(_log_odds(log_prob, changed, before) - singles)
        return interaction / (math.log(2) if base_two else 1.0)

    def to_dict(self, n: int = 10) -> dict[str, object]:
        """The likeliest fills and the summary numbers that cost nothing more, ready for JSON.

        Args:
            n: How many fills.
        Returns:
            A dictionary, with the units of its numbers and the diagnostics.
        Examples:
            >>> joint.to_dict(n=1)["fills"][0]["tokens"]
            ['people', 'outside']
        """
        free = self.is_tabulated()
        errors = {"standard_errors": self.standard_errors()} if self.is_sketched() else {}
        return {
            "method": self.method,
            "shape": list(self.shape),
            "fills": [fill.to_dict() for fill in self.top(n)],
            "entropy": self.entropy() if free else None,
            "mutual_information": self.mutual_information() if free else None,
            "incompatibility": self.incompatibility(),
            **errors,
            "units": UNITS,
            "diagnostics": self.diagnostics,
        }

    def to_pandas(self, n: int = 100) -> "pd.DataFrame":
        """The likeliest fills as a data frame, one row per fill.

        Args:
            n: How many fills.
        Returns:
            Columns for tokens, ids, probability and log-probability.
        Raises:
            ImportError: pandas is not installed.
        Examples:
            >>> list(joint.to_pandas(n=2).columns)
            ['token_0', 'token_1', 'id_0', 'id_1', 'probability', 'log_prob']
        """
        rows = [
            {
                **{f"token_{axis}": token for axis, token in enumerate(fill.tokens)},
                **{f"id_{axis}": token_id for axis, token_id in enumerate(fill.ids)},
                "probability": fill.probability,
                "log_prob": fill.log_prob,
                **({} if fill.error is None else {"standard_error": fill.error}),
            }
            for fill in self.top(n)
        ]
        return data_frame(rows)

    def plot(self, n: int = 12, *, kind: str = "probability") -> "Figure":
        """A heat map of the likeliest tokens of two blanks, or a bar chart of one blank.

        Args:
            n: How many tokens of each blank.
            kind: "probability", or "pmi" in nats.
        Returns:
            A figure of matplotlib, which notebooks show.
        Raises:
            SupportError: The joint has more than two blanks.
        Examples:
            >>> joint.plot(6).savefig("joint.svg")
        """
        from unmask.plots.heat_map import plot

        return plot(self, n, kind=kind)

    def __repr__(self) -> str:
        """Size and construction, with the likeliest fills where ranking them is cheap."""
        size, count = math.prod(self.shape), len(self.shape)
        axes = " x ".join(f"{length:,}" for length in self.shape)
        if isinstance(self.engine, Estimated):
            ranged = " x ".join(f"{len(axis):,}" for axis in self.engine.whole)
            axes = f"{ranged} tokens, sketched by {axes}"
        head = f"Joint over {count} blank{'s' * (count != 1)} ({axes} tokens) by {self.method}"
        if size > CELLS_RANKED_IN_TEXT or not self.is_tabulated():
            return f"<{head}; .top(5) ranks its fills>"
        fills = self.top(min(5, size))
        table = [[fill.written(4), *map(printable, fill.tokens)] for fill in fills]
        return f"<{head}>\n{columns(table)}"

    def _repr_html_(self) -> str:
        """The same as a table in HTML, for notebooks."""
        from unmask.plots.heat_map import to_html

        return to_html(self)

    def _fills(self, scored: Sequence[Scored]) -> list[Fill]:
        """Fills of cells, with their log-probabilities."""
        axes, log_total = self.supports, self.engine.log_normalizer
        errors: list[float | None] = [None] * len(scored)
        if isinstance(self.engine, Estimated):
            cells = torch.tensor([cell for cell, _ in scored])
            errors = spread(self.engine.log_probs(cells)).tolist()
        return [
            Fill(
                tokens=tuple(axis.names[place] for axis, place in zip(axes, cell, strict=True)),
                ids=tuple(int(axis.ids[place]) for axis, place in zip(axes, cell, strict=True)),
                log_prob=score - log_total,
                error=error,
            )
            for (cell, score), error in zip(scored, errors, strict=True)
        ]

    def _at(self, tokens: Sequence[Token]) -> tuple["Joint", tuple[int, ...]]:
        """This joint, or of a sketch one that holds these tokens too, and the cell they are."""
        if len(tokens) != len(self.supports):
            raise SupportError(
                f"{len(self.supports)} blanks need that many tokens, each an argument of its own, "
                f"not {quoted(tokens)}"
            )
        joint, places = self._placed(dict(enumerate(tokens)))
        return joint, tuple(places.values())

    def _placed(self, tokens: Mapping[int, Token]) -> tuple["Joint", dict[int, int]]:
        axes = self._axes()
        places = {axis: place_at_blank(axes, axis, token) for axis, token in tokens.items()}
        if not isinstance(self.engine, Estimated):
            return self, places
        engine, places = self.engine.at(places)
        if engine is self.engine:
            return self, places
        return Joint(engine, engine.supports, method=self.method), places

    def _axes(self) -> tuple[Support, ...]:
        """The tokens that may be named: of a sketch the whole vocabulary, not its sample."""
        return self.engine.whole if isinstance(self.engine, Estimated) else self.supports

    def _ids(self, fill: Sequence[Token], name: str) -> FillIds:
        """Ids, so that a name and an id of the same token are the same; errors call it `name`."""
        axes, count = self._axes(), len(self.supports)
        if isinstance(fill, str | bytes) or not isinstance(fill, Sequence) or len(fill) != count:
            raise SupportError(
                f"{name} is a list of {count} tokens, one per blank, not {quoted(fill)}"
            )
        places = (place_at_blank(axes, blank, token) for blank, token in enumerate(fill))
        return tuple(int(axis.ids[at]) for axis, at in zip(axes, places, strict=True))

    def _axis(self, axis: object) -> int:
        number = whole_number(axis)
        if number is None or not 0 <= number < len(self.supports):
            raise SupportError(
                f"there is no blank {axis!r}; blanks count from 0 to {len(self.supports) - 1}"
            )
        return number


def _log_odds(log_prob: Callable[..., float], first: FillIds, second: FillIds) -> float:
    """log p(first) / p(second), in nats; a fill against itself is not looked up."""
    return 0.0 if first == second else _defined(log_prob(*first) - log_prob(*second))


def _defined(difference: float) -> float:
    """A difference of log-probabilities, unless both are of probability zero."""
    if math.isnan(difference):
        raise NumericsError("the odds of two fills that both have probability zero are undefined")
    return difference
