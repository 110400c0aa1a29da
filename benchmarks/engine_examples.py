"""All constructions, all metrics and J of one example against the elicitation of its tables.

Constructions need the tables, so that the order cannot be turned round: every repeat elicits and
then works on what it elicited.
"""

import gc
from functools import partial
from typing import Any

from engine_elicitation import Elicitation
from engine_subjects import Subject
from interleaved import Comparison, seconds_of

import unmask


def worked(tables: unmask.PairTables, gold: tuple[int, int]) -> dict[str, Any]:
    """Seconds of every construction, of the metrics and of J, and the sweeps of the law."""
    seconds: dict[str, float] = {}
    joints: dict[str, unmask.Joint] = {}

    def build(name: str) -> None:
        joints[name] = unmask.construct(name, tables)

    for name in unmask.CONSTRUCTIONS:
        seconds[name] = seconds_of(partial(build, name))
    seconds["metrics"] = seconds_of(lambda: unmask.pair_metrics(joints, tables, gold))
    seconds["incompatibility"] = seconds_of(
        lambda: unmask.construct("log-pool", tables).incompatibility()
    )
    solvers = {
        name: {key: joint.diagnostics[key] for key in ("passes", "converged")}
        for name, joint in joints.items()
        if "passes" in joint.diagnostics
    }
    return {"seconds": seconds, "total": sum(seconds.values()), "solvers": solvers}


def elicit(tables: unmask.PairTables) -> object:
    """All that constructions ask a model for."""
    return tables.both(), tables.masked


def compare(subject: Subject, repeats: int) -> Comparison:
    """A real example in full: its own elicitation and its own tables, kept cell by cell."""
    size = subject.lm.model.vocabulary_size
    # room for both tables, with a copy for iterations
    settings = unmask.Settings(progress=False, announce=False, memory_limit=18 * size**2)
    work, elicited = [], []
    Elicitation(subject).readouts()
    for _ in range(repeats):
        gc.collect()
        tables = subject.lm.tables(subject.cloze, settings=settings)
        elicited.append(seconds_of(partial(elicit, tables)))
        work.append(worked(tables, (size // 2, size // 3)))
    last = work[-1]
    return Comparison(
        "dense-over-elicitation",
        subject.name,
        "all constructions, metrics and J (dense tables)",
        "elicitation",
        ([one["total"] for one in work], elicited),
        {**subject.size(), "rows": 2 * size + 1},
        more={
            "stages": {name: round(s, 3) for name, s in last["seconds"].items()},
            "solvers": last["solvers"],
        },
    )
