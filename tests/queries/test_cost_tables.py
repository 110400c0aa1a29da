"""How tables are kept within the memory limit, and what they and the model's weights take."""

import json

import pytest
from tiny_models import build, two_blanks
from toy_lm import toy

import unmask
from unmask.queries.cost import all_needs, table_bytes
from unmask.queries.sketched import cost_of_sketch
from unmask.settings import Settings, Sketch
from unmask.tables.storage import choose_storage


@pytest.mark.parametrize(
    ("limit", "dense", "copied", "cells"),
    [
        (24 * 10**4, True, True, 24),
        (24 * 10**4 - 1, True, True, 16),
        (16 * 10**4, True, True, 16),
        (16 * 10**4 - 1, False, True, 8),
        (8 * 10**4 - 1, False, False, 0),
    ],
)
def test_tables_are_kept_as_the_limit_allows(
    limit: int, dense: bool, copied: bool, cells: int
) -> None:
    parts = all_needs({"log-pool": {}}, (100, 100))
    kept = choose_storage((100, 100), width=50, settings=unmask.Settings(memory_limit=limit))
    assert (kept.dense, kept.copy_bytes > 0) == (dense, copied)
    assert table_bytes(parts, (100, 100), 50, kept) == cells * 10**4 + 2 * 4 * 50 * 100


def test_half_the_copy_is_half_the_room() -> None:
    kept = choose_storage(
        (100, 100), width=50, settings=unmask.Settings(memory_limit=4 * 10**4, half_tables=True)
    )
    assert (kept.dense, kept.copy_bytes) == (False, 4)
    assert kept.why.endswith("a bfloat16 copy for iterations, 40.0 kB, fits")
    assert choose_storage(
        (100, 100), width=50, settings=unmask.Settings(memory_limit=12 * 10**4, half_tables=True)
    ).dense


def test_what_is_computed_sooner_than_read_is_not_kept() -> None:
    kept = choose_storage((100, 100), width=2, settings=unmask.Settings(memory_limit=10**9))
    assert (kept.dense, kept.copy_bytes > 0) == (False, True)
    assert kept.why == "a cell is computed from 2 numbers sooner than it is read"


def test_a_model_without_readouts_is_dense() -> None:
    kept = choose_storage((100, 100), width=None, settings=unmask.Settings(memory_limit=8 * 10**4))
    assert (kept.dense, kept.copy_bytes) == (True, 0)


def test_a_sketch_keeps_its_rows_and_tables() -> None:
    # 12 tables for the law and J, 3 more for each construction
    cost = cost_of_sketch(Sketch(), (8192, 8192), Settings(), 9, 1)
    assert (cost.forward_passes, cost.at_most) == (1999, True)
    assert cost.table_bytes == 4 * 2 * 8192 * 999 + 8 * (12 + 3) * 999**2
    both = cost_of_sketch(Sketch(precision=None), (8192, 8192), Settings(), 9, 2)
    assert both.table_bytes - cost.table_bytes == 8 * 3 * 999**2
    assert not both.at_most


@pytest.mark.slow
def test_the_cost_of_a_real_model_is_whole() -> None:
    model, tokenizer = build("bert")
    lm = unmask.load((model, tokenizer))
    text = two_blanks(tokenizer)
    cost = lm.cost(text, methods=["log-pool", "orders"])
    assert cost.seconds is not None
    assert cost.seconds > 0
    assert (
        json.loads(json.dumps(cost.to_dict(), allow_nan=False))["table_bytes"] == cost.table_bytes
    )
    with pytest.raises(unmask.UnmaskError, match="examples is a number of texts from 1, not 0"):
        lm.cost(text, examples=0)
    # rows of one text, whatever the number of texts it is one of
    assert lm.cost(text, methods=["orders"], examples=10**6).forward_passes == 3


def test_one_blank_costs_a_row_and_no_table() -> None:
    cost = toy(13, 3).cost("t1 [MASK] t2")
    assert (cost.forward_passes, cost.table_bytes) == (1, 0)
