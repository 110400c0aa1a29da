"""Every construction and metric against the slow float64 definitions."""

import re
from functools import cache

import examples
import numpy as np
import pytest
import reference
from examples import EXAMPLES, SEARCHED, SOLVED, Example, build, converged, log_table, tolerance
from thinned import thinned

import unmask
from unmask.constructions import method_name
from unmask.names import ALIASES
from unmask.tables import kernels

NAN, INF = float("nan"), float("inf")


NAMED = {example.name: example for example in EXAMPLES}


@cache
def held(method: str, name: str) -> examples.Array:
    """What one of EXAMPLES must give, computed once."""
    return expected(method, NAMED[name])


def expected(method: str, example: Example) -> examples.Array:
    A, B, m_a, m_b = example.A, example.B, example.m_a, example.m_b
    mode = (int(m_a.argmax()), int(m_b.argmax()))
    return {
        "mlm": lambda: reference.mlm(m_a, m_b),
        "mrf": lambda: reference.mrf(A, B),
        "mrf-logit": lambda: reference.mrf_logit(example.logits_A, example.logits_B),
        "hcb": lambda: reference.hcb(A, B, mode),
        "ag-paper": lambda: reference.ag(A, B, 50),
        "ag": lambda: reference.ag_minimum(A, B, m_a, m_b),
        "weighted-ag": lambda: reference.weighted_ag(A, B, m_a, m_b),
        "pseudo-gibbs": lambda: reference.pseudo_gibbs(A, B),
        "log-pool": lambda: reference.log_pool(A, B),
        "orders": lambda: reference.orders(A, B, m_a, m_b, "arithmetic"),
        "sweep": lambda: reference.sweep(A, B, m_a, m_b, 25, 0.02),
    }[method]()


