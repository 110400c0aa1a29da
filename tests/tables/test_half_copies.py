"""Copies of the tables that iterations read: how precise they are, and where there is room."""

import examples
import numpy as np
import pytest
import torch
from examples import log_table

import unmask
from unmask.constructions import CONSTRUCTIONS
from unmask.tables.probabilities import probabilities

EXAMPLE = examples.heavy_tailed(70, 45, 3)
CELLS = 70 * 45
# half a unit in the last of bfloat16's eight bits, and of float32's twenty-four
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-42}


def kept(dtype: torch.dtype) -> unmask.PairTables:
    """Tables whose copies have this precision: the memory limit and the settings decide."""
    limit = {torch.float64: 24, torch.float32: 16, torch.bfloat16: 12}[dtype] * CELLS
    settings = unmask.Settings(memory_limit=limit, half_tables=dtype == torch.bfloat16)
    tables = EXAMPLE.tables()
    tables.settings = settings
    return tables


@pytest.mark.parametrize("dtype", ROUNDING)
def test_every_cell_is_rounded_relatively(dtype: torch.dtype) -> None:
    tables = kept(dtype)
    tables.both()
    rounded = probabilities(tables)
    assert rounded.copies[0].dtype == dtype
    assert rounded.nbytes == 2 * dtype.itemsize * CELLS
    for tile, right in zip(rounded.tile(slice(0, 70)), (EXAMPLE.A, EXAMPLE.B), strict=True):
        # the rounding of a cell, and that of the sum which its context is divided by
        assert np.abs(tile.numpy() / right - 1).max() <= 2 * ROUNDING[dtype]


@pytest.mark.parametrize("dtype", ROUNDING)
def test_contexts_of_a_rounded_copy_sum_to_one(dtype: torch.dtype) -> None:
    tables = kept(dtype)
    tables.both()
    source = probabilities(tables)
    for outcome, tile in enumerate(source.tile(slice(0, 70))):
        np.testing.assert_allclose(tile.sum(dim=outcome).numpy(), 1.0, rtol=1e-14)
    r_a, r_b = (torch.tensor(m) for m in (EXAMPLE.m_a, EXAMPLE.m_b))
    tile_a, tile_b = source.tile(slice(0, 70))
    torch.testing.assert_close(source.given(0, r_b), tile_a @ r_b, rtol=1e-13, atol=0)
    torch.testing.assert_close(source.given(1, r_a), r_a @ tile_b, rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("method", list(CONSTRUCTIONS))
def test_joints_move_by_a_few_roundings(method: str, dtype: torch.dtype) -> None:
    right = log_table(unmask.construct(method, EXAMPLE.tables()))
    joint = log_table(unmask.construct(method, kept(dtype)))
    # a fixed number of steps from uniform has not settled, and carries roundings along
    assert np.abs(joint - right).max() < (12 if method == "ag" else 4) * ROUNDING[dtype]


def test_what_does_not_fit_is_computed_anew_in_every_sweep() -> None:
    # logits are dense here: 8 bytes per cell
    for limit, half, dtype in [
        (24, False, torch.float64),
        (23, False, torch.float32),
        (16, False, torch.float32),
        (15, False, None),
        (12, True, torch.bfloat16),
        (11, True, None),
    ]:
        settings = unmask.Settings(memory_limit=limit * CELLS, half_tables=half)
        tables = EXAMPLE.tables()
        tables.settings = settings
        tables.both()
        copies = probabilities(tables).copies
        assert (None if copies is None else copies[0].dtype) == dtype, (limit, half)
