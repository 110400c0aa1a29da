"""The price of each construction, counted at the model."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import toy_lm
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.queries.cost import forward_passes

V = 13
toy = partial(toy_lm.toy, V, 3)
PRICE = {
    "mlm": 1,
    "mrf": 2 * V,
    "mrf-logit": 2 * V,
    "hcb": V + 2,
    "ag": 2 * V,
    # one row more: where the law starts
    "log-pool": 2 * V + 1,
}


def rows_asked(lm: unmask.LanguageModel) -> int:
    return lm.model.rows_asked


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize(("method", "price"), PRICE.items())
def test_each_construction_asks_for_its_price_and_no_more(
    method: str, price: int, factored: bool
) -> None:
    lm = toy(factored=factored)
    joint = lm.joint("t1 [MASK] [MASK]", method=method)
    joint.top(3)
    joint.mutual_information()
    assert rows_asked(lm) == price == forward_passes({method: {}}, (V, V))
    assert joint.diagnostics["forward_passes"] == price


def test_orders_ask_for_a_few_contexts() -> None:
    lm = toy()
    joint = lm.joint("t1 [MASK] [MASK]", method="orders")
    assert rows_asked(lm) == 1
    joint.log_prob("t3", "t4")
    assert rows_asked(lm) == 3 == joint.diagnostics["forward_passes"]
    assert forward_passes({"orders": {}}, (V, V)) == 3
    # neither do summaries, which leave out what would need the tables
    assert joint.to_dict(1)["entropy"] is None
    assert joint.incompatibility() is None


def test_orders_say_what_sums_would_take() -> None:
    lm = toy()
    cost = lm.cost("t1 [MASK] [MASK]", methods=["orders"])
    before = rows_asked(lm)
    lm.joint("t1 [MASK] [MASK]", method="orders").entropy()
    assert rows_asked(lm) - before == cost.passes_to_rank
    assert cost.for_a_pair


def test_the_geometric_mean_of_orders_needs_both_tables() -> None:
    lm = toy()
    lm.joint("t1 [MASK] [MASK]", method="orders", mean="geometric").log_prob("t3", "t4")
    options = {"orders": {"mean": "geometric"}}
    assert rows_asked(lm) == 2 * V + 1 == forward_passes(options, (V, V))


def test_cheap_constructions_cost_nothing_where_the_tables_are_there() -> None:
    lm = toy()
    joints = lm.joints("t1 [MASK] [MASK]", methods=["orders", "log-pool"])
    joints["orders"].top(3)
    joints["log-pool"].log_prob("t3", "t4")
    assert rows_asked(lm) == 2 * V + 1 == forward_passes({name: {} for name in joints}, (V, V))


def test_several_constructions_share_one_elicitation() -> None:
    lm = toy()
    joints = lm.joints("[MASK] t4 [MASK]", methods=["hcb", "mlm", "log-pool", "mrf"])
    assert list(joints) == ["hcb", "mlm", "log-pool", "mrf"]
    assert rows_asked(lm) == 2 * V + 1 == forward_passes({name: {} for name in joints}, (V, V))


def test_metrics_of_all_constructions_cost_no_further_row() -> None:
    lm = toy()
    tables = lm.tables("t1 [MASK] [MASK]")
    joints = {m: unmask.construct(m, tables) for m in unmask.CONSTRUCTIONS}
    before = rows_asked(lm)
    unmask.pair_metrics(joints, tables, ("t1", "t2"))
    assert rows_asked(lm) == before


def test_candidates_cost_one_row_more_for_the_mass_they_capture() -> None:
    lm = toy()
    joint = lm.joint("[MASK] [MASK] t0", method="ag", support=["t0", "t1", "t5"])
    assert rows_asked(lm) == 2 * 3 + 1 == forward_passes({"ag": {}}, (3, 3), whole_vocabulary=False)
    captured = joint.diagnostics["captured_mass"]
    assert all(0 < mass < 1 for mass in captured)


def test_options_change_the_price_as_announced() -> None:
    cases: list[tuple[list[str], dict[str, dict[str, object]], int]] = [
        (["hcb", "mrf"], {}, 2 * V + 1),
        (["ag"], {"ag": {"steps": 3}}, 2 * V),
        (["ag"], {"ag": {"tolerance": 0.1}}, 2 * V),
        (["hcb"], {"hcb": {"pivot": "t2"}}, V + 1),
        (["hcb"], {"hcb": {"pivot_axis": 1}}, V + 2),
    ]
    for methods, options, price in cases:
        lm = toy()
        lm.joints("t1 [MASK] [MASK]", methods=methods, options=options)
        assert rows_asked(lm) == price, methods
        assert forward_passes({name: options.get(name, {}) for name in methods}, (V, V)) == price
        assert lm.cost("t1 [MASK] [MASK]", methods=methods, options=options).forward_passes == price


@pytest.mark.parametrize(
    "options",
    [
        {"hcb": {"pivot_axis": 2}},
        {"ag": {"steps": 0}},
        {"ag": {"steps": 1.5}},
        {"ag": {"stps": 3}},
        {"ag": {"tolerance": -1}},
        {"ag": {"tolerance": 0.1, "steps": 3}},
        {"orders": {"mean": "harmonic"}},
    ],
)
def test_bad_options_are_refused_before_anything_is_paid(
    options: dict[str, dict[str, object]],
) -> None:
    lm = toy()
    for text in ("t1 [MASK] [MASK]", "t1 t2 [MASK]"):
        with pytest.raises(unmask.errors.MethodError):
            lm.joints(text, options=options)
    assert rows_asked(lm) == 0


def test_options_of_a_method_that_is_not_asked_for_are_refused() -> None:
    with pytest.raises(unmask.errors.MethodError, match="given for ag, which is not among"):
        toy().joints("t1 [MASK] [MASK]", methods=["mlm"], options={"ag": {"steps": 3}})


def test_a_cloze_of_another_model_is_refused() -> None:
    lm = toy()
    other = unmask.LanguageModel(ToyMaskedLM(toy_joint(5, 3)), ToyTokenizer(5))
    with pytest.raises(unmask.errors.ClozeError, match="another mask token"):
        lm.joint(other.cloze("t1 [MASK] [MASK]"))


def test_numpy_integers_are_integers() -> None:
    lm = toy()
    joint = lm.joint("t1 [MASK] [MASK]", support=[np.int64(1), 4, 7], method="mlm")
    assert joint.shape == (3, 3)
    assert joint.log_prob(np.int64(4), 7) == joint.log_prob("t4", "t7")
    assert lm.support(np.array([1, 4, 7])).names == ["t1", "t4", "t7"]
    with pytest.raises(unmask.errors.SupportError, match="blank True"):
        lm.joint("t1 [MASK] [MASK]", support={True: ["t1"]})


def test_cost_is_said_in_one_line() -> None:
    cost = toy().cost("t1 [MASK] [MASK]", methods=["ag"])
    assert str(cost) == "26 forward passes of 3 tokens, 5.4 kB of tables"
    assert cost.to_dict()["forward_passes"] == 26
    cheap = toy().cost("t1 [MASK] [MASK]", methods=["orders"])
    assert str(cheap) == "3 forward passes of 3 tokens for a pair, up to 27 to rank or sum"
    long = unmask.Cost(1, 3, 10, seconds=130.0)
    assert str(long) == "1 forward pass of 3 tokens, about 2 min, 10 B of tables"
    most = unmask.Cost(1999, 3, 10, seconds=75.0, at_most=True)
    assert str(most) == "at most 1,999 forward passes of 3 tokens, up to about 75 s, 10 B of tables"


def test_a_long_run_announces_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unmask.queries import joints

    monkeypatch.setattr(joints, "_LONG_SECONDS", 0.0)
    quiet = unmask.Settings(batch_size=5, progress=False)
    toy().joint("t1 [MASK] [MASK]", method="ag", settings=quiet)
    assert capsys.readouterr().err == ""
    # not a terminal: the cost is said all the same, when the first batch has run
    toy().joint("t1 [MASK] [MASK]", method="ag", settings=unmask.Settings(batch_size=5))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "ag: 26 forward passes of 3 tokens, 5.4 kB of tables\n"


def test_an_unknown_pivot_is_refused_before_anything_is_paid() -> None:
    lm = toy()
    with pytest.raises(unmask.errors.SupportError, match="'nope' is not one of"):
        lm.joints("t1 [MASK] [MASK]", options={"hcb": {"pivot": "nope"}})
    assert rows_asked(lm) == 0


def test_a_construction_that_brings_a_table_comes_before_one_that_can_use_it() -> None:
    lm = toy()
    joints = lm.joints("t1 [MASK] [MASK]", methods=["orders", "hcb"])
    assert list(joints) == ["orders", "hcb"]
    joints["orders"].log_prob("t3", "t4")
    # one whole table, and of the other the pivot's row and the context of the pair
    assert rows_asked(lm) == 1 + V + 1 + 1


def test_the_cost_of_bad_options_is_refused_as_the_work_is() -> None:
    with pytest.raises(unmask.errors.MethodError, match="steps from 1, not 'x'"):
        toy().cost("t1 [MASK] [MASK]", methods=["ag"], options={"ag": {"steps": "x"}})
    in_capitals = toy().cost(
        "t1 [MASK] [MASK]", methods=["HCB"], options={"HCB": {"pivot_axis": 1, "pivot": "t1"}}
    )
    assert in_capitals.forward_passes == V + 1


def test_costs_are_those_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "results" / "which-joint.md"
    line = (
        r"^\| ([\w-]+)(?: \(the default\))? \| (?:(\d*)(V)(?: \+ )?)?(\d*)(?: per pair)? \| [*0+-]"
    )
    costs = {
        name: (int(times or 1) * 5000 if tables else 0) + int(more or 0)
        for name, times, tables, more in re.findall(
            line, page.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    # the page has measured seven; a newer construction may come without results
    assert len(costs) == 7
    assert costs.keys() <= unmask.CONSTRUCTIONS.keys()
    for name, passes in costs.items():
        assert passes == forward_passes({name: {}}, (5000, 5000))
