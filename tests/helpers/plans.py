"""A plan of an evaluation."""

from dataclasses import replace

from unmask.evaluation.plan import (
    Batch,
    Construction,
    CorpusIdentity,
    ExampleSelection,
    Plan,
)
from unmask.jobs.model_identity import ModelIdentity


def a_plan(**changes: object) -> Plan:
    plan = Plan(
        model=ModelIdentity(
            name="m",
            revision=None,
            weights="a" * 64,
            vocabulary="b" * 64,
            dtype="float32",
            compiled=False,
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
        constructions=(Construction("mlm", {}), Construction("ag-paper", {"steps": 20})),
        memory_limit=4 * 10**9,
        half_tables=False,
        batch=Batch(tokens=2048),
        software="unmask 0",
    )
    return replace(plan, **changes)
