"""Joints from a sketch of the vocabulary, held against those from all of it."""

import gc
import math
import weakref

import numpy as np
import pytest
import torch
from sketch_tables import clustered, tables_of
from toy_lm import ToyMaskedLM, ToyTokenizer

import unmask
from unmask import Joint, Sketch
from unmask.constructions import CONSTRUCTIONS, construct
from unmask.queries.sketched import sketched_joints
from unmask.tables.conditional import DenseLogits
from unmask.tables.marginals import MaskedMarginals
from unmask.tables.pair_tables import PairTables
from unmask.tables.sketch import SketchedPair

REJECTED = [name for name, one in CONSTRUCTIONS.items() if one.unsketched]


def sketched(tables: PairTables, sketch: Sketch, method: str = "log-pool", **options) -> Joint:
    return sketched_joints({method: options}, tables, sketch)[method]


# --- laws ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_compatible_joint_comes_back_within_its_error_bars(seed):
    joint = clustered(600, seed)
    sketch = Sketch(precision=None, max_passes=301, seed=seed)
    found = sketched(tables_of(joint), sketch)
    assert found.is_sketched()
    best = found.top(20)
    for fill in best:
        exact = math.log(joint[fill.ids])
        assert abs(fill.log_prob - exact) < 5 * fill.error + 1e-4, fill
    mean_z = np.mean([(f.log_prob - math.log(joint[f.ids])) ** 2 / f.error**2 for f in best[:5]])
    assert mean_z < 16


@pytest.mark.slow
def test_with_every_context_it_is_the_exact_joint():
    size = 60
    tables = tables_of(clustered(size, 1), noise=0.5)
    found = sketched(tables, Sketch(precision=None, max_passes=2 * size + 1 + 200))
    exact = construct("log-pool", tables)
    every = slice(0, size)
    assert found.shape == exact.shape
    torch.testing.assert_close(found.log_rows(every), exact.log_rows(every), atol=1e-6, rtol=0)
    assert found.standard_error(Joint.entropy) < 1e-8
    assert [fill.ids for fill in found.top(10)] == [fill.ids for fill in exact.top(10)]
    assert found.entropy() == pytest.approx(exact.entropy(), abs=1e-6)
    assert found.mutual_information() == pytest.approx(exact.mutual_information(), abs=1e-6)
    assert found.incompatibility() == pytest.approx(exact.incompatibility(), abs=1e-6)


@pytest.mark.slow
def test_error_bars_are_as_wide_as_the_errors():
    tables = tables_of(clustered(300, 4), noise=0.3)
    exact = construct("log-pool", tables)
    best = exact.top(1)[0].ids
    numbers = {
        "best": lambda joint: joint.log_prob(*best),
        "entropy": Joint.entropy,
        "information": Joint.mutual_information,
        "J": Joint.incompatibility,
    }
    squares = {name: [] for name in numbers}
    stated = {name: [] for name in numbers}
    for seed in range(8):
        sketch = Sketch(precision=None, max_passes=201, seed=seed)
        found = sketched(tables, sketch)
        for name, values in squares.items():
            off = numbers[name](found) - numbers[name](exact)
            stated[name].append(found.standard_error(numbers[name]))
            values.append((off / stated[name][-1]) ** 2)
    for name, values in squares.items():
        # of normal errors with the right width the mean is one; its spread over seeds is 0.5
        assert np.mean(values) < 4.0, (name, values)
        # no error below 0.001 is stated, and J is known better than that here; entropies allow for
        # pairs that no context hints at, of which there are none here
        least = 0.02 if name in ("entropy", "information") else 0.1
        assert np.mean(values) > least or np.max(stated[name]) < 0.002, (name, values, stated[name])
        assert np.mean(np.array(values) < 4) > 0.7, (name, values)


@pytest.mark.slow
def test_a_sketch_is_freed_with_its_joint():
    tables = tables_of(clustered(300, 4))
    joint = sketched(tables, Sketch(precision=None, max_passes=201))
    joint.standard_errors()
    replicate = weakref.ref(next(iter(joint.engine.replicates())))
    gc.disable()
    try:
        del joint
        assert replicate() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_numbers_hang_together():
    tables = tables_of(clustered(400, 2), noise=0.3)
    joint = sketched(tables, Sketch(precision=None, max_passes=201))
    fill = joint.top(3)[2]
    assert joint.log_prob(*fill.ids) == pytest.approx(fill.log_prob, abs=1e-12)
    assert joint.standard_error(lambda one: one.log_prob(*fill.ids)) == pytest.approx(fill.error)
    a, b = fill.ids
    chain = joint.marginal(0).log_prob(a) + joint.conditional(1, given={0: a}).log_prob(b)
    assert chain == pytest.approx(fill.log_prob, abs=1e-9)
    apart = joint.marginal(0).log_prob(a) + joint.marginal(1).log_prob(b)
    assert joint.pmi(a, b) == pytest.approx(fill.log_prob - apart, abs=1e-9)
    # the masses of what its tokens stand for sum to one
    log_rows = joint.log_rows(slice(None))
    w_a, w_b = (weights[0] for weights in joint.engine.every_log_weights)
    total = torch.logsumexp((log_rows + w_a[:, None] + w_b).flatten(), dim=0)
    assert float(total) == pytest.approx(0.0, abs=1e-9)
    assert joint.marginal(0).top(1)[0].error > 0


