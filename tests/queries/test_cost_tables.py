"""What passes over the tables, the model's arithmetic and its weights are said to cost."""

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import ARCHITECTURES, build, two_blanks
from torch import nn
from toy_costs import V, toy

import unmask
from unmask.model.hugging_face import HuggingFaceMaskedLM
from unmask.queries.costs import estimate
from unmask.queries.costs.accelerators import ACCELERATORS, accelerator, seconds_on
from unmask.queries.costs.cost import Cost, predicted, readable_flop
from unmask.queries.costs.flops import row_flop, weight_bytes
from unmask.queries.costs.passes import (
    CONTEST_PASSES,
    STATIONARY_PASSES,
    all_needs,
    table_bytes,
    table_passes,
)
from unmask.queries.sketched import cost_of_sketch
from unmask.settings import Settings, Sketch
from unmask.tables.storage import choose_storage

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "runs")]

import cost_table  # noqa: E402

PAIR = "t1 [MASK] [MASK]"


# --- passes --------------------------------------------------------------------------------------


def plain(methods: Iterable[str]) -> dict[str, dict[str, object]]:
    """Constructions without options."""
    return {name: {} for name in methods}


def test_the_stationary_solve_is_counted_once_for_all_that_share_it() -> None:
    shape = (100, 100)
    for methods in (["log-pool"], ["pseudo-gibbs", "log-pool"], ["mrf"]):
        # J needs it too, with whatever joint it is shown
        assert table_passes(plain(methods), shape)["balance"] == STATIONARY_PASSES
    assert "balance" not in table_passes(plain(["hcb"]), shape)
    assert "balance" not in table_passes(plain(["mlm", "orders", "sweep"]), shape)


def test_each_fit_is_counted_by_itself() -> None:
    shape = (100, 100)
    assert table_passes(plain(["ag"]), shape)["contest"] == CONTEST_PASSES
    assert table_passes(plain(["ag", "weighted-ag"]), shape)["contest"] == 2 * CONTEST_PASSES
    assert table_passes(plain(["ag-paper"]), shape)["step"] == 49
    assert table_passes({"ag-paper": {"steps": 7}}, shape)["step"] == 6


def test_joints_of_single_contexts_are_summed_only_where_the_tables_are() -> None:
    alone, beside = (table_passes(plain(m), (100, 100)) for m in (["sweep"], ["sweep", "mrf"]))
    assert alone == {}
    assert (beside["sum"], beside["rank"]) == (2 + 2 + 1, 2)
    assert table_passes(plain(["ag"]), (100,)) == {}


def test_the_passes_of_solvers_are_those_that_were_measured() -> None:
    found = json.loads((ROOT / "docs" / "results" / "solver.json").read_text(encoding="utf-8"))
    contest = found["arnold_gokhale"]["forest_until_converged"]["median"]
    stationary = found["pseudo_gibbs"]["gmres_forest_until_converged"]["median"]
    assert contest / 1.5 < CONTEST_PASSES < 1.5 * contest
    assert stationary / 1.5 < STATIONARY_PASSES < 1.5 * stationary


