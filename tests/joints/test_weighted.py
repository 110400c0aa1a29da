"""Numbers of all weightings of a sketch at once, held against the cells of each."""

import math

import pytest
import torch
from sketch_tables import clustered, tables_of

from unmask.joints.forms import Form, Product, Sum
from unmask.joints.sketched import Sketched, missing_entropies
from unmask.tables.law import Factors
from unmask.tables.sketch import SketchedPair

REPLICATES = 4


@pytest.fixture(scope="module")
def pair() -> SketchedPair:
    pair = SketchedPair(tables_of(clustered(300, 4), noise=0.3), replicates=REPLICATES)
    pair.grow(60)
    assert all(side.tail.any() for side in pair.sides)
    return pair


def product(log_others: Factors, _: object) -> Form:
    return Product((0.5, 0.5), tuple(log / 2 for log in log_others))


def mixture(log_others: Factors, _: object) -> Form:
    return Sum(tuple(log - math.log(2) for log in log_others))


@pytest.mark.parametrize("form", [product, mixture])
def test_entropies_are_those_of_the_cells(form, pair):
    joint, sampled = Sketched(pair, form), pair.sampled()
    entropies = joint.entropies - missing_entropies(sampled, pair.entropies)
    assert entropies.shape == (3, 1 + REPLICATES)
    for number, replicate in enumerate([joint, *joint.replicates()]):
        scores = replicate.scores(slice(None))
        p = (scores - scores.flatten().logsumexp(dim=0)).exp()
        # a token of the tail stands for as many as it weighs, and each has its share of the mass
        tokens = [log[number] for log in sampled.log_weights]
        alone = [p.sum(dim=1), p.sum(dim=0)]
        blanks = [(m * (log_w - m.log())).sum() for m, log_w in zip(alone, tokens, strict=True)]
        both = (p * (tokens[0][:, None] + tokens[1] - p.log())).sum()
        torch.testing.assert_close(
            entropies[:, number], torch.stack([*blanks, both]), rtol=1e-9, atol=0
        )
