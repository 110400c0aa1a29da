"""A joint of two blanks under many weightings of a sketch at once, the sample's own first.

A cell is a product of the model's probabilities, which all weightings share, and of what its row
and its column give. So sums over the cells of all weightings are products of a few matrices, and a
replicate is a row of them; nobody builds a joint of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.joints.forms import Form, Product, check_covers
from unmask.lazy import computed_once
from unmask.tables.sampled import Entropies, Numbers, Sampled, Vectors

Table = Float[Tensor, "a b"]


class Weighted:
    """The joint that a form gives over the masses of a sketch, under every weighting.

    Factors of the form have the weightings as a further first axis.
    """

    def __init__(self, form: Form, sampled: Sampled) -> None:
        self.form, self.sampled = form, sampled
        if isinstance(form, Product):
            products = [form]
        else:
            # a sum that is divided by another, as of `ag`, is no sum of products
            assert form.log_over is None
            first, second = form.log_times
            products = [Product((1.0, 0.0), (first,)), Product((0.0, 1.0), (second,))]
        self._terms = [_Term.of(product, sampled) for product in products]

    def is_independent(self) -> bool:
        """True if the blanks are independent of each other: no table matters."""
        if not isinstance(self.form, Product) or any(self.form.powers):
            return False
        check_covers(self.form, self.sampled.log_given[0].shape, "a sketch")
        return True

    @computed_once
    def log_sums(self) -> tuple[Vectors, Vectors]:
        """Unnormalised masses of each blank's tokens."""
        each = [term.log_sums() for term in self._terms]
        first, second = (torch.stack(sums).logsumexp(dim=0) for sums in zip(*each, strict=True))
        return first, second

    @computed_once
    def log_normalizers(self) -> Numbers:
        """The logarithms of the sums of all exponentiated scores."""
        return self.log_sums[0].logsumexp(dim=1)

    def scores(self, number: int) -> Table:
        """The unnormalised log masses of all cells, under one weighting."""
        return torch.stack([term.scores(number) for term in self._terms]).logsumexp(dim=0)

    def log_probs(self, cells: Int[Tensor, "cells 2"]) -> Float[Tensor, "weightings cells"]:
        """Log-probabilities of pairs of tokens, each on its own and not for what it represents."""
        scores = torch.stack([term.scores_of(cells) for term in self._terms]).logsumexp(dim=0)
        log_weights = [log[:, cells[:, t]] for t, log in enumerate(self.sampled.log_weights)]
        return scores - self.log_normalizers[:, None] - log_weights[0] - log_weights[1]

    def log_marginals(self, blank: int) -> Vectors:
        """Log-probabilities of one blank's tokens."""
        log_masses = self.log_sums[blank] - self.log_normalizers[:, None]
        return log_masses - self.sampled.log_weights[blank]

    def log_conditionals(self, blank: int, place: int) -> Vectors:
        """Log-probabilities of one blank's tokens given a token of the other."""
        places = torch.arange(len(self.sampled.sides[blank].places))
        other = torch.full_like(places, place)
        pairs = torch.stack([places, other] if blank == 0 else [other, places], dim=1)
        log_masses = self.log_probs(pairs) + self.sampled.log_weights[blank]
        log_total = log_masses.logsumexp(dim=1, keepdim=True)
        return log_masses - log_total - self.sampled.log_weights[blank]

    @computed_once
    def entropies(self) -> Entropies:
        """Of each blank and of both, in nats, from the cells."""
        spread, each = [], []
        for sums, log_weights in zip(self.log_sums, self.sampled.log_weights, strict=True):
            log_masses = sums - self.log_normalizers[:, None]
            masses = log_masses.exp()
            # the mass of a token is spread over as many as it stands for
            spread.append((masses * log_weights).sum(dim=1))
            each.append(spread[-1] - (masses * log_masses).sum(dim=1))
        return torch.stack([*each, self._cell_entropies() + spread[0] + spread[1]])

    def _cell_entropies(self) -> Numbers:
        """Of the masses of cells, as they are."""
        if len(self._terms) == 1:
            return self.log_normalizers - self._terms[0].mean_scores(self.log_normalizers)
        entropies = []
        for number, log_normalizer in enumerate(self.log_normalizers):
            # what has no mass adds nothing
            log_p = (self.scores(number) - log_normalizer).clamp(min=-1e4)
            entropies.append(-(log_p.exp() * log_p).sum())
        return torch.stack(entropies)


