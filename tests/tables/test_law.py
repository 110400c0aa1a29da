"""The stationary law against elimination without subtractions: equal to 1e-9, or not claimed."""

import warnings

import examples
import numpy as np
import pytest
import reference_law
import torch
from examples import SOLVABLE, Array, Example
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.constructions.incompatibility import agreement
from unmask.errors import UndeterminedWarning
from unmask.model.row_reader import RowReader
from unmask.progress import Progress
from unmask.tables.candidate_tables import CandidateTables
from unmask.tables.law import Law
from unmask.tables.stationary import stationary_law

QUIET = unmask.Settings(progress=False, announce=False)
# tables of more tokens than this are not laid out as a matrix
DENSE = 500
COUPLINGS = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14, 1e-16]
NEGLIGIBLE = 1e-30


def law_of(tables: unmask.PairTables) -> Law:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndeterminedWarning)
        return stationary_law(tables)


def off(law: Law, A: Array, B: Array) -> float:
    """The largest relative error of a token that is not negligible."""
    right = reference_law.stationary(A, B)
    errors = []
    for log_r, r in zip((law.log_a, law.log_b), right, strict=True):
        counted = r > NEGLIGIBLE
        errors.append(np.abs(np.exp(log_r.numpy()[counted] - np.log(r[counted])) - 1).max())
    return float(max(errors))


def check(example: Example, *, determined: bool | None = None) -> Law:
    """Equal to 1e-9 or not claimed; `determined` says which of the two it must be."""
    law = law_of(example.tables())
    if law.converged:
        assert off(law, example.A, example.B) < 1e-9, example.name
    assert determined is None or law.converged is determined, example.name
    return law


def coupled(
    shape: tuple[int, int], groups: int, coupling: float, seed: int, *, into_last: float = 1.0
) -> Example:
    """Groups of tokens that meet once in 1 / coupling, and contradict each other besides."""
    rng = np.random.default_rng(seed)
    shared, *own = rng.normal(0, 1, (3, *shape))
    first, second = (rng.permutation(np.arange(size) % groups) for size in shape)
    apart = first[:, None] != second
    tables = []
    for outcome, logits in zip((first[:, None], second), own, strict=True):
        meeting = np.where(apart, np.log(coupling), 0.0)
        # a last group that is hard to get into holds next to nothing
        entering = np.where(apart & (outcome == groups - 1), np.log(into_last), 0.0)
        tables.append(examples._f32(shared + logits + meeting + entering))
    m_a, m_b = (rng.dirichlet(np.ones(size)) for size in shape)
    return Example(f"{groups}-groups-{coupling}-{shape}", *tables, m_a, m_b)


# --- right, or not claimed ------------------------------------------------------------------------


def test_two_hundred_random_tables() -> None:
    rng = np.random.default_rng(0)
    kinds = list(SOLVABLE.values())
    for seed in range(200):
        rows, columns = (int(size) for size in rng.integers(2, 60, 2))
        check(kinds[seed % len(kinds)](rows, columns, seed), determined=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLVABLE)
def test_random_tables_of_many_tokens(kind: str) -> None:
    check(SOLVABLE[kind](DENSE + 20, DENSE + 90, 3), determined=None if kind == "peaked" else True)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2), (3, 3), (2, 600), (700, 3), (1, 4)])
def test_few_tokens(shape: tuple[int, int]) -> None:
    for seed in range(5):
        check(examples.random(*shape, seed), determined=True)


def test_a_gap_that_is_wide_is_not_computed_to_the_last_digit() -> None:
    """The second eigenvalue of a random matrix lies in a crowd, and is of no use here."""
    law = law_of(examples.random(DENSE + 100, DENSE + 200, 7).tables())
    assert law.converged
    assert law.passes < 90


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("groups", [2, 5])
def test_groups_that_hardly_meet_are_weighed_by_elimination(groups: int, coupling: float) -> None:
    for into_last in (1.0, 1e-12):
        check(coupled((40, 55), groups, coupling, 1, into_last=into_last), determined=True)


@pytest.mark.slow
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("groups", [2, 5])
def test_groups_of_many_tokens_are_weighed_or_not_claimed(groups: int, coupling: float) -> None:
    shape = (DENSE + 10, DENSE + 60)
    determined = True if coupling >= 1e-4 else False if coupling <= 1e-10 else None
    for into_last in (1.0, 1e-12):
        check(coupled(shape, groups, coupling, 2, into_last=into_last), determined=determined)


@pytest.mark.slow
def test_locked_pairs_of_rare_tokens_are_as_precise_as_likely_ones() -> None:
    """Arnoldi's method alone has an absolute precision; a closed pair of 1e-18 has none of it."""
    example = examples.random(DENSE + 10, DENSE + 20, 5)
    logits_A, logits_B = example.logits_A.copy(), example.logits_B.copy()
    for pair, height in ((7, -30.0), (300, -40.0)):
        logits_A[pair], logits_B[:, pair] = height, height
        logits_A[:, pair] = logits_B[pair] = -6.0
        logits_A[pair, pair] = logits_B[pair, pair] = 6.0
    locked = Example("locked", *map(examples._f32, (logits_A, logits_B)), example.m_a, example.m_b)
    law = check(locked, determined=True)
    assert float(law.log_a.min()) < -28