def test_blanks_in_the_other_order_have_the_same_numbers():
    tables = tables_of(clustered(150, 3), noise=0.3)
    joint = sketched(tables, Sketch(precision=None, max_passes=101))
    turned = joint.marginal(1, 0)
    assert turned.shape == joint.shape[::-1]
    assert str(turned).startswith("<Joint over 2 blanks (150 x 150 tokens, sketched by")
    pairs = [(fill.ids[::-1], fill.log_prob, fill.error) for fill in joint.top(5)]
    assert [(fill.ids, fill.log_prob, fill.error) for fill in turned.top(5)] == pairs
    assert torch.equal(turned.log_rows(slice(3, 9)), joint.log_rows(slice(None))[:, 3:9].T)
    (a, b), error = joint.top(1)[0].ids, joint.standard_error(Joint.entropy)
    unread = next(token for token in range(150) if token not in joint.supports[0].place_of_id)
    for first in (a, unread):
        assert turned.log_prob(b, first) == joint.log_prob(first, b)
        given = turned.conditional(0, given={1: first}), joint.conditional(1, given={0: first})
        assert given[0].top(2) == given[1].top(2)
        assert turned.marginal(1).log_prob(first) == joint.marginal(0).log_prob(first)
    assert turned.entropy() == joint.entropy()
    assert turned.standard_error(Joint.entropy) == error > 0
    assert turned.marginal(1, 0).top(2) == joint.top(2)
    assert {fill.ids[1] for fill in turned.sample(20)} <= set(joint.supports[0].ids.tolist())


@pytest.mark.slow
def test_any_token_of_the_vocabulary_has_a_probability():
    tables = tables_of(clustered(500, 3), noise=0.3)
    joint, exact = (
        sketched(tables, Sketch(precision=None, max_passes=301)),
        construct("log-pool", tables),
    )
    held = {int(token) for token in joint.supports[0].ids}
    other = next(token for token in range(500) if token not in held)
    b = joint.top(1)[0].ids[1]
    error = joint.standard_error(lambda one: one.log_prob(other, b))
    assert abs(joint.log_prob(other, b) - exact.log_prob(other, b)) < 5 * error + 0.02
    given = joint.conditional(1, given={0: other})
    assert abs(given.log_prob(b) - exact.conditional(1, given={0: other}).log_prob(b)) < 0.3
    # asking changes nothing for the others
    again = joint.top(3)
    assert again == sketched(tables, Sketch(precision=None, max_passes=301)).top(3)


@pytest.mark.slow
def test_a_seed_gives_the_same_answer_and_another_one_another():
    tables = tables_of(clustered(400, 5), noise=0.3)
    one, same, other = (sketched(tables, Sketch(seed=seed)) for seed in (1, 1, 2))
    assert one.top(5) == same.top(5)
    assert one.top(5) != other.top(5)


# --- as many passes as the precision asks for ----------------------------------------------------


@pytest.mark.slow
def test_contexts_are_added_until_the_precision_is_reached():
    tables = tables_of(clustered(1_000, 6, locked=3.0), noise=0.5)
    passes = {}
    for precision in (0.3, 0.01):
        joint = sketched(tables, Sketch(precision=precision))
        known = joint.diagnostics
        assert known["precision_reached"] is True
        assert known["standard_error"] <= precision
        passes[precision] = sum(map(len, joint.supports))
    assert passes[0.01] > passes[0.3]


@pytest.mark.slow
def test_a_budget_that_is_used_up_is_said():
    tables = tables_of(clustered(2_000, 6, locked=3.0), noise=0.5)
    joint = sketched(tables, Sketch(precision=1e-6, max_passes=301))
    assert joint.diagnostics["precision_reached"] is False
    assert joint.diagnostics["standard_error"] > 1e-6
    assert max(map(len, joint.supports)) <= 150


@pytest.mark.slow
def test_rows_that_have_run_are_kept():
    tables = tables_of(clustered(800, 7), noise=0.3)
    pair = SketchedPair(tables)
    pair.grow(60)
    before = [set(side.places.tolist()) for side in pair.sides]
    pair.grow(120)
    for rows, side in zip(before, pair.sides, strict=True):
        certain = set(side.places[side.certain].tolist())
        assert rows <= certain
        assert len(side.places) == 120


