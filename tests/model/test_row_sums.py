"""Sums of exponentials over a vocabulary: as exact as their terms."""

import pytest
import torch

from unmask.model.row_reader import _row_sums


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 8192, 28_996])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_sums_are_those_of_float64(columns: int, scale: float) -> None:
    draw = torch.Generator().manual_seed(columns)
    logits = torch.randn(64, columns, generator=draw) * scale
    terms = (logits - logits.amax(dim=1, keepdim=True)).exp()
    found, exact = _row_sums(terms), terms.double().sum(dim=1)
    assert found.dtype == torch.float64
    assert ((found - exact) / exact).abs().max() < 3e-7


def test_terms_of_half_precision_are_not_added_in_it() -> None:
    terms = torch.ones(2, 4099, dtype=torch.bfloat16)
    assert _row_sums(terms).tolist() == [4099.0, 4099.0]
