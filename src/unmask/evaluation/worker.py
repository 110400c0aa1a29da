"""One example, all constructions and metrics: the unit of work, which never raises.

Knows neither where its rows go nor which machine it is on.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from statistics import median
from typing import Any

import tokenizers
import torch
import transformers

from unmask import __version__
from unmask.constructions import construct
from unmask.constructions.incompatibility import agreement
from unmask.errors import ModelError
from unmask.evaluation.identity import identify
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan, model_changes, sha256
from unmask.evaluation.rows import Row
from unmask.evaluation.sketched import sketched_metrics
from unmask.joints.agreement import Agreement
from unmask.joints.joint import Joint
from unmask.joints.metrics import pair_metrics
from unmask.language_model import LanguageModel
from unmask.loading import load
from unmask.model.row_reader import RowReader
from unmask.printable import printable
from unmask.settings import Settings
from unmask.tables.pair_tables import PairTables

# with numba other code sums over the tables: the same numbers but for the last digits
SOFTWARE = ", ".join(
    [
        f"unmask {__version__}",
        f"torch {torch.__version__}",
        f"transformers {transformers.__version__}",
        f"tokenizers {tokenizers.__version__}",
        f"numba {metadata.version('numba')}" if find_spec("numba") else "no numba",
    ]
)
_LONGEST_ERROR = 300
# of a model, as errors name them
_PARTS = {"config": "settings", "tokenizer": "rules for tokens", "probe": "answers"}


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Where a worker gets its model, and how it loads it; not part of a plan."""

    place: str
    device: str | None = None
    dtype: str = "float32"
    revision: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def load(self) -> LanguageModel:
        """The model itself."""
        options = asdict(self)
        return load(options.pop("place"), **options)


def check_model(lm: LanguageModel, plan: Plan) -> None:
    """Reject another model than the plan's: names and folders may lie."""
    known = plan.model
    here = identify(lm, name=known.name, dtype=known.dtype)
    for path, said in model_changes(known, here).items():
        part = path.split(".")[1]
        raise ModelError(
            f"{printable(lm.name)} has other {_PARTS.get(part, part)} here than where the run was"
            f" planned ({said}); give every machine the same model"
        )


def resolve_batch(
    lm: LanguageModel,
    examples: Sequence[MaskedPair],
    support: str | Sequence[str],
    settings: Settings,
) -> Batch:
    """The batch size of a whole run, found once: tokens per batch that suit a middling text."""
    if settings.batch_size is not None:
        return Batch(rows=settings.batch_size)
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
            "device": _device(lm),
        }
        # in here: a result row rejects numbers that are not finite
        return [Row(**about, **values) for values in found]
    except Exception as error:  # whatever it is belongs into the result rows, and the run goes on
        return failed(plan, example, describe(error), time.perf_counter() - began)


def failed(plan: Plan, example: MaskedPair, error: str, seconds: float = 0.0) -> list[Row]:
    """The result rows of an example that could not be measured."""
    about = _about(plan, example, seconds)
    return [Row(**about, construction=one.label, error=error) for one in plan.constructions]


def describe(error: BaseException) -> str:
    """An error in one line."""
    said = " ".join(str(error).split())
    named = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return printable(named)[:_LONGEST_ERROR]


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


def _device(lm: LanguageModel) -> str:
    device = lm.model.device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