def may_fail(method: str, example: Example) -> bool:
    """Whether float64 may not be enough for a search on these tables."""
    return method in SEARCHED and example.name.startswith("near-deterministic")


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_joint_is_as_defined(method: str, example: Example) -> None:
    joint = build(method, example)
    if not may_fail(method, example):
        assert converged(joint)
        close = tolerance(example.logits_A, example.logits_B, np.log(example.A), np.log(example.B))
        right = np.log(held(method, example.name))
        np.testing.assert_allclose(log_table(joint), right, rtol=0, atol=close)
    elif converged(joint):
        assert examples.error(joint, held(method, example.name)) < SOLVED


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
def test_a_blank_may_have_a_single_candidate(method: str, shape: tuple[int, int]) -> None:
    example = examples.random(*shape, seed=0)
    joint = build(method, example)
    assert converged(joint)
    right = np.log(expected(method, example))
    np.testing.assert_allclose(log_table(joint), right, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [*[(method, {}) for method in ("ag-paper", *SEARCHED)], ("ag", {"pseudo_counts": 0.5})],
    ids=str,
)
@pytest.mark.parametrize("kind", thinned(examples.SOLVABLE, 4))
def test_compiled_passes_give_the_same(
    method: str, options: dict[str, object], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    example = examples.SOLVABLE[kind](60, 50, 2)
    plain = build(method, example, **options)
    # the size below which compiling is not worth it, taken away
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    compiled = build(method, example, **options)
    assert converged(plain)
    assert converged(compiled)
    np.testing.assert_allclose(log_table(compiled), log_table(plain), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_metrics_of_all_joints_in_one_pass_are_the_papers(example: Example) -> None:
    tables = example.tables()
    joints = {
        method: unmask.construct(method, tables, **examples.PURE.get(method, {}))
        for method in unmask.CONSTRUCTIONS
        if not may_fail(method, example)
    }
    found = unmask.pair_metrics(joints, tables, example.gold)
    for method in joints:
        truth = held(method, example.name)
        right = reference.metrics(
            truth, example.A, example.B, example.gold, own_unary=method == "mlm"
        )
        close = tolerance(example.logits_A, example.logits_B, np.log(truth))
        for name, value in found[method].to_dict().items():
            assert value == pytest.approx(right[name], abs=close), (method, name)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_ag_paper_takes_exactly_the_steps_asked_for(steps: int) -> None:
    example = examples.heavy_tailed(30, 20, seed=3)
    joint = build("ag-paper", example, steps=steps)
    truth = np.log(reference.ag(example.A, example.B, steps))
    np.testing.assert_allclose(log_table(joint), truth, rtol=0, atol=1e-6)
    off = np.log(reference.ag(example.A, example.B, steps + 1))
    assert np.abs(log_table(joint) - off).max() > 1e-3


@pytest.mark.slow
def test_ag_paper_without_room_for_a_copy_of_the_tables_is_the_same() -> None:
    example = examples.near_deterministic(60, 50, seed=5)
    roomy = unmask.construct("ag-paper", example.tables())
    tight = unmask.construct("ag-paper", example.tables(memory_limit=0))
    np.testing.assert_allclose(log_table(roomy), log_table(tight), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("towards", "strength"),
    [
        *[("masked", strength) for strength in (0.1, 0.5, 20.0)],
        ("uniform", 0.5),
        *[pytest.param("uniform", strength, marks=pytest.mark.long) for strength in (0.1, 20.0)],
    ],
)
@pytest.mark.parametrize("example", EXAMPLES[1::2], ids=lambda e: e.name)
def test_pseudo_counts_regularise_ag(example: Example, strength: float, towards: str) -> None:
    m_a, m_b = example.m_a, example.m_b
    p_a, p_b = (m_a, m_b) if towards == "masked" else (uniform(m_a), uniform(m_b))
    joint = build("ag", example, pseudo_counts=strength, towards=towards)
    # the further counts tie together what near-deterministic tables all but exclude
    assert joint.diagnostics["converged"] is True
    right = reference.regularised_ag(example.A, example.B, m_a, m_b, strength, p_a, p_b)
    close = tolerance(example.logits_A, example.logits_B, np.log(example.A), np.log(example.B))
    np.testing.assert_allclose(log_table(joint), np.log(right), rtol=0, atol=close)


@pytest.mark.slow
def test_ag_is_pulled_towards_the_doubly_masked_marginals_unless_told() -> None:
    example = examples.heavy_tailed(20, 20, seed=1)
    pulled, towards, uniformly = (
        log_table(build("ag", example, pseudo_counts=2.0, **option))
        for option in ({}, {"towards": "masked"}, {"towards": "uniform"})
    )
    np.testing.assert_array_equal(pulled, towards)
    assert np.abs(pulled - uniformly).max() > 0.1


def uniform(m: examples.Array) -> examples.Array:
    return np.full_like(m, 1 / len(m))


@pytest.mark.parametrize("example", EXAMPLES[::2], ids=lambda e: e.name)
def test_geometric_mean_of_the_orders(example: Example) -> None:
    joint = build("orders", example, mean="geometric")
    right = reference.orders(example.A, example.B, example.m_a, example.m_b, "geometric")
    close = tolerance(example.logits_A, example.logits_B, np.log(example.A), np.log(example.B))
    np.testing.assert_allclose(log_table(joint), np.log(right), rtol=0, atol=close)


@pytest.mark.parametrize(("contexts", "floor"), [(1, 0.02), (3, 0.5), (30, 1e-6), (1000, 0.02)])
@pytest.mark.parametrize("shape", [(2, 5), (40, 40), (150, 90)])
def test_sweep_of_any_width(shape: tuple[int, int], contexts: int, floor: float) -> None:
    example = examples.heavy_tailed(*shape, seed=2)
    joint = build("sweep", example, contexts=contexts, floor=floor)
    right = reference.sweep(example.A, example.B, example.m_a, example.m_b, contexts, floor)
    np.testing.assert_allclose(log_table(joint), np.log(right), rtol=0, atol=1e-5)


def test_sweep_takes_the_first_of_equally_likely_contexts() -> None:
    example = examples.heavy_tailed(40, 30, seed=2)
    m_a, m_b = (np.repeat([3.0, 2.0], size // 2) for size in (40, 30))
    even = Example("even", example.logits_A, example.logits_B, m_a / m_a.sum(), m_b / m_b.sum())
    for contexts in (7, 25):
        right = reference.sweep(even.A, even.B, even.m_a, even.m_b, contexts, 0.02)
        found = log_table(build("sweep", even, contexts=contexts))
        np.testing.assert_allclose(found, np.log(right), rtol=0, atol=1e-5)


@pytest.mark.parametrize("pivot", [0, 3, 19])
def test_hcb_with_a_pivot_on_either_axis(pivot: int) -> None:
    example = examples.random(20, 24, seed=1)
    tables = example.tables()
    on_a = unmask.construct("hcb", tables, pivot=pivot)
    np.testing.assert_allclose(
        log_table(on_a), np.log(reference.hcb(example.A, example.B, (pivot, 7))), atol=1e-9
    )
    on_b = unmask.construct("hcb", tables, pivot=pivot, pivot_axis=1)
    swapped = reference.hcb(example.B.T, example.A.T, (pivot, 2)).T
    np.testing.assert_allclose(log_table(on_b), np.log(swapped), atol=1e-9)
    assert on_b.diagnostics["pivot"] == str(pivot)


def test_appendix_b_of_the_paper() -> None:
    """Compatible conditionals whose MRF is 1.27 nats from the truth given b."""
    joint = np.array([[97.0, 1.0], [1.0, 1.0]]) / 100
    tables = unmask.PairTables.from_logits(*(_logits(np.log(joint)) for _ in range(2)))
    derived = unmask.construct("mrf", tables).conditional(0, given={1: 1})
    true = joint[:, 1] / joint[:, 1].sum()
    found = np.exp([derived.log_prob(a) for a in (0, 1)])
    assert float((true * np.log(true / found)).sum()) == pytest.approx(1.27, abs=5e-3)


def test_aliases_and_case() -> None:
    assert all(method_name(alias) == name for alias, name in ALIASES.items())
    assert method_name("Arnold_Gokhale") == "ag"


def test_unknown_method_names_the_nearest() -> None:
    with pytest.raises(unmask.MethodError, match=r"'mrff'.*did you mean 'mrf'.*mlm, mrf"):
        unmask.construct("mrff", examples.random(2, 2, 0).tables())


def test_options_are_checked_before_any_work() -> None:
    tables = examples.random(4, 4, 0).tables()
    with pytest.raises(unmask.MethodError, match="mrf has no option 'pivot'; it takes none"):
        unmask.construct("mrf", tables, pivot=1)
    with pytest.raises(unmask.MethodError, match="ag has no option 'steps'"):
        unmask.construct("ag", tables, steps=50)


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        ("hcb", "pivot_axis", 2),
        *[("ag-paper", "steps", value) for value in (0, -1, 1.5, None, True, "many")],
        *[("ag", "pseudo_counts", value) for value in (-0.5, NAN, INF, None, True, "some")],
        *[("ag", "towards", value) for value in ("truth", None, 1)],
        *[("orders", "mean", value) for value in ("harmonic", None, 2)],
        *[("sweep", "contexts", value) for value in (0, -3, 2.5, None, True)],
        *[("sweep", "floor", value) for value in (0, 1, 0.0, 1.0, -0.1, 1.5, NAN, None, True)],
    ],
)
def test_values_that_an_option_cannot_have_are_named(
    method: str, option: str, value: object
) -> None:
    with pytest.raises(unmask.MethodError, match=rf"{option}.*not {re.escape(repr(value))}"):
        build(method, examples.random(4, 4, 0), **{option: value})


def test_ag_paper_says_what_it_did() -> None:
    joint = build("ag-paper", examples.heavy_tailed(40, 40, 0))
    assert joint.method == joint.diagnostics["method"] == "ag-paper"
    assert joint.diagnostics["steps"] == 50
    change = joint.diagnostics["last_change"]
    assert isinstance(change, float)
    assert 0 < change < 1
    assert "converged" not in joint.diagnostics


@pytest.mark.parametrize("method", SEARCHED)
def test_a_search_says_what_it_did(method: str) -> None:
    joint = build(method, examples.heavy_tailed(40, 40, 0))
    said = joint.diagnostics
    assert joint.method == said["method"] == method
    assert said["converged"] is True
    history, passes = said["history"], said["passes"]
    assert isinstance(history, list)
    assert isinstance(passes, int)
    assert 0 < len(history) <= passes
    assert said["residual"] == history[-1] < history[0]
    assert ("start" in said) == (method in ("ag", "weighted-ag"))


def _logits(values: examples.Array) -> unmask.DenseLogits:
    import torch

    return unmask.DenseLogits(torch.tensor(values, dtype=torch.float32))
