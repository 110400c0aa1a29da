"""A plan is a value: one text, one hash, and every difference named."""

import json
from dataclasses import replace

import pytest
from plans import a_plan

from unmask import MethodError, StoreError
from unmask.evaluation.plan import (
    Batch,
    Construction,
    Plan,
    check_same,
)
from unmask.evaluation.request import constructions
from unmask.jobs.canonical import canonical


def test_the_text_of_a_plan_and_its_hash_do_not_change() -> None:
    """Runs that were begun by an earlier version must be found again."""
    text = canonical(a_plan().to_dict())
    assert text.startswith('{"batch":{"rows":null,"tokens":2048},"constructions":[{"method":"mlm"')
    assert a_plan().digest == "8ec76634d8055e9a4c045575a3646f6aafa45044be1e85afb002dd11e0fc6217"


@pytest.mark.parametrize(
    "changes", [{}, {"support": ("a", "ö", "\x1b")}, {"batch": None}, {"batch": Batch(rows=3)}]
)
def test_a_plan_is_read_back_as_it_was(changes: dict[str, object]) -> None:
    plan = a_plan(**changes)
    read = Plan.from_dict(json.loads(canonical(plan.to_dict())))
    assert read == plan
    assert read.digest == plan.digest


def test_labels_carry_the_options() -> None:
    assert [one.label for one in a_plan().constructions] == ["mlm", "ag-paper(steps=20)"]


def test_an_option_as_it_is_anyway_makes_no_other_construction() -> None:
    found = constructions(["ag-paper", "sweep"], {"ag-paper": {"steps": 50}, "sweep": {"floor": 0}})
    assert [one.label for one in found] == ["ag-paper", "sweep(floor=0)"]


def test_a_label_is_that_of_the_plan_as_it_is_read_back() -> None:
    (found,) = constructions(["hcb"], {"hcb": {"path": (0, 1)}})
    plan = a_plan(constructions=(found,))
    (read,) = Plan.from_dict(json.loads(canonical(plan.to_dict()))).constructions
    assert found.label == read.label == "hcb(path=[0, 1])"


def test_an_option_that_no_plan_holds_is_refused() -> None:
    with pytest.raises(MethodError, match="option 'path' of 'hcb' goes into the plan of the run"):
        constructions(["hcb"], {"hcb": {"path": object()}})


def test_a_batch_is_rows_or_tokens() -> None:
    assert Batch(rows=7).rows_for(100) == 7
    assert Batch(tokens=2048).rows_for(100) == 20
    assert Batch(tokens=10).rows_for(100) == 1


CHANGES = {
    "seed": (a_plan(draw=replace(a_plan().draw, seed=1)), "draw.seed is '0' there, '1' here"),
    "weights": (
        a_plan(model=replace(a_plan().model, weights="f" * 64)),
        "model.weights is aaaaaaaaaaaa there, ffffffffffff here",
    ),
    "support": (a_plan(support=("a",)), "support is 'vocabulary' there, '[\"a\"]' here"),
    "steps": (a_plan(constructions=(Construction("mlm", {}),)), "constructions is "),
    "batch": (a_plan(batch=Batch(rows=2)), "batch.rows is 'null' there, '2' here"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_plan_is_refused_with_what_changed(name: str) -> None:
    other, said = CHANGES[name]
    with pytest.raises(StoreError, match="another plan") as refused:
        check_same(a_plan(), other)
    assert said in str(refused.value)
    assert other.digest != a_plan().digest


def test_many_changes_are_cut_short() -> None:
    other = replace(
        a_plan(support=("x",), memory_limit=1, half_tables=True, constructions=()),
        model=replace(a_plan().model, name="n", dtype="bfloat16"),
    )
    with pytest.raises(StoreError, match=r"; and 1 more\. Give another --output"):
        check_same(a_plan(), other)


def test_a_draft_takes_the_batch_size_that_was_found() -> None:
    draft = a_plan(batch=None)
    check_same(a_plan(), draft)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "format"),
        ({"format": 2}, "has format '2'|has format 2"),
        ({"format": 1}, "damaged"),
        ({**a_plan().to_dict(), "more": 1}, "damaged"),
        ({**a_plan().to_dict(), "draw": {"masks": 1}}, "damaged"),
        ({**a_plan().to_dict(), "model": None}, "damaged"),
    ],
)
def test_what_is_no_plan_is_refused(values: object, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        Plan.from_dict(values)
