"""All constructions, all metrics and J of one example against the elicitation of its tables.

Constructions need the tables, so that the order cannot be turned round: every repeat elicits and
then works on what it elicited.
"""

import gc
from functools import partial
from typing import Any

from engine_elicitation import Elicitation
from engine_subjects import Subject
from engine_tables import nearly_compatible, room_for_dense
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
    seconds["incompatibility"] = seconds_of(lambda: unmask.incompatibility(tables))
    solvers = {
        name: {key: joint.diagnostics[key] for key in ("passes", "converged")}
        for name, joint in joints.items()
        if "passes" in joint.diagnostics
    }
    return {"seconds": seconds, "total": sum(seconds.values()), "solvers": solvers}


def elicit(tables: unmask.PairTables) -> object:
    """All that constructions ask a model for."""
    return tables.both(), tables.masked


def _comparison(
    subject: str, kept: str, work: list[dict[str, Any]], under: list[float], **more: Any
) -> Comparison:
    last = work[-1]
    return Comparison(
        f"{kept}-over-elicitation",
        subject,
        f"all constructions, metrics and J ({kept} tables)",
        "elicitation",
        ([one["total"] for one in work], under),
        more.pop("size"),
        more={
            "stages": {name: round(s, 3) for name, s in last["seconds"].items()},
            "solvers": last["solvers"],
            **more,
        },
    )


def compare_whole(subject: Subject, repeats: int, *, kept: str) -> Comparison:
    """A real example in full: its own elicitation and its own tables, dense or streamed."""
    size = subject.lm.model.vocabulary_size
    limit = room_for_dense(size) if kept == "dense" else 0
    settings = unmask.Settings(progress=False, announce=False, memory_limit=limit)
    work, elicited = [], []
    Elicitation(subject).readouts()
    for _ in range(repeats):
        gc.collect()
        tables = subject.lm.tables(subject.cloze, settings=settings)
        elicited.append(seconds_of(partial(elicit, tables)))
        work.append(worked(tables, (size // 2, size // 3)))
    about = {**subject.size(), "rows": 2 * size + 1}
    return _comparison(subject.name, kept, work, elicited, size=about, elicitation="whole")


def compare_sampled(subject: Subject, repeats: int, *, kept: str) -> Comparison:
    """An example too large to elicit here: synthetic tables, worked on once.

    Its elicitation is that of a sample of rows times 2V over their number; samples are taken
    before and after the work, and the spread of the ratio is theirs.
    """
    size, width = subject.lm.model.vocabulary_size, _readout_width(subject)
    sample = Elicitation(subject)
    sample.elicitation()
    before = [seconds_of(sample.elicitation) for _ in range((repeats + 1) // 2)]
    limit = room_for_dense(size) if kept == "dense" else 0
    tables = nearly_compatible(size, width, memory_limit=limit)
    work = worked(tables.dense() if kept == "dense" else tables, (size // 2, size // 3))
    del tables
    gc.collect()
    after = [seconds_of(sample.elicitation) for _ in range(repeats // 2)]
    rows = len(subject.contexts())
    under = [2 * size / rows * seconds for seconds in before + after]
    return _comparison(
        subject.name, kept, [work] * len(under), under, size=subject.size(),
        elicitation=f"{rows} rows, times 2V / {rows}; synthetic tables, worked on once",
    )  # fmt: skip


def _readout_width(subject: Subject) -> int:
    embedding = subject.lm.model.output_embedding
    assert embedding is not None
    return int(embedding.weight.shape[1])