@pytest.mark.slow
def test_rows_and_tables_take_their_part_of_the_memory_limit():
    tables = tables_of(clustered(1_000, 8))
    tables.settings = unmask.Settings(memory_limit=4 * 2_000 * 70 + 15 * 8 * 70**2)
    assert max(map(len, sketched(tables, Sketch(precision=1e-9)).supports)) == 70


def test_a_memory_limit_that_leaves_a_few_contexts_is_rejected():
    tables = tables_of(clustered(1_000, 8))
    tables.settings = unmask.Settings(memory_limit=4 * 2_000 * 30 + 15 * 8 * 30**2)
    with pytest.raises(unmask.errors.SupportError, match=r"at least 50 contexts .* 30 are allowed"):
        sketched(tables, Sketch())


# --- tables made to mislead it -------------------------------------------------------------------


@pytest.mark.slow
def test_a_heavy_uniform_tail():
    size = 3_000
    joint = np.full((size, size), 0.6 / size**2)
    joint[:20, :20] += 0.4 / 400
    found = sketched(tables_of(joint), Sketch())
    for fill in found.top(10):
        assert abs(fill.log_prob - math.log(joint[fill.ids])) < 5 * fill.error + 0.02


def locked_outside(size: int, hint: float, masked_hint: float = 1e-9) -> PairTables:
    """A pair that holds half of all mass and that hardly any other context knows of.

    The masked answer knows next to nothing of its second half, and `masked_hint` of its first.
    """
    joint = clustered(size, 9)
    a, b = size - 1, size - 2
    tables = tables_of(joint)
    logs = [tables.log_given_others(t).clone() for t in (0, 1)]
    # each token expects the other, and hardly any other context expects either
    logs[0][a, :], logs[1][:, b] = math.log(hint), math.log(hint)
    logs[0][a, b] = logs[1][a, b] = 12.0
    masked = [torch.tensor(np.log(joint.sum(1))), torch.tensor(np.log(joint.sum(0)))]
    masked[0][a], masked[1][b] = math.log(masked_hint), math.log(1e-9)
    masked = [log - torch.logsumexp(log, 0) for log in masked]
    return PairTables.from_logits(
        *(DenseLogits(log.float().contiguous()) for log in logs), marginals=MaskedMarginals(*masked)
    )


@pytest.mark.slow
def test_a_locked_pair_that_other_contexts_hint_at_is_found():
    tables = locked_outside(800, hint=0.01)
    exact = construct("log-pool", tables).top(1)[0]
    assert exact.ids == (799, 798)
    found = sketched(tables, Sketch())
    assert found.top(1)[0].ids == exact.ids
    assert abs(found.top(1)[0].log_prob - exact.log_prob) < 5 * found.top(1)[0].error + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_locked_pair_that_hides_from_means_is_found_by_the_half_that_runs(seed):
    # its first half runs, but as long as the second has not, no mass flows back to it
    tables = locked_outside(800, hint=1e-6, masked_hint=0.005)
    fills = sketched(tables, Sketch(seed=seed)).top(5)
    (pair,) = [fill for fill in fills if fill.ids == (799, 798)]
    exact = construct("log-pool", tables).log_prob(799, 798)
    assert abs(pair.log_prob - exact) < 5 * pair.error + 0.05


@pytest.mark.slow
def test_what_no_context_hints_at_is_missed_without_a_sign():
    # the limit that the documentation names: nothing that was run knows of the pair
    tables = locked_outside(800, hint=1e-9)
    found = sketched(tables, Sketch())
    assert found.top(1)[0].ids != (799, 798)
    assert construct("log-pool", tables).log_prob(799, 798) > math.log(1e-6)


# --- from a model --------------------------------------------------------------------------------


def toy(size: int) -> unmask.LanguageModel:
    return unmask.LanguageModel(ToyMaskedLM(clustered(size, 0)), ToyTokenizer(size))


@pytest.fixture(scope="module")
def large() -> unmask.LanguageModel:
    return toy(700)


TEXT = "[MASK] [MASK]"


@pytest.fixture(scope="module")
def by_default(large) -> Joint:
    return large.joint(TEXT)


@pytest.mark.slow
def test_two_blanks_of_a_large_vocabulary_are_sketched_by_default(large, by_default):
    joint = by_default
    assert joint.is_sketched()
    assert joint.diagnostics["forward_passes"] < 1_000
    assert joint.method == "log-pool"
    assert "sketched" in repr(joint)
    assert "+-" in repr(joint)
    assert large.fill(TEXT)[0]["score_error"] > 0
    cost = large.cost(TEXT, timed=False)
    assert cost.at_most
    assert joint.diagnostics["forward_passes"] <= cost.forward_passes
    assert str(cost).startswith("at most ")


