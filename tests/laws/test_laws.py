"""What must hold of every construction, and where one breaks a law by its nature, that it does."""

from functools import cache
from itertools import pairwise
from operator import attrgetter

import examples
import numpy as np
import pytest
import reference
import torch
from examples import EXAMPLES, SOLVABLE, Example, build, converged, log_table

import unmask
from unmask import logspace
from unmask.tables.stationary import stationary_law

METHODS = list(unmask.CONSTRUCTIONS)
by_name = attrgetter("name")
NAMED = {example.name: example for example in EXAMPLES}
SOME = [e for e in EXAMPLES if e.A.shape in [(2, 5), (7, 3), (40, 40)]]


@cache
def named(method: str, name: str) -> unmask.Joint:
    """The joint of one of EXAMPLES, found once: several laws compare with it."""
    return build(method, NAMED[name])


def on_the_way(*joints: unmask.Joint) -> bool:
    """Whether a search did not end with these: where it then stands, no law says."""
    return not all(map(converged, joints))


def gap(one: examples.Array, other: examples.Array) -> float:
    return float(np.abs(one - other).max())


# compatible conditionals give back the true joint


@pytest.mark.parametrize("shape", [(2, 2), (7, 3), (40, 40), (300, 300)])
@pytest.mark.parametrize("pivot_axis", [0, 1])
def test_hcb_recovers_the_truth(shape: tuple[int, int], pivot_axis: int) -> None:
    example = examples.compatible(*shape, seed=9)
    assert (
        gap(log_table(build("hcb", example, pivot_axis=pivot_axis)), np.log(example.truth)) < 2e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 2), (7, 3), (15, 15)])
def test_steps_of_ag_recover_the_truth_in_the_end(shape: tuple[int, int]) -> None:
    example = examples.compatible(*shape, seed=9)
    settled = reference.ag_converged(example.A, example.B, tolerance=1e-12)
    # the stored logits are float32, so the tables are compatible only to their rounding
    assert gap(np.log(settled), np.log(example.truth)) < 1e-4
    assert gap(log_table(build("ag", example, steps=4000)), np.log(example.truth)) < 1e-4


@pytest.mark.parametrize("method", ["mrf", "mrf-logit", "mlm"])
def test_other_constructions_miss_the_truth(method: str) -> None:
    example = examples.compatible(40, 40, seed=9)
    assert gap(log_table(build(method, example)), np.log(example.truth)) > 0.1


