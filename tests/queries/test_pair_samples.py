"""Draws of two blanks follow the joint that they are drawn from: chi-square tests.

Each rejects a correct sampler with probability 1e-3, but seeds are fixed: one that passes goes on
to pass until the draws change.
"""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare
from toy_lm import ToyMaskedLM, toy_joint

import unmask
from unmask.joints.lazy_orders import LazyPair
from unmask.model.row_reader import RowReader
from unmask.tables.blank_reader import BlankReader

FAILURE_RATE = 1e-3
DRAWS = 2000
SIZE = 6


def p_value(cells: list[tuple[int, int]], joint: NDArray[np.float64]) -> float:
    """Of Pearson's test; cells with fewer than five draws expected count as one."""
    seen = np.zeros(joint.shape)
    np.add.at(seen, tuple(np.array(cells).T), 1)
    expected = joint * len(cells)
    small = expected < 5
    observed, wanted = seen[~small], expected[~small]
    if small.any():
        observed = np.append(observed, seen[small].sum())
        wanted = np.append(wanted, expected[small].sum())
    return float(chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


def tables_of(model: ToyMaskedLM) -> unmask.PairTables:
    axis = unmask.Support.of(f"t{i}" for i in range(model.vocabulary_size))
    cloze = unmask.Cloze("toy", (model.mask_id,) * 2, (0, 1))
    return unmask.PairTables(BlankReader(RowReader(model, unmask.Settings()), cloze, (axis, axis)))


def table_of(joint: unmask.Joint) -> NDArray[np.float64]:
    """Its cells, one by one, by the question that does not sample."""
    tokens = [axis.ids.tolist() for axis in joint.supports]
    return np.exp([[joint.log_prob(a, b) for b in tokens[1]] for a in tokens[0]])


@pytest.mark.slow
@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
def test_a_joint_draws_what_it_says(method: str) -> None:
    joint = unmask.construct(method, tables_of(ToyMaskedLM(toy_joint(SIZE, 2, seed=1), noise=0.7)))
    fills = joint.sample(DRAWS, seed=2)
    assert p_value([fill.ids for fill in fills], table_of(joint)) > FAILURE_RATE


@pytest.mark.slow
def test_a_mixture_draws_from_a_few_contexts_what_it_says() -> None:
    model = ToyMaskedLM(toy_joint(20, 2, seed=3), noise=0.7)
    joint = unmask.construct("orders", tables_of(model))
    assert isinstance(joint.engine, LazyPair)
    generator, fills = torch.Generator().manual_seed(4), []
    for _ in range(50):
        # so few at a time that it never asks for the tables
        fills += joint.sample(13, seed=generator)
    assert not joint.is_tabulated()
    whole = tables_of(model)
    whole.both()
    expected = unmask.construct("orders", whole).log_rows(slice(0, 20)).exp().numpy()
    assert p_value([fill.ids for fill in fills], expected) > FAILURE_RATE
