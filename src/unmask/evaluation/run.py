"""The folder of an evaluation, as its readers see it: what was measured, and the result rows.

It is the folder of a job (`jobs.folder`). Imports no torch: a report can be made where none runs.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unmask.durable import make_folder
from unmask.errors import StoreError, UnmaskError
from unmask.evaluation.rows import COLUMNS, SKETCHED_VOCABULARY, ResultRow
from unmask.jobs.counts import counted, note
from unmask.jobs.folder import Folder, stored_plan, write_plan
from unmask.jobs.model_identity import ModelIdentity
from unmask.jobs.parts import rows_of, table_of
from unmask.jobs.plan import JobPlan
from unmask.printable import quoted
from unmask.records import places
from unmask.settings import Sketch

KIND = "evaluate"


@dataclass(frozen=True, kw_only=True)
class CorpusIdentity:
    """A corpus wherever it lies: its name in tables, and a hash of its sentences."""

    name: str
    sentences: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class ExampleSelection:
    """Which examples: what was requested, and what came of it with this model and corpus.

    At most `limit` examples per mask; `count` of all masks together, and `digest` over their tokens
    and blanks. `refused` counts the sentences that came before the last example of a mask and
    could not be one, by mask and reason.
    """

    masks: tuple[str, ...]
    limit: int
    seed: int
    count: int
    digest: str
    refused: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class LabelledMethod:
    """A method and its options, under the label that result rows carry."""

    method: str
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The method's name, with the options that were given."""
        listed = ", ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.method}({listed})" if listed else self.method


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """Everything that decides the result rows of a run.

    `support_size` is how many tokens a blank may have; None in some published plans. With a
    `sketch` examples are estimated from some contexts of the vocabulary.
    """

    model: ModelIdentity
    corpus: CorpusIdentity
    draw: ExampleSelection
    support: str | tuple[str, ...]
    constructions: tuple[LabelledMethod, ...]
    half_tables: bool = False
    support_size: int | None = None
    sketch: Sketch | None = None

    @property
    def support_name(self) -> str:
        """How result rows and tables name the support."""
        if isinstance(self.support, str):
            # another name, so that estimates and exact numbers are never averaged together
            return self.support if self.sketch is None else SKETCHED_VOCABULARY
        # a list of one token must not be taken for a name
        return ",".join(self.support) + ("," if len(self.support) == 1 else "")

    @property
    def input(self) -> list[list[object]]:
        """The corpus, as the input of a job."""
        return [[self.corpus.name, self.corpus.sentences, self.corpus.digest]]

    def options(self) -> dict[str, Any]:
        """All but the model and the corpus, as JSON values."""
        values = asdict(self)
        del values["model"], values["corpus"]
        if self.sketch is not None:
            # the key of published plans
            values["sketch"]["passes"] = values["sketch"].pop("max_passes")
        return values

    @classmethod
    def of_job(cls, plan: JobPlan) -> "EvaluationPlan":
        """Read back what `job` made; anything else is a `StoreError`."""
        try:
            values = dict(plan.options)
            draw, support, sketch = values["draw"], values["support"], values["sketch"]
            ((name, sentences, digest),) = plan.input
            values |= {
                "draw": ExampleSelection(**{**draw, "masks": tuple(draw["masks"])}),
                "support": support if isinstance(support, str) else tuple(support),
                "constructions": tuple(LabelledMethod(**one) for one in values["constructions"]),
                "sketch": None if sketch is None else _sketch(**sketch),
            }
            corpus = CorpusIdentity(
                name=str(name), sentences=int(str(sentences)), digest=str(digest)
            )
            return cls(model=plan.model, corpus=corpus, **values)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise StoreError(f"the plan is damaged: {quoted(str(error))}") from None


def _sketch(precision: float | None, passes: int, seed: int) -> Sketch:
    return Sketch(precision, passes, seed)


@dataclass(frozen=True)
class EvaluationRun:
    """A plan and its result rows, each example and construction once, in order of example.

    `damaged` are the names of parts that cannot be read, or are of another plan.
    """

    folder: Path
    job: JobPlan
    plan: EvaluationPlan
    rows: tuple[ResultRow, ...]
    damaged: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """The examples of the plan that have no rows yet."""
        return self.plan.draw.count - len({row.example_id for row in self.rows})


def holds_run(place: str | Path) -> bool:
    """Whether `evaluate` wrote this folder."""
    job = stored_plan(str(place))
    return job is not None and job.kind == KIND


def read_run(place: str | Path) -> EvaluationRun:
    """Everything that the folder of an evaluation holds.

    Args:
        place: The folder that `evaluate` wrote.
    Returns:
        The plan and the result rows.
    Raises:
        StoreError: There is no run, or it is damaged.
    Examples:
        >>> len(unmask.evaluation.read_run("results").rows)
        1
    """
    job = stored_plan(str(place))
    if job is None or job.kind != KIND:
        why = "it has no plan" if job is None else f"unmask {job.kind} made it"
        raise StoreError(f"{places.shown(str(place))} is not the folder of an evaluation: {why}")
    plan, folder, damaged = EvaluationPlan.of_job(job), Folder(str(place), job.digest), []
    rows: list[ResultRow] = []
    for number, receipt in folder.receipts().items():
        if receipt is None:
            damaged.append(Path(folder.part(number)).name)
            continue
        try:
            table = folder.table(number, receipt)
            rows += [ResultRow.from_dict(one) for one in rows_of(table)]
        except (UnmaskError, OSError, ValueError) as error:
            part = places.shown(folder.part(number))
            raise StoreError(f"cannot read {part}: {error}; try again") from None
    order = {one.label: index for index, one in enumerate(plan.constructions)}
    rows.sort(key=lambda row: (row.mask, row.example_id, order.get(row.construction, len(order))))
    return EvaluationRun(Path(place), job, plan, tuple(rows), tuple(damaged))


def copy_run(run: EvaluationRun, folder: str | Path) -> None:
    """A run as one part in a new folder, to be kept beside a paper or in a repository.

    It holds ids of examples and no text, and of errors only their kind.
    """
    place = str(folder)
    if os.path.exists(place) and any(os.scandir(place)):
        raise StoreError(f"{places.shown(place)} is not empty; a run is copied into a new folder")
    plan = replace(run.job, rows_per_unit=run.plan.draw.count, units=1)
    rows = [row.without_detail() for row in run.rows]
    errors = {row.example_id: row.reason for row in rows}
    counts = counted(len(errors))
    note(counts, KIND, filter(None, errors.values()))
    facts = {
        "counts": counts,
        "seconds": round(sum({row.example_id: row.seconds for row in rows}.values()), 3),
        "software": "; ".join(sorted({row.software for row in rows if row.software})),
    }
    make_folder(Path(place))
    write_plan(place, plan)
    values = [row.to_dict() for row in rows]
    Folder(place, plan.digest).write(0, table_of(values, COLUMNS), facts)
