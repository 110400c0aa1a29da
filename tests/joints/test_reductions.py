"""Sums over joints by compiled passes are those of the plain ones, for every construction."""

import examples
import numpy as np
import pytest
import torch
from examples import Example

import unmask
from unmask.constructions import CONSTRUCTIONS
from unmask.joints.form_engine import FormEngine
from unmask.joints.form_sums import can_compile, compiled_for
from unmask.joints.forms import Product, Sum
from unmask.joints.joint import Joint
from unmask.tables import kernels

EXAMPLES = [
    examples.random(70, 45, 1),
    examples.random(3, 40, 2),
    examples.random(40, 1, 3),
    examples.heavy_tailed(60, 50, 4),
]
OPTIONS: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name in CONSTRUCTIONS},
    "hcb, other axis": ("hcb", {"pivot_axis": 1}),
    "orders, geometric": ("orders", {"mean": "geometric"}),
    "ag, pseudo-counts": ("ag", {"pseudo_counts": 0.1}),
}


def joints(tables: unmask.PairTables) -> dict[str, Joint]:
    return {n: unmask.construct(m, tables, **options) for n, (m, options) in OPTIONS.items()}


def plain_and_compiled(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> tuple[tuple[unmask.PairTables, dict[str, Joint]], tuple[unmask.PairTables, dict[str, Joint]]]:
    """The same joints, each over its own tables; the plain ones have summed all there is."""
    tables = example.tables()
    plain = joints(tables)
    assert not compiled_for(tables)
    for joint in plain.values():
        joint.entropy()
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    others = example.tables()
    compiled = joints(others)
    assert compiled_for(others)
    return (tables, plain), (others, compiled)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_marginals_and_entropies(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, plain), (_, compiled) = plain_and_compiled(example, monkeypatch)
    for name, joint in compiled.items():
        assert isinstance(joint.engine, FormEngine)
        assert can_compile(joint.engine.form, joint.engine.shape)
        assert joint.entropy() == pytest.approx(plain[name].entropy(), abs=1e-6), name
        for axis in (0, 1):
            found, right = (j.marginal(axis) for j in (joint, plain[name]))
            everything = slice(0, joint.shape[axis])
            torch.testing.assert_close(
                found.log_rows(everything), right.log_rows(everything), atol=2e-6, rtol=0
            )


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_metrics(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = example.tables()
    gold = (tables.supports[0].names[-1], tables.supports[1].names[0])
    right = unmask.pair_metrics(joints(tables), tables, gold)
    bits = unmask.incompatibility(tables)
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    others = example.tables()
    found = unmask.pair_metrics(joints(others), others, gold)
    for name, metrics in found.items():
        for key, value in metrics.to_dict().items():
            assert value == pytest.approx(right[name].to_dict()[key], abs=5e-6), (name, key)
    assert unmask.incompatibility(others) == pytest.approx(bits, abs=1e-7)


@pytest.mark.slow
def test_a_joint_of_no_known_form_is_measured_beside_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    tables = EXAMPLES[0].tables()
    known = unmask.construct("mrf", tables)
    unknown = Joint(known.scores, tables.supports, method="other")
    gold = (tables.supports[0].names[0], tables.supports[1].names[0])
    found = unmask.pair_metrics({"known": known, "unknown": unknown}, tables, gold)
    for key, value in found["known"].to_dict().items():
        assert value == pytest.approx(found["unknown"].to_dict()[key], abs=1e-5), key


def test_numbers_too_far_apart_are_left_to_logarithms() -> None:
    near, far = torch.zeros(3, dtype=torch.float64), torch.tensor([0.0, -1.0, -300.0]).double()
    nothing, far_a = (near[None], near[:, None]), far[:, None]
    impossible = torch.tensor([0.0, -torch.inf, 0.0]).double()[None]
    assert can_compile(Product((1.0, 1.0), nothing), (3, 3))
    assert can_compile(Product((1.0, 1.0)), (3, 3))
    assert not can_compile(Product((1.0, 1.0), (near[None], far_a)), (3, 3))
    assert not can_compile(Product((0.3, 1.0), nothing), (3, 3))
    assert not can_compile(Product((1.0, 1.0), (torch.zeros(3, 3).double(),)), (3, 3))
    assert not can_compile(Sum(nothing, (near[None], far_a)), (3, 3))
    assert not can_compile(Sum((impossible, near[:, None])), (3, 3))


@pytest.mark.slow
def test_the_compatible_have_no_incompatibility_compiled_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "FEWEST_CELLS", 1)
    tables = examples.compatible(50, 40, 7).tables()
    assert compiled_for(tables) or tables.both()
    assert unmask.incompatibility(tables) < 1e-9


@pytest.mark.slow
def test_functions_of_the_kernels() -> None:
    from unmask.tables.kernels.compiler import compiled
    from unmask.tables.kernels.functions import exp, log

    @compiled
    def apply(function, values, results):
        for i in range(len(values)):
            results[i] = function(values[i])

    rng = np.random.default_rng(0)
    values = np.concatenate([np.exp(rng.uniform(-600, 600, 10**5)), rng.uniform(0.5, 2, 10**5)])
    results = np.empty_like(values)
    apply(log, values, results)
    np.testing.assert_allclose(results, np.log(values), atol=1e-12, rtol=1e-13)
    powers = np.concatenate([rng.uniform(-690, 690, 10**5), rng.uniform(-1, 1, 10**5), [0.0]])
    results = np.empty_like(powers)
    apply(exp, powers, results)
    np.testing.assert_allclose(results, np.exp(powers), rtol=1e-12)
