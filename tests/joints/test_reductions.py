"""Sums over joints by tiles are those of whole tables, for every construction."""

import examples
import numpy as np
import pytest
import reference
from examples import Example, log_table

import unmask
from unmask import logspace
from unmask.constructions import CONSTRUCTIONS
from unmask.joints.joint import Joint

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
    "ag, to a tolerance": ("ag", {"tolerance": 1e-3}),
}


def joints(tables: unmask.PairTables) -> dict[str, Joint]:
    return {n: unmask.construct(m, tables, **options) for n, (m, options) in OPTIONS.items()}


@pytest.mark.parametrize("cells", [1, 1000])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_marginals_and_entropies(
    example: Example, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logspace, "TILE_CELLS", cells)
    for name, joint in joints(example.tables()).items():
        table = log_table(joint)
        assert joint.entropy() == pytest.approx(-(np.exp(table) * table).sum(), abs=1e-9), name
        for axis in (0, 1):
            right = np.logaddexp.reduce(table, axis=1 - axis)
            np.testing.assert_allclose(log_table(joint.marginal(axis)), right, atol=1e-9)


def test_a_joint_of_no_known_form_is_measured_beside_the_others() -> None:
    example = EXAMPLES[0]
    tables = example.tables()
    known = unmask.construct("mrf", tables)
    unknown = Joint(known.scores, tables.supports, method="other")
    measured = unmask.pair_metrics({"known": known, "unknown": unknown}, tables, (0, 0))
    assert measured["known"].to_dict() == measured["unknown"].to_dict()
    joint = np.exp(log_table(known))
    right = reference.metrics(joint, example.A, example.B, (0, 0))
    assert measured["known"].to_dict() == pytest.approx(right, abs=1e-6)
