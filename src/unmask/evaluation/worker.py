"""One example, all constructions and metrics: the unit of work, which never raises.

Knows neither where its rows go nor which machine it is on.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NoReturn

from unmask import __version__
from unmask.constructions import construct
from unmask.constructions.incompatibility import agreement
from unmask.errors import UnmaskError
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan
from unmask.evaluation.rows import Row
from unmask.evaluation.sketched import sketched_metrics
from unmask.jobs.canonical import sha256
from unmask.jobs.executors.local import Executor
from unmask.jobs.executors.task import Failure, Task
from unmask.jobs.model_source import SOFTWARE, check_model, device_name
from unmask.joints.agreement import Agreement
from unmask.joints.joint import Joint
from unmask.joints.metrics import pair_metrics
from unmask.language_model import LanguageModel
from unmask.model.row_reader import RowReader
from unmask.printable import describe, printable
from unmask.settings import Settings
from unmask.tables.pair_tables import PairTables


def measuring(plan: Plan) -> Task:
    """What workers do for a run: examples in, the result rows of each out."""

    def check(lm: LanguageModel) -> None:
        if plan.software != f"unmask {__version__}":
            raise UnmaskError(
                f"unmask {__version__} is installed there and {printable(plan.software)} made"
                " the plan; give every machine the same version"
            )
        check_model(lm, plan.model)

    def give_up(example: MaskedPair, failure: Failure) -> list[Row]:
        # result rows are published: no `details`
        return failed(plan, example, printable(failure.said))

    return Task(check, lambda lm, example: measure(lm, plan, example), give_up)


def batch_on(
    executor: Executor,
    examples: Sequence[MaskedPair],
    support: str | Sequence[str],
    settings: Settings,
) -> Batch:
    """The batch size of a whole run, found where it will run."""

    def give_up(_: Sequence[MaskedPair], failure: Failure) -> NoReturn:
        why = ", ".join(filter(None, (failure.said, failure.details)))
        raise UnmaskError(f"no batch size could be found: {printable(why)}")

    if settings.batch_size is not None:
        return Batch(rows=settings.batch_size)
    # there is no plan yet that a model could contradict
    task = Task(
        lambda _: None, lambda lm, some: resolve_batch(lm, some, support, settings), give_up
    )
    found: Batch
    (found,) = executor.run(task, [of_median_length(examples)])
    return found


def of_median_length(examples: Sequence[MaskedPair]) -> Sequence[MaskedPair]:
    """The one in the middle, or the two of an even number: their median is that of all."""
    ordered = sorted(examples, key=lambda one: len(one.cloze))
    return ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1] if ordered else []


def resolve_batch(
    lm: LanguageModel,
    examples: Sequence[MaskedPair],
    support: str | Sequence[str],
    settings: Settings,
) -> Batch:
    """The batch size of a whole run, found once: tokens per batch that suit a middling text."""
    length = int(median(len(one.cloze) for one in examples))
    rows = 2 * len(lm.support(support).ids)
    return Batch(tokens=length * RowReader(lm.model, settings).rows_per_batch(length, rows))


def measure(lm: LanguageModel, plan: Plan, example: MaskedPair) -> list[Row]:
    """One result row per construction; where anything fails, rows that say why."""
    began = time.perf_counter()
    try:
        found = list(_measured(lm, plan, example))
        about = {
            **_about(plan, example, time.perf_counter() - began),
            "software": SOFTWARE,
            "device": device_name(lm),
        }
        # in here: a result row rejects numbers that are not finite
        return [Row(**about, **values) for values in found]
    except Exception as error:  # whatever it is belongs into the result rows, and the run goes on
        return failed(plan, example, describe(error), time.perf_counter() - began)


def failed(plan: Plan, example: MaskedPair, error: str, seconds: float = 0.0) -> list[Row]:
    """The result rows of an example that could not be measured."""
    about = _about(plan, example, seconds)
    return [Row(**about, construction=one.label, error=error) for one in plan.constructions]


def _measured(lm: LanguageModel, plan: Plan, example: MaskedPair) -> Iterator[dict[str, Any]]:
    settings = Settings(
        batch_size=(plan.batch or Batch()).rows_for(len(example.cloze)),
        memory_limit=plan.memory_limit,
        half_tables=plan.half_tables,
        progress=False,
        announce=False,
    )
    support = plan.support if isinstance(plan.support, str) else list(plan.support)
    tables = lm.tables(example.cloze, support=support, settings=settings)
    first, second = example.cloze.gold or ()
    joints, numbers, found = _metrics(plan, example, tables, (first, second))
    # only where its solver has converged: a rough number would be averaged as a good one
    trust = found.bits if found.converged else None
    for one in plan.constructions:
        yield {
            "construction": one.label,
            "incompatibility": trust,
            **numbers[one.method],
            **_solver(joints[one.method]),
        }


def _metrics(
    plan: Plan, example: MaskedPair, tables: PairTables, gold: tuple[int, int]
) -> tuple[dict[str, Joint], dict[str, dict[str, Any]], Agreement]:
    """Joints and their numbers by method, and J."""
    methods = {one.method: one.options for one in plan.constructions}
    if plan.sketch is not None:
        # another one per example, so that the errors of a mean cancel
        seed = int(sha256([plan.sketch.seed, example.id])[:15], 16)
        return sketched_metrics(methods, tables, replace(plan.sketch, seed=seed), gold)
    tables.both()
    joints = {name: construct(name, tables, **options) for name, options in methods.items()}
    metrics = pair_metrics(joints, tables, gold)
    return joints, {name: one.to_dict() for name, one in metrics.items()}, agreement(tables)


def _about(plan: Plan, example: MaskedPair, seconds: float) -> dict[str, Any]:
    first, second = example.cloze.positions
    return {
        "corpus": plan.corpus.name,
        "mask": example.mask,
        "model": plan.model.name,
        "support": plan.support_name,
        "example_id": example.id,
        "sentence_id": example.sentence_id,
        "gold_bytes": example.gold_bytes,
        "length": len(example.cloze),
        "positions": (first, second),
        "spans": example.spans,
        "seconds": seconds,
    }


def _solver(joint: Joint) -> dict[str, Any]:
    passes, converged = joint.diagnostics.get("passes"), joint.diagnostics.get("converged")
    return {
        "passes": None if passes is None else int(str(passes)),
        "converged": None if converged is None else bool(converged),
    }
