"""Passes over tiles, compiled as on an accelerator, give what plain torch gives."""

import examples
import numpy as np
import pytest
import torch

from unmask.constructions.paper_steps import step
from unmask.constructions.solvers import pair_graph, pair_passes
from unmask.tables.probabilities import probabilities

EXAMPLE = examples.random(40, 30, 1)


def everything() -> list[np.ndarray]:
    """Each kind of pass, from the same point."""
    tables = EXAMPLE.tables()
    point = np.random.default_rng(0).normal(-3, 2, 40 + 30)
    read = pair_graph.read_tables(tables, point)
    log_a, log_b = (torch.tensor(np.log(m)) for m in (EXAMPLE.m_a, EXAMPLE.m_b))
    stepped = step(probabilities(tables), log_a, log_b)
    balance = pair_graph.PairFlows(tables).balance(np.exp(point))
    return [read.gradient, read.degree, *read.edges, balance, *(s.numpy() for s in stepped)]


@pytest.mark.long
def test_compiled_tiles_are_those_of_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = everything()
    monkeypatch.setattr(pair_passes, "is_gpu", lambda _: True)
    pair_passes._compiled.cache_clear()
    for found, right in zip(everything(), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-13)


def test_a_compiler_that_fails_costs_a_warning_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = everything()

    def failing(function: object, **_: object) -> object:
        def fail(*_: object) -> None:
            raise RuntimeError("no compiler here\nand many lines more")

        return fail

    monkeypatch.setattr(torch, "compile", failing)
    monkeypatch.setattr(pair_passes, "is_gpu", lambda _: True)
    pair_passes._compiled.cache_clear()
    with pytest.warns(UserWarning, match="not compiled on this device: no compiler here$"):
        found = everything()
    pair_passes._compiled.cache_clear()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