def missing_entropies(sampled: Sampled, of_rows: Entropies) -> Entropies:
    """The entropies of both factorisations from whole rows, less those of their cells."""
    first, second = (masses.log() for masses in sampled.masses)
    factorisations = (
        Product((1.0, 0.0), (second[:, None],)),
        Product((0.0, 1.0), (first[:, :, None],)),
    )
    of_cells = [Weighted(product, sampled).entropies for product in factorisations]
    return of_rows - (of_cells[0] + of_cells[1]) / 2


@dataclass(frozen=True, eq=False)
class _Term:
    """A product: the part of its cells that all weightings share, and what differs.

    What a row gives to a cell differs between the head and the tail of the columns, which are
    normalised apart, and the other way round.
    """

    shared: Table
    by_row: Sequence[Vectors]
    by_column: Sequence[Vectors]
    # the largest of each weighting, which keep exponentials in range
    tops: tuple[Vectors, Vectors]
    tails: tuple[Bool[Tensor, " a"], Bool[Tensor, " b"]]

    @classmethod
    def of(cls, product: Product, sampled: Sampled) -> "_Term":
        """The product over the masses of a sketch."""
        shared = torch.zeros_like(sampled.log_given[0])
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
                shared = shared + power * (log_q if context == 0 else log_q.T)
                each[outcome] = [part + power * like[outcome] for part in each[outcome]]
                # of a context: how masses of the outcome's head and tail are scaled
                factors = sampled.factors(context)
                each[context] = [
                    part + power * factor.log()
                    for part, factor in zip(each[context], factors, strict=True)
                ]
        first, second = (side.tail for side in sampled.sides)
        top_a, top_b = (torch.stack(parts).amax(dim=(0, 2))[:, None] for parts in each)
        return cls(shared, each[0], each[1], (top_a, top_b), (first, second))

    def scores(self, number: int) -> Table:
        """All cells under one weighting."""
        row, column = ([part[number] for part in parts] for parts in (self.by_row, self.by_column))
        tail_a, tail_b = self.tails
        scores = self.shared + torch.where(tail_b, row[1][:, None], row[0][:, None])
        return scores + torch.where(tail_a[:, None], column[1], column[0])

    def scores_of(self, cells: Int[Tensor, "cells 2"]) -> Float[Tensor, "weightings cells"]:
        """Some cells under every weighting."""
        a, b = cells.T
        row = torch.where(self.tails[1][b], self.by_row[1][:, a], self.by_row[0][:, a])
        column = torch.where(self.tails[0][a], self.by_column[1][:, b], self.by_column[0][:, b])
        return self.shared[a, b] + row + column

    def log_sums(self) -> tuple[Vectors, Vectors]:
        """Log-sums over the other blank."""
        shared = self.shared.exp()
        sums = [torch.zeros_like(self.by_row[0]), torch.zeros_like(self.by_column[0])]
        for (_, left), (_, right) in self._blocks():
            sums[0] += left * (right @ shared.T)
            sums[1] += right * (left @ shared)
        first, second = (total.log() + self.tops[0] + self.tops[1] for total in sums)
        return first, second

    def mean_scores(self, log_normalizers: Numbers) -> Numbers:
        """The mean score of a cell."""
        shared = self.shared.exp()
        scored, total = shared * self.shared, torch.zeros_like(log_normalizers)
        for (row, left), (column, right) in self._blocks():
            from_rows = row * (right @ shared.T) + right @ scored.T
            total += (left * from_rows).sum(dim=1)
            total += (right * column * (left @ shared)).sum(dim=1)
        return total * (self.tops[0] + self.tops[1])[:, 0].sub(log_normalizers).exp()

    def _blocks(self) -> Iterator[tuple[tuple[Vectors, Vectors], tuple[Vectors, Vectors]]]:
        """Heads and tails of rows by those of columns: their parts of scores, and exponentials."""
        for in_a, column in zip((~self.tails[0], self.tails[0]), self.by_column, strict=True):
            for in_b, row in zip((~self.tails[1], self.tails[1]), self.by_row, strict=True):
                if bool(in_a.any()) and bool(in_b.any()):
                    left = torch.where(in_a, (row - self.tops[0]).exp(), 0.0)
                    right = torch.where(in_b, (column - self.tops[1]).exp(), 0.0)
                    yield (row, left), (column, right)