@pytest.mark.parametrize(
    ("limit", "dense", "copied", "cells"),
    [
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
    assert (kept.dense, kept.copied) == (dense, copied)
    assert table_bytes(parts, (100, 100), 50, kept) == cells * 10**4 + 2 * 4 * 50 * 100


def test_half_the_copy_is_half_the_room() -> None:
    kept = choose_storage(
        (100, 100), width=50, settings=unmask.Settings(memory_limit=4 * 10**4, half_tables=True)
    )
    assert (kept.dense, kept.copied, kept.copy_bytes) == (False, True, 4)
    assert kept.why.endswith("the solvers' bfloat16 copy, 40.0 kB, fits")
    assert choose_storage(
        (100, 100), width=50, settings=unmask.Settings(memory_limit=12 * 10**4, half_tables=True)
    ).dense


def test_what_is_computed_sooner_than_read_is_not_kept() -> None:
    kept = choose_storage((100, 100), width=2, settings=unmask.Settings(memory_limit=10**9))
    assert (kept.dense, kept.copied) == (False, True)
    assert kept.why == "a cell is computed from 2 numbers sooner than it is read"


def test_a_model_without_readouts_is_dense() -> None:
    kept = choose_storage((100, 100), width=None, settings=unmask.Settings(memory_limit=8 * 10**4))
    assert (kept.dense, kept.copied) == (True, False)


@pytest.mark.parametrize("limit", [16 * V * V, 16 * V * V - 1])
def test_storage_is_what_the_tables_report(limit: int) -> None:
    lm, settings = toy(), unmask.Settings(memory_limit=limit)
    said = lm.cost(PAIR, settings=settings).storage
    done = lm.joint(PAIR, settings=settings).diagnostics["tables"]
    assert {"dense": "dense", "streamed": "factored"}[str(said)] == done


def test_every_pass_multiplies_anew_where_nothing_is_kept() -> None:
    def flop(limit: int) -> int:
        cost = predicted(
            {"mrf": {}},
            (100, 100),
            length=8,
            width=50,
            settings=unmask.Settings(memory_limit=limit),
        )
        return cost.table_flop

    one = 2 * 50 * 100 * 100
    # to write out; with a copy for solvers, to normalise, to copy and to rank; with nothing, all
    assert flop(10**9) == 2 * one
    assert flop(8 * 10**4) == 2 * one * (1 + 1 + 1)
    assert flop(0) == 2 * one * (1 + 4 + STATIONARY_PASSES)
    dense = predicted(
        {"mrf": {}}, (100, 100), length=8, width=None, settings=unmask.Settings(memory_limit=0)
    )
    assert (dense.table_flop, dense.storage) == (0, "dense")


def test_traffic_grows_with_the_cells_and_without_the_copy() -> None:
    def moved(size: int, limit: int) -> int:
        shape = (size, size)
        return predicted(
            {"ag": {}}, shape, length=8, width=5, settings=unmask.Settings(memory_limit=limit)
        ).table_traffic

    assert moved(200, 10**9) == 4 * moved(100, 10**9) > 0
    assert moved(100, 0) > moved(100, 10**9)


# --- arithmetic and weights ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 7, 20])
def test_flop_of_bert_are_those_of_the_closed_formula(length: int) -> None:
    model, tokenizer = build("bert")
    lm = unmask.load((model, tokenizer))
    d, layers, inner = 32, 2, 48
    formula = layers * (8 * d * d * length + 4 * d * inner * length + 4 * d * length**2)
    assert row_flop(lm.model, length) == formula + 2 * d * d * length
    # a batch may leave out of the last layer what nobody reads, but nothing of the others
    lm.model.readouts(torch.full((16, length), lm.model.mask_id), [0])
    in_batch = row_flop(lm.model, length, 16)
    assert in_batch is not None
    assert formula / 2 < in_batch <= formula + 2 * d * d * length


@pytest.mark.real
def test_flop_of_a_real_bert(tiny_english: unmask.LanguageModel) -> None:
    d, layers = 256, 4
    for length in (8, 64):
        formula = 24 * d**2 * layers * length + 4 * d * length**2 * layers + 2 * d**2 * length
        assert row_flop(tiny_english.model, length) == formula


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_flop_of_every_architecture_grow_faster_than_its_length(name: str) -> None:
    lm = unmask.load(build(name))
    short, middle, long = (row_flop(lm.model, length) or 0 for length in (8, 12, 16))
    # attention is quadratic: a counter that missed it would see a straight line
    assert 0 < middle - short < long - middle
    assert isinstance(lm.model, HuggingFaceMaskedLM)
    assert all(parameter.requires_grad for parameter in lm.model.model.parameters())


@pytest.mark.parametrize(
    ("name", "gated"), [("bert", False), ("roberta", False), ("modernbert", True), ("esm", False)]
)
def test_the_shapes_of_the_page_count_as_models_are_counted(name: str, gated: bool) -> None:
    model, tokenizer = build(name)
    lm = unmask.load((model, tokenizer))
    config = model.config
    shape = cost_table.Shape(
        lm.model.vocabulary_size,
        config.num_hidden_layers,
        config.hidden_size,
        config.intermediate_size,
        gated,
    )
    assert row_flop(lm.model, 11) == pytest.approx(shape.row_flop(11), rel=1e-3)


def test_weights_are_counted_once_each() -> None:
    model, tokenizer = build("bert")
    lm = unmask.load((model, tokenizer))
    # the output embedding is the input embedding
    each = {p.data_ptr(): 4 * p.numel() for p in model.parameters()}
    assert weight_bytes(lm.model) == pytest.approx(sum(each.values()), rel=0.05)


def test_a_model_that_is_no_module_has_no_flop_to_count() -> None:
    cost = toy().cost(PAIR)
    assert (cost.flop, cost.model_bytes) == (None, None)
    assert not isinstance(getattr(toy().model, "model", None), nn.Module)
    assert seconds_on(ACCELERATORS["A100"], cost, dtype="float32") is None


@pytest.mark.slow
def test_the_cost_of_a_real_model_is_whole() -> None:
    model, tokenizer = build("bert")
    lm = unmask.load((model, tokenizer))
    text = two_blanks(tokenizer)
    cost = lm.cost(text, methods=["log-pool", "sweep"])
    each = row_flop(lm.model, cost.length, 16)
    assert each is not None
    assert cost.flop == cost.forward_passes * each
    assert cost.seconds is not None
    assert cost.seconds > 0
    assert json.loads(json.dumps(cost.to_dict(), allow_nan=False))["storage"] == "dense"
    with pytest.raises(unmask.UnmaskError, match="examples is a number of texts from 1, not 0"):
        lm.cost(text, examples=0)
    # rows of one text, whatever the number of texts it is one of
    assert lm.cost(text, methods=["orders"], examples=10**6).forward_passes == 3


def test_the_time_counts_sweeps_over_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_product_speed", lambda _: 1e9)
    monkeypatch.setattr(estimate, "_moving_speed", lambda _: 1e10)
    monkeypatch.setattr(estimate, "_reading_speed", lambda: 1e8)
    cpu, seconds = torch.device("cpu"), estimate._table_seconds
    plain = Cost(1, 8, 0, table_passes=40, table_flop=3 * 10**9, table_traffic=5 * 10**10)
    assert seconds(cpu, plain) == pytest.approx(3 + 5)
    compiled = replace(plain, compiled_traffic=2 * 10**8)
    assert seconds(cpu, compiled) == pytest.approx(3 + 2)
    # compiled passes are of this machine's processor
    assert seconds(torch.device("meta"), compiled) == pytest.approx(3 + 5)
    assert seconds(cpu, replace(plain, table_flop=10**6, table_traffic=10**6)) == 0
    # a sketch sweeps over no table: what it does besides its forward passes counts all the same
    assert seconds(cpu, replace(plain, table_passes=0)) == pytest.approx(3 + 5)


def test_a_sketch_costs_more_than_its_forward_passes() -> None:
    def cost(methods: int, **how: Any) -> Cost:
        return cost_of_sketch(Sketch(**how), (8192, 8192), Settings(), 9, methods, 256)

    most = cost(1)
    assert most.table_flop == 2 * 256 * 999 * 2 * 8192
    # every size with its replicates: 100, 160, 256, 410, 656 and the last
    assert most.table_traffic == 2900 * 32 * (100**2 + 160**2 + 256**2 + 410**2 + 656**2 + 999**2)
    assert cost(2).table_traffic == 2 * most.table_traffic
    assert cost(1, precision=None).table_traffic == 2900 * 32 * 999**2
    long = replace(most, seconds=75.0)
    assert ", up to about 75 s, " in str(long)


@pytest.mark.slow
def test_the_speeds_of_this_machine_are_those_of_a_computer() -> None:
    cpu = torch.device("cpu")
    assert 1e8 < estimate._product_speed(cpu) < 1e14
    assert 1e8 < estimate._moving_speed(cpu) < 1e13
    assert 1e8 < estimate._reading_speed() < 1e13


def test_tables_that_are_streamed_take_longer() -> None:
    little, enough = (
        predicted(
            {"log-pool": {}},
            (28_996, 28_996),
            length=16,
            width=768,
            settings=unmask.Settings(memory_limit=limit),
        )
        for limit in (10**9, 2 * 10**10)
    )
    assert (little.storage, enough.storage) == ("streamed", "dense")
    assert little.table_flop > 20 * enough.table_flop
    assert little.compiled_traffic == 0
    # numba is one of the extras for development
    assert 0 < enough.compiled_traffic < enough.table_traffic


def test_one_blank_costs_a_row_and_no_table() -> None:
    cost = toy().cost("t1 [MASK] t2")
    assert (cost.forward_passes, cost.storage, cost.table_bytes) == (1, None, 0)
    assert cost.table_passes == 0


@pytest.mark.parametrize(
    ("count", "said"),
    [
        *((0, "0 FLOP"), (1500, "1.5 kFLOP"), (475e9, "475 GFLOP"), (7e20, "700 EFLOP")),
        *((99.7e6, "100 MFLOP"), (999_700, "1 MFLOP"), (2e21, "2000 EFLOP")),
    ],
)
def test_flop_as_a_person_writes_them(count: float, said: str) -> None:
    assert readable_flop(count) == said


# --- accelerators --------------------------------------------------------------------------------


def test_an_accelerator_takes_peak_times_utilisation() -> None:
    where = accelerator("a-100")
    cost = Cost(1, 8, 0, flop=312 * 10**12, table_flop=39 * 10**12 // 2, table_traffic=2039 * 10**9)
    seconds = seconds_on(where, cost, dtype="bfloat16", utilisation=1.0)
    assert seconds == pytest.approx(1 + 1 + 1)
    assert seconds_on(where, cost, dtype="float16") == pytest.approx(3 / 0.4)
    assert seconds_on(where, cost, dtype="float32", utilisation=1.0) == pytest.approx(18)
    assert accelerator("rtx 4090").name == "RTX4090"


def test_what_is_not_known_of_accelerators_is_refused() -> None:
    cost = Cost(1, 8, 0, flop=1)
    with pytest.raises(unmask.UnmaskError, match=r"no accelerator 'A1000' .* A100, H100, L4, T4"):
        accelerator("A1000")
    with pytest.raises(unmask.UnmaskError, match="T4 has no bfloat16"):
        seconds_on(accelerator("T4"), cost, dtype="bfloat16")
    for wrong in (0.0, 1.5, math.nan):
        with pytest.raises(unmask.UnmaskError, match="utilisation is a part of the peak"):
            seconds_on(accelerator("T4"), cost, dtype="float16", utilisation=wrong)


# --- the page ------------------------------------------------------------------------------------


def test_the_page_is_what_its_script_makes() -> None:
    page = cost_table.PAGE.read_text(encoding="utf-8")
    assert cost_table.with_tables(page) == page


def test_the_page_names_every_accelerator_and_model() -> None:
    page = cost_table.PAGE.read_text(encoding="utf-8")
    for name in (*ACCELERATORS, *cost_table.SHAPES):
        assert f"| {name} |" in page
