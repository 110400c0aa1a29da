"""A plan of an evaluation, and a run of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unmask.evaluation.rows import ResultRow
from unmask.evaluation.run import (
    KIND,
    CorpusIdentity,
    EvaluationPlan,
    EvaluationRun,
    ExampleSelection,
    LabelledMethod,
)
from unmask.jobs.model_identity import ModelIdentity
from unmask.jobs.plan import JobPlan


def a_plan(**changes: object) -> EvaluationPlan:
    plan = EvaluationPlan(
        model=ModelIdentity(
            name="m",
            revision=None,
            weights="a" * 64,
            vocabulary="b" * 64,
            dtype="float32",
        ),
        corpus=CorpusIdentity(name="c", digest="c" * 64, sentences=10),
        draw=ExampleSelection(
            masks=("random",),
            limit=5,
            seed=0,
            count=5,
            digest="d" * 64,
            refused={"random": {"too short": 2}},
        ),
        support="vocabulary",
        constructions=(LabelledMethod("mlm", {}), LabelledMethod("ag", {"steps": 20})),
    )
    return replace(plan, **changes)


def a_job(plan: EvaluationPlan) -> JobPlan:
    return JobPlan(
        kind=KIND,
        options=plan.options(),
        model=plan.model,
        input=plan.input,
        rows_per_unit=1,
        units=5,
        software="unmask 0",
    )


def a_run(folder: str, plan: EvaluationPlan, rows: Sequence[ResultRow]) -> EvaluationRun:
    return EvaluationRun(Path(folder), a_job(plan), plan, tuple(rows))
