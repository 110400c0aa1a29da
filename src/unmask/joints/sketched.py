"""A joint that a sketch estimates: its sums under the sample's weights, and under a replicate's.

A cell is a product of the model's probabilities, which all weightings share, and of what its row
and its column give. So sums over the cells of all weightings are products of a few matrices, and a
replicate is a row of them: nothing is built of it until a function of a joint asks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import reduce
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.joints.agreement import Agreement
from unmask.joints.engine import Engine
from unmask.joints.forms import Form, Product
from unmask.lazy import computed_once
from unmask.logspace import Scored, best_cells
from unmask.tables.law import Factors
from unmask.tables.sampled import Entropies, Numbers, Sampled, Vectors
from unmask.tables.sketch import NO_PROBES, Probes, SketchedPair
from unmask.text.support import Support

Table = Float[Tensor, "a b"]
# a construction's form, of the law of the contexts and of the masked distributions
FormOf = Callable[[Factors, Callable[[], Factors]], Form]

# chosen on dev pairs, so that two standard errors held 95% of the exact values
_WIDENED = 1.3
# a sketch knows no number better than this, in nats or bits
_LEAST_ERROR = 0.001
_ROUNDING = 1e-5


def spread(values: Tensor) -> Tensor:
    """The distance of replicates from the first row: the root of the mean square, a standard error.

    Widened: replicates know only what was drawn, and the rare token that was not and carries much
    is in none of them.
    """
    squares = (values[1:] - values[0]).square().sum(dim=0) / max(1, len(values) - 1)
    errors = _WIDENED * squares.sqrt()
    # what differs by rounding alone was not sampled
    return torch.where(errors < _ROUNDING, errors, errors.hypot(errors.new_tensor(_LEAST_ERROR)))


class Estimated(Engine):
    """Some blanks of a sketch: one, whatever fills the other or given it, or both.

    Scores are masses: a token of the tail counts for as many as its weight says. A fill has the
    probability of its tokens alone. `number` is the weighting: 0 is the sample's, the others are
    the replicates'. `whole` are the axes that the sketch stands for.
    """

    number, independent, device = 0, False, torch.device("cpu")
    whole: tuple[Support, ...]
    every_log_weights: Sequence[Vectors]
    every_log_sums: Sequence[Vectors]

    def __init__(
        self, joint: "Sketched", axes: Sequence[int], other: int | None, log_sums: Sequence[Vectors]
    ) -> None:
        self._joint, self._axes, self._other, self.number = joint, axes, other, joint.number
        self.shape = tuple(joint.shape[axis] for axis in axes)
        self.whole = tuple(joint.whole[axis] for axis in axes)
        self.every_log_weights = [joint.every_log_weights[axis] for axis in axes]
        self.every_log_sums = log_sums

    @property
    def supports(self) -> tuple[Support, ...]:
        """The tokens that ran, by blank."""
        return tuple(self._joint.supports[axis] for axis in self._axes)

    def scores(self, rows: slice) -> Tensor:
        """The unnormalised log masses of some rows of cells."""
        return self.every_log_sums[0][self.number, rows]

    def log_probs(self, cells: Int[Tensor, "cells blanks"]) -> Float[Tensor, "weightings cells"]:
        """Log-probabilities of fills under every weighting."""
        return (self.every_log_sums[0] - self.every_log_weights[0])[:, cells[:, 0]]

    def at(self, places: Mapping[int, int]) -> tuple["Estimated", dict[int, int]]:
        """The joint with these tokens of the whole axes added, and their places on its axes."""
        joint, there = self._joint.at({self._axes[blank]: at for blank, at in places.items()})
        view: Estimated = self
        if joint is not self._joint:
            axis, other = self._axes[0], self._other
            if other is None:
                view = joint.marginal(self._axes)
            else:
                view = joint.conditional(axis, {1 - axis: other})
            view.number = self.number
        return view, {blank: there[self._axes[blank]] for blank in places}

    @property
    def entropy(self) -> float:
        """Shannon entropy, in nats."""
        if self._other is None:
            both = len(self._axes) > 1
            return float(self._joint.entropies[2 if both else self._axes[0], self.number])
        log_masses, log_weights = self.log_marginals[0], self.every_log_weights[0][self.number]
        return float((log_masses.exp() * (log_weights - log_masses)).sum())

    def agreement(self) -> Agreement | None:
        """J, of both blanks."""
        return None

    def diagnostics(self) -> dict[str, object]:
        """Facts of the contexts that have run."""
        return self._joint.diagnostics()

    @property
    def log_normalizer(self) -> float:
        """The logarithm of the sum of all exponentiated scores."""
        return float(self.every_log_sums[0][self.number].logsumexp(dim=0))

    @property
    def log_marginals(self) -> tuple[Tensor, ...]:
        """Log-sums over all other blanks, one tensor per blank."""
        return tuple(sums[self.number] for sums in self.every_log_sums)

    def log_rows(self, rows: slice) -> Tensor:
        """Log-probabilities of fills, for some rows of the first axis."""
        # scores are shared: the first step makes a copy
        log_p = self.scores(rows) - self.log_normalizer
        for axis, weights in enumerate(self.every_log_weights):
            of_axis = weights[self.number]
            shape = [-1 if other == axis else 1 for other in range(log_p.ndim)]
            log_p -= (of_axis[rows] if axis == 0 else of_axis).reshape(shape)
        return log_p

    def scores_of(self, cells: Int[Tensor, "cells blanks"]) -> Float[Tensor, " cells"]:
        """The scores of fills, each token on its own."""
        return self.log_probs(cells)[self.number] + self.log_normalizer

    def best(self, n: int) -> list[Scored]:
        """The likeliest fills; a sketch is small."""
        every = slice(0, self.shape[0])
        return best_cells([(every, self.log_rows(every) + self.log_normalizer)], n)

    def sample(self, n: int, generator: torch.Generator | None) -> list[Scored]:
        """Independent draws of tokens that ran, in which a rare token represents others."""
        cells = [cell for cell, _ in super().sample(n, generator)]
        return list(zip(cells, self.scores_of(torch.tensor(cells)).tolist(), strict=True))

    def replicates(self) -> Iterator[Self]:
        """The same as other samples might have given it; a replicate has none of its own."""
        for number in range(1, 1 if self.number else len(self.every_log_sums[0])):
            replicate = copy(self)
            replicate.number = number
            yield replicate


class Sketched(Estimated):
    """The joint of two blanks that a form gives over the masses of a sketch.

    Factors of the form have the weightings as a further first axis.
    """

    def __init__(self, pair: SketchedPair, form_of: FormOf, probes: Probes = NO_PROBES) -> None:
        self.pair, self._form_of, self._probes = pair, form_of, probes
        self.sampled = sampled = pair.sampled(probes)
        self.shape = tuple(len(side.places) for side in sampled.sides)
        self.whole, self.every_log_weights = pair.whole.supports, sampled.log_weights
        law = _factors([masses.log() for masses in sampled.masses])
        form = form_of(law, lambda: _factors(pair.masked(sampled)))
        self.independent = isinstance(form, Product) and not any(form.powers)
        if isinstance(form, Product):
            products = [form]
        else:
            # a sum that is divided by another, as of `ag`, is no sum of products
            assert form.log_over is None
            first, second = form.log_times
            products = [Product((1.0, 0.0), (first,)), Product((0.0, 1.0), (second,))]
        self._terms = [Term(product, sampled) for product in products]
        self.every_log_sums = [
            torch.stack(sums).logsumexp(dim=0)
            for sums in zip(*(term.log_sums for term in self._terms), strict=True)
        ]
        self._log_normalizers = self.every_log_sums[0].logsumexp(dim=1)

    @computed_once
    def supports(self) -> tuple[Support, ...]:
        return tuple(
            whole.part(side.places.tolist())
            for whole, side in zip(self.whole, self.sampled.sides, strict=True)
        )

    def scores(self, rows: slice) -> Table:
        """The unnormalised log masses of some rows of cells."""
        return reduce(torch.logaddexp, (term.scores(self.number) for term in self._terms))[rows]

    def log_probs(self, cells: Int[Tensor, "cells 2"]) -> Float[Tensor, "weightings cells"]:
        """Log-probabilities of pairs of tokens under every weighting."""
        scores = reduce(torch.logaddexp, (term.scores_of(cells) for term in self._terms))
        log_weights = [log[:, cells[:, t]] for t, log in enumerate(self.every_log_weights)]
        return scores - self._log_normalizers[:, None] - log_weights[0] - log_weights[1]

    def at(self, places: Mapping[int, int]) -> tuple["Sketched", dict[int, int]]:
        """The joint with these tokens on its axes, and their places; at most a pass for each."""
        joint, sides = self, self.sampled.sides
        if any(place not in sides[axis].places for axis, place in places.items()):
            more = ([places[axis]] if axis in places else [] for axis in (0, 1))
            first, second = ((*old, *new) for old, new in zip(self._probes, more, strict=True))
            joint = Sketched(self.pair, self._form_of, (first, second))
            joint.number, sides = self.number, joint.sampled.sides
        return joint, {
            axis: int(torch.searchsorted(sides[axis].places, place))
            for axis, place in places.items()
        }

    def marginal(self, axes: Sequence[int]) -> "Estimated":
        """The law of one blank, or of both in the other order."""
        if len(axes) > 1:
            return Turned(self)
        log_masses = self.every_log_sums[axes[0]] - self._log_normalizers[:, None]
        return Estimated(self, axes, None, [log_masses])

    def conditional(self, axis: int, places: Mapping[int, int]) -> "Estimated":
        """The law of one blank given a token of the other."""
        every = torch.arange(self.shape[axis])
        other = torch.full_like(every, places[1 - axis])
        pairs = torch.stack([other, every] if axis else [every, other], dim=1)
        log_masses = self.log_probs(pairs) + self.every_log_weights[axis]
        log_masses = log_masses - log_masses.logsumexp(dim=1, keepdim=True)
        return Estimated(self, [axis], places[1 - axis], [log_masses])

    @computed_once
    def entropies(self) -> Entropies:
        """Of each blank and of both, in nats: of the cells, and what whole rows add to them."""
        missing = missing_entropies(self.pair.sampled(), self.pair.entropies)
        return cell_entropies(self._terms, self.every_log_sums, self.every_log_weights) + missing

    @property
    def entropy(self) -> float:
        """Shannon entropy of the joint, in nats."""
        return float(self.entropies[2, self.number])

    def numbers(self) -> dict[str, Numbers]:
        """Entropy and mutual information in nats, and J in bits, under every weighting."""
        first, second, both = self.entropies
        return {
            "entropy": both,
            "mutual_information": (first + second - both).clamp(min=0.0),
            "incompatibility": self.pair.sampled().incompatibilities,
        }

    def agreement(self) -> Agreement | None:
        """J, from whole rows; None where the law is not solved."""
        sampled, weighting = self.pair.sampled(), slice(self.number, self.number + 1)
        if not sampled.is_solved(self.number):
            return None
        return Agreement(float(sampled.incompatibility(weighting)))

    def diagnostics(self) -> dict[str, object]:
        """Facts of the contexts that have run."""
        return self.pair.diagnostics()


class Turned(Estimated):
    """The joint of a sketch with its blanks in the other order."""

    def __init__(self, joint: Sketched) -> None:
        super().__init__(joint, (1, 0), None, joint.every_log_sums[::-1])

    def scores(self, rows: slice) -> Table:
        """The unnormalised log masses of some rows of cells."""
        return self._joint.scores(slice(None)).T[rows]

    def log_probs(self, cells: Int[Tensor, "cells 2"]) -> Float[Tensor, "weightings cells"]:
        """Log-probabilities of pairs of tokens under every weighting."""
        return self._joint.log_probs(cells.flip(1))

    def marginal(self, axes: Sequence[int]) -> "Estimated":
        """The law of one blank, or of both in the order of the text."""
        return self._joint if len(axes) > 1 else self._joint.marginal([1 - axes[0]])

    def conditional(self, axis: int, places: Mapping[int, int]) -> "Estimated":
        """The law of one blank given a token of the other."""
        return self._joint.conditional(1 - axis, {1 - blank: at for blank, at in places.items()})

    def replicates(self) -> "Iterator[Turned]":
        """The same as other samples might have given it."""
        return map(Turned, self._joint.replicates())


# --- all weightings at once --------------------------------------------------------------------


def missing_entropies(sampled: Sampled, of_rows: Entropies) -> Entropies:
    """The entropies of both factorisations from whole rows, less those of their cells."""
    of_a, of_b = _factors([masses.log() for masses in sampled.masses])
    products = Product((1.0, 0.0), (of_a,)), Product((0.0, 1.0), (of_b,))
    terms = [Term(product, sampled) for product in products]
    first, second = (cell_entropies([t], t.log_sums, sampled.log_weights) for t in terms)
    return of_rows - (first + second) / 2


def cell_entropies(
    terms: "Sequence[Term]", log_sums: Sequence[Vectors], log_weights: Sequence[Vectors]
) -> Entropies:
    """Entropies of each blank and of both, in nats, from the cells of some terms."""
    log_normalizers = log_sums[0].logsumexp(dim=1)
    spread_out, each = [], []
    for sums, log_w in zip(log_sums, log_weights, strict=True):
        log_masses = sums - log_normalizers[:, None]
        masses = log_masses.exp()
        # the mass of a token is spread over as many as it stands for
        spread_out.append((masses * log_w).sum(dim=1))
        each.append(spread_out[-1] - (masses * log_masses).sum(dim=1))
    if len(terms) == 1:
        of_cells = log_normalizers - terms[0].mean_scores(log_normalizers)
    else:
        of_numbers = []
        for number, log_normalizer in enumerate(log_normalizers):
            scores = reduce(torch.logaddexp, (term.scores(number) for term in terms))
            # what has no mass adds nothing
            log_p = (scores - log_normalizer).clamp(min=-1e4)
            of_numbers.append(-(log_p.exp() * log_p).sum())
        of_cells = torch.stack(of_numbers)
    return torch.stack([*each, of_cells + spread_out[0] + spread_out[1]])


def _factors(each: Sequence[Vectors]) -> Factors:
    """Numbers of both blanks by the blank that is read: along the axis of the other."""
    first, second = each
    return second[:, None], first[:, :, None]


# places on an axis, and what they add to scores and its exponentials under every weighting
Part = tuple[Int[Tensor, " some"], Vectors, Vectors]


class Term:
    """A product: the part of its cells that all weightings share, and what differs.

    What a row gives to a cell differs between the head and the tail of the columns, which are
    normalised apart, and the other way round.
    """

    def __init__(self, product: Product, sampled: Sampled) -> None:
        self._shared = torch.zeros_like(sampled.log_given[0])
        like = sampled.log_weights
        base = [torch.zeros_like(like[0]), torch.zeros_like(like[1])]
        for factor in product.log_factors:
            if factor.shape[-1] == 1:
                base[0] = base[0] + factor[..., 0]
            else:
                base[1] = base[1] + factor[..., 0, :]
        # by the blank, then for the head and for the tail of the other
        each = [[base[0], base[0]], [base[1], base[1]]]
        for outcome, power in enumerate(product.powers):
            if power:
                context = 1 - outcome
                log_q = sampled.log_given[context]
                self._shared = self._shared + power * (log_q if context == 0 else log_q.T)
                each[outcome] = [part + power * like[outcome] for part in each[outcome]]
                # of a context: how masses of the outcome's head and tail are scaled
                factors = sampled.factors(context)
                each[context] = [
                    part + power * factor.log()
                    for part, factor in zip(each[context], factors, strict=True)
                ]
        self._by_row, self._by_column = each
        self._tails = [side.tail for side in sampled.sides]
        # the largest of each weighting keep exponentials in range
        self._tops = [torch.stack(parts).amax(dim=(0, 2))[:, None] for parts in each]
        sums = [torch.zeros_like(by[0]) for by in each]
        for scores, (a, _, left), (b, _, right) in self._blocks():
            cells = scores.exp()
            sums[0][:, a] += left * (right @ cells.T)
            sums[1][:, b] += right * (left @ cells)
        # over the other blank
        self.log_sums = [total.log() + self._tops[0] + self._tops[1] for total in sums]

    def scores(self, number: int) -> Table:
        """All cells under one weighting."""
        row, column = (
            [part[number] for part in parts] for parts in (self._by_row, self._by_column)
        )
        tail_a, tail_b = self._tails
        scores = self._shared + torch.where(tail_b, row[1][:, None], row[0][:, None])
        return scores.add_(torch.where(tail_a[:, None], column[1], column[0]))

    def scores_of(self, cells: Int[Tensor, "cells 2"]) -> Float[Tensor, "weightings cells"]:
        """Some cells under every weighting."""
        (a, b), (tail_a, tail_b) = cells.T, self._tails
        row = torch.where(tail_b[b], self._by_row[1][:, a], self._by_row[0][:, a])
        column = torch.where(tail_a[a], self._by_column[1][:, b], self._by_column[0][:, b])
        return self._shared[a, b] + row + column

    def mean_scores(self, log_normalizers: Numbers) -> Numbers:
        """The mean score of a cell."""
        total = torch.zeros_like(log_normalizers)
        for scores, (_, row, left), (_, column, right) in self._blocks():
            cells = scores.exp()
            from_rows = row * (right @ cells.T) + right @ (cells * scores).T
            total += (left * from_rows).sum(dim=1)
            total += (right * column * (left @ cells)).sum(dim=1)
        return total * (self._tops[0] + self._tops[1])[:, 0].sub(log_normalizers).exp()

    def _blocks(self) -> Iterator[tuple[Table, "Part", "Part"]]:
        """Heads and tails of rows by those of columns: the shared scores of their cells, and parts.

        A part has places, what they add to scores, and exponentials of that.
        """
        heads_and_tails = [(~tail, tail) for tail in self._tails]
        for in_a, column in zip(heads_and_tails[0], self._by_column, strict=True):
            for in_b, row in zip(heads_and_tails[1], self._by_row, strict=True):
                a, b = torch.nonzero(in_a)[:, 0], torch.nonzero(in_b)[:, 0]
                if len(a) and len(b):
                    left, right = row[:, a], column[:, b]
                    yield (
                        self._shared[a][:, b],
                        (a, left, (left - self._tops[0]).exp()),
                        (b, right, (right - self._tops[1]).exp()),
                    )
