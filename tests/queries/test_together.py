"""Groups of places that may be filled at the same time."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from toy_lm import ToyMaskedLM, ToyTokenizer

import unmask
from unmask.queries.dependence.dependence_map import DependenceMap, Place

QUIET = unmask.Settings(progress=False)


def test_groups_are_greedy_and_share_no_more_than_the_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        size = int(rng.integers(1, 9))
        values = torch.from_numpy(rng.random((size, size)))
        values = values + values.T
        bound = float(rng.random() * 2)
        places = tuple(Place(str(n), (n,)) for n in range(size))
        groups = DependenceMap("", places, "mutual-information", values, None, 0, 0).groups(bound)
        assert sorted(blank for group in groups for blank in group) == list(range(size))
        assert groups[0][0] == 0
        for number, group in enumerate(groups):
            for one, other in combinations(group, 2):
                assert float(values[one, other]) <= bound
            # no blank of a later group had room in an earlier one
            for later in groups[number + 1 :]:
                for blank in later:
                    before = [other for other in group if other < blank]
                    assert any(float(values[blank, other]) > bound for other in before)


def two_pairs() -> unmask.LanguageModel:
    """Blanks 0 and 1 are equal, blanks 2 and 3 too; the pairs know nothing of each other."""
    pair = np.full((3, 3), 0.01)
    np.fill_diagonal(pair, [0.5, 0.3, 0.2])
    joint = np.einsum("ab,cd->abcd", pair, pair)
    return unmask.LanguageModel(ToyMaskedLM(joint), ToyTokenizer(3))


def test_dependent_blanks_are_in_different_groups() -> None:
    measured = two_pairs().dependence("[MASK] [MASK] [MASK] [MASK]", settings=QUIET)
    assert measured.groups() == [(0, 2), (1, 3)]
    assert measured.groups(at_most=9) == [(0, 1, 2, 3)]


def test_pairs_beyond_the_window_count_as_dependent() -> None:
    measured = two_pairs().dependence("[MASK] [MASK] [MASK] [MASK]", window=1, settings=QUIET)
    assert measured.groups(at_most=9) == [(0, 1), (2, 3)]


@pytest.mark.parametrize("bound", [-1, "x", math.nan, math.inf])
def test_a_bound_is_a_number_of_bits(bound: object) -> None:
    measured = two_pairs().dependence("[MASK] [MASK] [MASK] [MASK]", settings=QUIET)
    with pytest.raises(unmask.UnmaskError, match="is a number of bits from 0"):
        measured.groups(at_most=bound)  # type: ignore[arg-type]


def test_nats_have_no_groups() -> None:
    measured = two_pairs().dependence("t0 t1 t1 t1", measure="pmi", settings=QUIET)
    with pytest.raises(unmask.UnmaskError, match="pmi is in nats; take measure='mutual-inf"):
        measured.groups()