@pytest.mark.slow
def test_forward_passes_are_counted_with_those_of_further_tokens(large):
    joint = large.joint(TEXT)
    held = {int(token) for token in joint.supports[0].ids}
    other = next(token for token in range(700) if token not in held)
    before = large.model.rows_asked
    counted = joint.diagnostics["forward_passes"]
    joint.log_prob(other, joint.top(1)[0].ids[1])
    assert large.model.rows_asked == before + 1
    assert joint.diagnostics["forward_passes"] == counted + 1


@pytest.mark.slow
def test_small_alphabets_and_candidates_stay_exact(large):
    assert not toy(40).joint(TEXT).is_sketched()
    assert not large.joint(TEXT, support=20).is_sketched()
    assert not large.joint(TEXT, support=list(range(30))).is_sketched()
    exact = large.joint(TEXT, support="vocabulary")
    assert not exact.is_sketched()
    assert exact.top(1)[0].error is None
    assert exact.standard_error(Joint.entropy) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mlm", "orders", "log-pool"])
def test_the_tokens_of_a_sketch_as_candidates_stand_for_themselves(large, by_default, method):
    axes = by_default.supports
    exact = large.joint(
        TEXT, method=method, support={b: axis.ids.tolist() for b, axis in enumerate(axes)}
    )
    found = large.joint(TEXT, method=method, support=dict(enumerate(axes)))
    assert float(found.log_rows(slice(None)).exp().sum()) == pytest.approx(1.0)
    assert found.top(1)[0].log_prob == pytest.approx(exact.top(1)[0].log_prob, abs=1e-9)


@pytest.mark.slow
def test_what_needs_no_table_stays_exact(large):
    joints = large.joints(TEXT)
    assert set(joints) == {name for name in CONSTRUCTIONS if name not in REJECTED}
    for name in ("mlm", "orders"):
        assert not joints[name].is_sketched()
    assert joints["orders"].log_prob("t1", "t2") == pytest.approx(
        large.joint(TEXT, method="orders", support="vocabulary").log_prob("t1", "t2"), abs=1e-6
    )


@pytest.mark.parametrize("method", REJECTED)
def test_constructions_that_a_sketch_would_get_wrong_say_so(large, method):
    with pytest.raises(unmask.errors.MethodError, match="support='vocabulary'") as error:
        large.joint(TEXT, method=method)
    assert str(error.value).count("\n") == 0
    assert large.joint(TEXT, method=method, support=10).method == method


@pytest.mark.slow
def test_the_geometric_mean_of_orders_is_sketched(large):
    joint = large.joint(TEXT, method="orders", mean="geometric")
    exact = large.joint(TEXT, method="orders", mean="geometric", support="vocabulary")
    assert joint.is_sketched()
    for fill in joint.top(5):
        assert abs(fill.log_prob - exact.log_prob(*fill.ids)) < 5 * fill.error + 1e-4


@pytest.mark.slow
def test_the_batch_size_changes_nothing_but_rounding(large):
    small, whole = (
        large.joint(TEXT, settings=unmask.Settings(batch_size=size)).top(10) for size in (7, 400)
    )
    assert [fill.ids for fill in small] == [fill.ids for fill in whole]
    for one, other in zip(small, whole, strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def test_sketches_that_cannot_be_are_rejected(large):
    for wrong in ({"precision": 0}, {"precision": float("nan")}, {"precision": "high"}):
        with pytest.raises(unmask.errors.SupportError, match="precision"):
            Sketch(**wrong)
    for passes in (0, 50, 1.5, None):
        with pytest.raises(unmask.errors.SupportError, match="forward passes"):
            Sketch(max_passes=passes)
    for seed in (-1, None, 2**70):
        with pytest.raises(unmask.errors.SupportError, match="seed"):
            Sketch(seed=seed)
    three = unmask.LanguageModel(ToyMaskedLM(np.ones((5, 5, 5))), ToyTokenizer(5))
    with pytest.raises(unmask.errors.SupportError, match="two blanks"):
        three.joint("[MASK] [MASK] [MASK]", support=Sketch(precision=0.1))


def test_one_blank_takes_a_sketch_for_what_it_is():
    one = unmask.LanguageModel(ToyMaskedLM(np.arange(1.0, 6.0)), ToyTokenizer(5))
    assert one.joint("[MASK]", support=Sketch()).top(1)[0].ids == (4,)
    assert one.cost("[MASK]", support=Sketch(), timed=False).forward_passes == 1
