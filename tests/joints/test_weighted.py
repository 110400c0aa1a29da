"""Numbers of all weightings of a sketch at once, held against the cells of each."""

import math

import pytest
import torch
from sketch_tables import clustered, tables_of

from unmask.errors import MethodError
from unmask.joints.forms import Form, Product, Sum
from unmask.joints.weighted import Weighted
from unmask.tables.sampled import Sampled
from unmask.tables.sketch import SketchedPair

REPLICATES = 4


@pytest.fixture(scope="module")
def sampled() -> Sampled:
    pair = SketchedPair(tables_of(clustered(300, 4), noise=0.3), replicates=REPLICATES)
    pair.grow(60)
    assert all(side.tail.any() for side in pair.sides)
    return pair.sampled()


def product(*log_others: torch.Tensor) -> Form:
    return Product((0.5, 0.5), tuple(log / 2 for log in log_others))


def mixture(*log_others: torch.Tensor) -> Form:
    return Sum(tuple(log - math.log(2) for log in log_others))


@pytest.mark.parametrize("form", [product, mixture])
def test_entropies_are_those_of_the_cells(form, sampled):
    log_a, log_b = (masses.log() for masses in sampled.masses)
    weighted = Weighted(form(log_b[:, None], log_a[:, :, None]), sampled)
    assert weighted.entropies.shape == (3, 1 + REPLICATES)
    for number in range(1 + REPLICATES):
        scores = weighted.scores(number)
        p = (scores - scores.flatten().logsumexp(dim=0)).exp()
        # a token of the tail stands for as many as it weighs, and each has its share of the mass
        tokens = [log[number] for log in sampled.log_weights]
        alone = [p.sum(dim=1), p.sum(dim=0)]
        blanks = [(m * (log_w - m.log())).sum() for m, log_w in zip(alone, tokens, strict=True)]
        both = (p * (tokens[0][:, None] + tokens[1] - p.log())).sum()
        torch.testing.assert_close(
            weighted.entropies[:, number], torch.stack([*blanks, both]), rtol=1e-9, atol=0
        )


def test_a_form_that_does_not_cover_its_blanks_is_rejected(sampled):
    log_a = sampled.masses[0].log()[:, :, None]
    with pytest.raises(MethodError, match="depends on blank 1, and no table is read"):
        Weighted(Product((0.0, 0.0), (log_a,)), sampled).is_independent()