def test_fifty_uniform_steps_of_ag_miss_the_truth() -> None:
    """Two blocks of tokens that rarely meet: mass crosses between them slowly."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (20, 20))
    scores[:10, 10:] -= 8
    scores[10:, :10] -= 8
    scores[:10, :10] += 2
    truth = reference.softmax(scores, (0, 1))
    example = Example("blocks", np.log(truth), np.log(truth), truth.sum(1), truth.sum(0), truth)
    assert gap(log_table(build("ag", example)), np.log(truth)) > 0.1
    assert gap(log_table(build("log-pool", example)), np.log(truth)) < 1e-4


# independence survives


def independent_example(rows: int, columns: int) -> Example:
    rng = np.random.default_rng(7)
    p, q = rng.dirichlet(np.ones(rows)), rng.dirichlet(np.ones(columns))
    logits_A = np.repeat(np.log(p)[:, None], columns, 1)
    logits_B = np.repeat(np.log(q)[None], rows, 0)
    return Example("independent", logits_A, logits_B, p, q, np.outer(p, q))


@pytest.mark.parametrize("method", [m for m in METHODS if m != "ag"])
def test_independence_survives(method: str) -> None:
    example = independent_example(30, 20)
    joint = build(method, example)
    assert gap(log_table(joint), np.log(example.truth)) < 1e-5
    assert abs(joint.mutual_information()) < 1e-9


@pytest.mark.slow
def test_independence_survives_steps_of_ag_in_the_limit_only() -> None:
    example = independent_example(8, 6)
    assert gap(log_table(build("ag", example, steps=3000)), np.log(example.truth)) < 1e-4
    assert gap(log_table(build("ag", example, steps=2)), np.log(example.truth)) > 0.1


# relabelling, swapping, normalising


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("example", SOME, ids=by_name)
def test_relabelling_tokens_commutes(method: str, example: Example) -> None:
    rng = np.random.default_rng(3)
    orders = [rng.permutation(size) for size in example.A.shape]
    joint, relabelled = named(method, example.name), build(method, example.relabelled(*orders))
    if on_the_way(joint, relabelled):
        return
    assert gap(log_table(relabelled), log_table(joint)[np.ix_(*orders)]) < 1e-6


@pytest.mark.parametrize("method", [m for m in METHODS if m != "hcb"])
@pytest.mark.parametrize("example", SOME, ids=by_name)
def test_swapping_the_blanks_transposes(method: str, example: Example) -> None:
    joint, swapped = named(method, example.name), build(method, example.swapped())
    if on_the_way(joint, swapped):
        return
    assert gap(log_table(swapped), log_table(joint).T) < 1e-6


@pytest.mark.parametrize("example", SOME, ids=by_name)
def test_swapping_the_blanks_of_hcb_swaps_its_pivot_axis(example: Example) -> None:
    other = build("hcb", example.swapped(), pivot_axis=1)
    assert gap(log_table(other), log_table(named("hcb", example.name)).T) < 1e-6


def test_hcb_itself_depends_on_the_order_of_the_blanks() -> None:
    example = examples.random(20, 20, seed=0)
    assert gap(log_table(build("hcb", example.swapped())), log_table(build("hcb", example)).T) > 0.1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("example", EXAMPLES, ids=by_name)
def test_joint_rows_and_columns_normalise(method: str, example: Example) -> None:
    joint = named(method, example.name)
    table = log_table(joint)
    assert np.exp(table).sum() == pytest.approx(1, abs=1e-12)
    for axis in (0, 1):
        # in log space: a search that is on its way may leave marginals that float64 cannot hold
        sums = np.logaddexp.reduce(table, axis=1 - axis)
        assert gap(log_table(joint.marginal(axis)), sums) < 1e-9
        given = joint.conditional(axis, given={1 - axis: 1})
        assert np.exp(log_table(given)).sum() == pytest.approx(1, abs=1e-12)


# the same joint however the tables are kept


def factored(example: Example, width: int, *, dense: bool = False) -> unmask.PairTables:
    """Random factors of a table's shape, through the library's own factored storage."""
    generator = torch.Generator().manual_seed(1)
    rows, columns = example.A.shape
    sizes = [(rows, width), (columns, width), (rows,), (rows, width), (columns, width), (columns,)]
    left_a, right_a, bias_a, left_b, right_b, bias_b = (
        torch.randn(size, generator=generator) for size in sizes
    )
    logits = [
        unmask.FactoredLogits(left_a, right_a, bias_a=bias_a),
        unmask.FactoredLogits(left_b, right_b, bias_b=bias_b),
    ]
    return unmask.PairTables.from_logits(
        *([one.dense() for one in logits] if dense else logits), marginals=example.tables().masked
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(2, 2), (7, 3), (50, 90)])
def test_dense_factored_and_streamed_tables_agree(
    method: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = factored(examples.random(*shape, seed=0), width=16)
    dense = factored(examples.random(*shape, seed=0), width=16, dense=True)
    assert [kept.diagnostics()["tables"] for kept in (dense, tables)] == ["dense", "factored"]
    whole = log_table(unmask.construct(method, dense))
    assert gap(log_table(unmask.construct(method, tables)), whole) < 1e-5
    # tiles of a single row, and AG without a copy of the tables
    monkeypatch.setattr(logspace, "TILE_CELLS", 1)
    tables = factored(examples.random(*shape, seed=0), width=16)
    tables.settings = unmask.Settings(memory_limit=0)
    streamed = unmask.construct(method, tables)
    assert len(tables.blocks()) == shape[0]
    assert gap(log_table(streamed), whole) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("tile_cells", [1, 7, 1000])
def test_metrics_do_not_depend_on_the_tiles(
    tile_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> dict[str, unmask.PairMetrics]:
        tables = factored(examples.random(40, 30, seed=0), width=8)
        joints = {m: unmask.construct(m, tables) for m in METHODS}
        return unmask.pair_metrics(joints, tables, (3, 5))

    whole = run()
    monkeypatch.setattr(logspace, "TILE_CELLS", tile_cells)
    for method, tiled in run().items():
        assert tiled.to_dict() == pytest.approx(whole[method].to_dict(), abs=1e-6)


# Arnold-Gokhale descends; only MRF_L sees what softmax does not


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.A.size < 20_000], ids=by_name)
def test_ags_objective_never_rises_from_step_to_step(example: Example) -> None:
    tables = example.tables()
    joints = {str(n): unmask.construct("ag", tables, steps=n) for n in range(1, 30)}
    objective = [one.all_kl for one in unmask.pair_metrics(joints, tables, (0, 0)).values()]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(objective))
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("example", SOME, ids=by_name)
def test_a_shift_of_one_contexts_logits_changes_only_mrf_logit(
    method: str, example: Example
) -> None:
    shift_A, shift_B = np.zeros(example.A.shape[1]), np.zeros((example.A.shape[0], 1))
    # powers of two, so that float32 holds the shifted logits as exactly as the others
    shift_A[1], shift_B[0] = 4.0, -2.0
    shifted = Example(
        example.name,
        example.logits_A + shift_A,
        example.logits_B + shift_B,
        example.m_a,
        example.m_b,
    )
    joint, moved = named(method, example.name), build(method, shifted)
    if on_the_way(joint, moved):
        return
    change = gap(log_table(moved), log_table(joint))
    assert change > 0.1 if method == "mrf-logit" else change < 1e-4


# joints that go past the paper

# what gives back a true joint, given its conditionals and its marginals as m
RECOVERING: list[tuple[str, dict[str, object]]] = [
    ("log-pool", {}),
    ("orders", {"mean": "arithmetic"}),
    ("orders", {"mean": "geometric"}),
]


def with_wrong_marginals(example: Example) -> Example:
    rng = np.random.default_rng(0)
    m_a, m_b = (rng.dirichlet(np.ones(size)) for size in example.A.shape)
    return Example(example.name, example.logits_A, example.logits_B, m_a, m_b, example.truth)


@pytest.mark.parametrize(("method", "options"), RECOVERING, ids=str)
@pytest.mark.parametrize("shape", [(2, 2), (7, 3), (40, 40), (300, 200)])
def test_the_truth_is_recovered(
    method: str, options: dict[str, object], shape: tuple[int, int]
) -> None:
    example = examples.compatible(*shape, seed=9)
    # the stored logits are float32, so the tables are compatible only to their rounding
    assert gap(log_table(build(method, example, **options)), np.log(example.truth)) < 2e-5


def test_the_pool_recovers_the_truth_from_wrong_marginals() -> None:
    wrong = with_wrong_marginals(examples.compatible(40, 30, seed=9))
    assert gap(log_table(build("log-pool", wrong)), np.log(wrong.truth)) < 2e-5


@pytest.mark.parametrize(("method", "options"), RECOVERING[1:], ids=str)
def test_marginals_that_are_taken_on_trust_must_be_right(
    method: str, options: dict[str, object]
) -> None:
    wrong = with_wrong_marginals(examples.compatible(40, 30, seed=9))
    assert gap(log_table(build(method, wrong, **options)), np.log(wrong.truth)) > 0.01


@pytest.mark.parametrize("example", EXAMPLES, ids=by_name)
def test_the_mean_of_two_orders_needs_no_normaliser(example: Example) -> None:
    joint = build("orders", example)
    scores = joint.scores(slice(0, joint.shape[0])).numpy()
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", SOLVABLE)
def test_the_law_does_not_move_when_sampled_from(kind: str) -> None:
    example = SOLVABLE[kind](60, 50, 3)
    law = stationary_law(example.tables())
    r_a, r_b = law.log_a.exp().numpy(), law.log_b.exp().numpy()
    np.testing.assert_allclose(example.A @ r_b, r_a, rtol=1e-9)
    np.testing.assert_allclose(example.B.T @ r_a, r_b, rtol=1e-9)


@pytest.mark.parametrize("kind", SOLVABLE)
def test_the_pool_is_the_geometric_mean_of_both_factorisations(kind: str) -> None:
    example = SOLVABLE[kind](60, 50, 3)
    law = stationary_law(example.tables())
    log_r_a, log_r_b = law.log_a.numpy()[:, None], law.log_b.numpy()
    scores = (np.log(example.A) + np.log(example.B) + log_r_a + log_r_b) / 2
    right = scores - np.logaddexp.reduce(scores, axis=None)
    assert gap(log_table(build("log-pool", example)), right) < 1e-9
