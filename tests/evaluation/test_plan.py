"""The plan of an evaluation, and its folder as readers see it: read back, refused, copied."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from evaluation_rows import a_row
from plans import DRAW, MODEL, a_kind, a_plan, a_run

from unmask.errors import MethodError, StoreError
from unmask.evaluation.request import EvaluationRequest
from unmask.evaluation.rows import LabelledMethod
from unmask.evaluation.run import copy_run, read_run
from unmask.jobs.model_source import ModelSource
from unmask.jobs.plan import JobPlan
from unmask.names import METHODS
from unmask.records.corpora import CorpusSpec
from unmask.settings import Sketch


def labelled(**options: dict[str, object]) -> tuple[LabelledMethod, ...]:
    """The constructions of a request for some methods with options."""
    names = [name.replace("_", "-") for name in options]
    request = EvaluationRequest(
        corpus=CorpusSpec("x.txt"),
        model=ModelSource(place="x"),
        methods=names,
        options=dict(zip(names, options.values(), strict=True)),
    )
    return request.constructions(list(METHODS))


@pytest.mark.parametrize(
    "changes",
    [{}, {"support": ("a", "ö", "\x1b")}, {"sketch": Sketch(seed=3)}, {"support_size": 9}],
)
def test_a_plan_is_read_back_as_it_was(changes: dict[str, object]) -> None:
    plan = a_plan(a_kind(**changes))
    stored = JobPlan.of_json(plan.to_json(), "there")
    assert stored.to_json() == plan.to_json()
    assert stored.digest == plan.digest
    assert (stored.digest == a_plan().digest) == (not changes)


def test_an_option_as_it_is_anyway_makes_no_other_construction() -> None:
    assert [one.label for one in labelled(ag={"steps": 50}, hcb={"pivot_axis": 1})] == [
        "ag",
        "hcb(pivot_axis=1)",
    ]


def test_an_option_that_no_plan_holds_is_refused() -> None:
    with pytest.raises(MethodError, match="option 'pivot' of 'hcb' goes into the plan of the run"):
        labelled(hcb={"pivot": torch.tensor(3)})


CHANGES = {
    "seed": (a_plan(a_kind(draw={**DRAW, "seed": 1})), "seed is '0' there, '1' here"),
    "weights": (
        a_plan(model=replace(MODEL, weights="f" * 64)),
        "model.weights is aaaaaaaaaaaa there, ffffffffffff here",
    ),
    "support": (a_plan(a_kind(support=("a",))), "support is 'vocabulary' there, '[\"a\"]' here"),
    "steps": (a_plan(a_kind(constructions=(LabelledMethod("mlm", {}),))), "method is "),
    "sketch": (a_plan(a_kind(sketch=Sketch())), "sketch is 'null' there"),
    "corpus": (a_plan(digest="e"), "'c' of the input has changed"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_plan_is_refused_with_what_changed(name: str) -> None:
    other, said = CHANGES[name]
    with pytest.raises(StoreError, match="holds the rows of another job") as refused:
        a_plan().check(other, "it")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {}},
        {"options": {**a_kind().options(), "draw": {"masks": 1}}},
        {"options": {**a_kind().options(), "constructions": [{"more": 1}]}},
        {"input": []},
        {"input": [["c", "many", "digest"]]},
    ],
)
def test_what_is_no_plan_of_an_evaluation_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    (tmp_path / "_plan.json").write_text(a_plan(**changes).to_json())
    with pytest.raises(StoreError, match="the plan is damaged"):
        read_run(tmp_path)


def test_the_folder_of_another_kind_is_no_evaluation(tmp_path: Path) -> None:
    (tmp_path / "_plan.json").write_text(replace(a_plan(), kind="score").to_json())
    with pytest.raises(StoreError, match="not the folder of an evaluation: unmask score made it"):
        read_run(tmp_path)


def test_a_copy_is_a_run_in_one_part(tmp_path: Path) -> None:
    rows = [
        a_row(0, spans=[[0, 3], [4, 8]], converged=True, passes=12, software="s", device="cpu"),
        a_row(1, pairwise_nll=0.1 + 0.2, corpus="ö\n,\"'"),
        a_row(2, reason="[bold]no\x1b", converged=None),
    ]
    run = a_run(a_plan(), rows)
    copy_run(run, tmp_path / "copy")
    assert len(list((tmp_path / "copy").glob("part-*"))) == 1
    copy = read_run(tmp_path / "copy")
    assert (copy.rows, copy.plan.options, copy.damaged, copy.missing) == (
        run.rows,
        run.plan.options,
        (),
        2,
    )
    assert copy.seconds == run.seconds == 1.5
    assert copy.plan.software == "unmask 0"
    (receipt,) = (tmp_path / "copy").glob("_part-*.json")
    counts = json.loads(receipt.read_text())["counts"]
    assert (counts["texts"], counts["without"]["evaluate"]["count"]) == (3, 1)
    with pytest.raises(StoreError, match="is not empty"):
        copy_run(run, tmp_path / "copy")


def test_a_copy_tells_no_details_of_errors(tmp_path: Path) -> None:
    rows = [a_row(0, reason="OSError: /home/me/secret on host 10.0.0.5")]
    copy_run(a_run(a_plan(), rows), tmp_path / "copy")
    assert {row.reason for row in read_run(tmp_path / "copy").rows} == {"OSError"}