def test_exact_zeros_between_groups_are_not_claimed() -> None:
    block = np.repeat([0, 1], 8)
    scores = np.where(block[:, None] == block, 0.0, -1e5)
    m = np.full(16, 1 / 16)
    assert not check(Example("apart", scores, scores, m, m), determined=False).converged


def test_impossible_tokens_are_no_reason_to_doubt() -> None:
    example = examples.random(30, 20, 4)
    logits_A, logits_B = example.logits_A.copy(), example.logits_B.copy()
    logits_A[[3, 9]], logits_B[:, 5] = -1e4, -1e4
    check(Example("never", logits_A, logits_B, example.m_a, example.m_b), determined=True)


def test_sampling_for_long_settles_there_too() -> None:
    example = examples.heavy_tailed(60, 50, 4)
    settled = reference_law.stationary_by_power(example.A, example.B)
    right = reference_law.stationary(example.A, example.B)
    for r, other in zip(right, settled, strict=True):
        np.testing.assert_allclose(r, other, rtol=1e-9)


# --- several blanks -------------------------------------------------------------------------------


def of_several(model: ToyMaskedLM, blanks: int) -> CandidateTables:
    lm = unmask.LanguageModel(model, ToyTokenizer(model.vocabulary_size))
    axes = tuple(lm.support(list(range(model.vocabulary_size))) for _ in range(blanks))
    cloze = lm.cloze(" ".join(["[MASK]"] * blanks))
    return CandidateTables(RowReader(lm.model, QUIET), cloze, axes)


@pytest.mark.parametrize("size", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_four_blanks(size: int) -> None:
    """Up to 81 fills by elimination, 625 by Arnoldi's method."""
    tables = of_several(ToyMaskedLM(toy_joint(size, 4), noise=1.0), 4)
    law = stationary_law(tables)
    given = [tables.log_given_others(t).exp().numpy() for t in range(4)]
    right = reference_law.stationary_of_several(given)
    assert law.converged
    for blank, log_others in enumerate(law.log_others):
        others = right.sum(axis=blank, keepdims=True)
        np.testing.assert_allclose(log_others.exp().numpy(), others, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("leak", COUPLINGS)
@pytest.mark.parametrize("size", [4, 9])
def test_blocks_of_three_blanks(size: int, leak: float) -> None:
    """64 fills by elimination, 729 by Arnoldi's method."""
    rng = np.random.default_rng(3)
    table = np.full((size,) * 3, leak)
    for block in (slice(0, size // 2), slice(size // 2, size)):
        table[(block,) * 3] += rng.uniform(0.5, 1.5, table[(block,) * 3].shape)
    tables = of_several(ToyMaskedLM(table, noise=0.1), 3)
    given = [tables.log_given_others(t).exp().numpy() for t in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndeterminedWarning)
        law = stationary_law(tables)
    assert law.converged or size == 9
    if law.converged:
        right = reference_law.stationary_of_several(given)
        for blank, log_others in enumerate(law.log_others):
            others = right.sum(axis=blank, keepdims=True)
            np.testing.assert_allclose(log_others.exp().numpy(), others, rtol=1e-9)


# --- what it says and does ------------------------------------------------------------------------


def undetermined() -> unmask.PairTables:
    return coupled((DENSE + 10, DENSE + 20), 2, 1e-14, 3).tables()


def test_what_is_not_determined_comes_with_a_warning_and_without_j() -> None:
    tables = undetermined()
    with pytest.warns(UndeterminedWarning, match="groups of tokens hardly meet"):
        joint = unmask.construct("log-pool", tables)
    assert joint.diagnostics["converged"] is False
    assert np.exp(examples.log_table(joint)).sum() == pytest.approx(1, abs=1e-9)
    assert joint.agreement() is joint.incompatibility() is None
    assert joint.standard_errors()["incompatibility"] is None
    assert unmask.construct("log-pool", tables).incompatibility() is agreement(tables) is None
    # constructions that need no law are as good as ever, and have no J either
    assert unmask.construct("mrf", tables).incompatibility() is None


def test_a_law_is_solved_once() -> None:
    tables = examples.random(6, 5, 0).tables()
    assert stationary_law(tables) is stationary_law(tables) is tables.law


@pytest.mark.parametrize("size", [40, DENSE + 10])
def test_two_calls_are_equal_in_every_bit(size: int) -> None:
    example = examples.heavy_tailed(size, size + 10, 6)
    first, second = (stationary_law(example.tables()) for _ in range(2))
    for one, other in zip(first.log_others, second.log_others, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("size", [40, DENSE + 10])
def test_tables_without_doubly_masked_distributions_will_do(size: int) -> None:
    example = examples.heavy_tailed(size, size + 10, 3)
    tables = example.tables()
    bare = unmask.PairTables.from_logits(tables.a_given_b.logits, tables.b_given_a.logits)
    assert off(stationary_law(bare), example.A, example.B) < 1e-9


@pytest.mark.parametrize("size", [60, DENSE + 10])
def test_without_room_for_a_copy_of_the_tables_it_is_the_same(size: int) -> None:
    example = examples.heavy_tailed(size, size - 20, 5)
    assert off(stationary_law(example.tables(memory_limit=0)), example.A, example.B) < 1e-9


def test_a_progress_function_counts_the_sweeps_and_can_stop_them() -> None:
    class StopError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.done >= 10:
            raise StopError

    tables = examples.random(DENSE + 10, DENSE + 10, 0).tables()
    tables.settings = unmask.Settings(progress=stop)
    with pytest.raises(StopError):
        stationary_law(tables)
