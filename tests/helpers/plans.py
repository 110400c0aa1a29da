"""A plan of an evaluation, and a run of it."""

from collections.abc import Sequence
from typing import Any

from unmask.evaluation.kind import Evaluate
from unmask.evaluation.rows import LabelledMethod, ResultRow
from unmask.evaluation.run import EvaluationRun
from unmask.jobs.plan import JobPlan, ModelIdentity

MODEL = ModelIdentity(
    name="m", revision=None, weights="a" * 64, vocabulary="b" * 64, dtype="float32"
)
DIGEST = "c" * 64
DRAW = {
    "masks": ["random"],
    "limit": 5,
    "seed": 0,
    "count": 5,
    "digest": "d" * 64,
    "refused": {"random": {"too short": 2}},
}


def a_kind(**changes: Any) -> Evaluate:
    values: dict[str, Any] = {
        "corpus": "c",
        "model_name": "m",
        "draw": DRAW,
        "support": "vocabulary",
        "constructions": (LabelledMethod("mlm", {}), LabelledMethod("ag", {"steps": 20})),
    }
    return Evaluate(**{**values, **changes})


def a_plan(
    kind: Evaluate | None = None,
    *,
    model: ModelIdentity = MODEL,
    corpus: str = "c",
    digest: str = DIGEST,
    **changes: Any,
) -> JobPlan:
    values: dict[str, Any] = {
        "kind": "evaluate",
        "options": (kind or a_kind()).options(),
        "model": model,
        "input": [[corpus, 10, digest]],
        "rows_per_unit": 1,
        "units": 5,
        "software": "unmask 0",
    }
    return JobPlan(**{**values, **changes})


def a_run(plan: JobPlan, rows: Sequence[ResultRow]) -> EvaluationRun:
    return EvaluationRun(plan, tuple(rows), seconds=len(rows) / 2)
