"""The kind of job that measures masked examples by all constructions and metrics."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unmask.constructions import DEFAULT_METHOD, construct
from unmask.constructions.incompatibility import agreement
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.rows import COLUMNS, ResultRow
from unmask.evaluation.run import KIND, EvaluationPlan
from unmask.jobs.canonical import sha256
from unmask.jobs.counts import Counts, counted, note
from unmask.jobs.kinds import FailedRows, Kind, Work
from unmask.jobs.model_source import SOFTWARE, device_name
from unmask.jobs.worker import is_of_accelerator
from unmask.joints.agreement import Agreement
from unmask.joints.joint import Joint
from unmask.joints.metrics import pair_metrics
from unmask.language_model import LanguageModel
from unmask.printable import describe
from unmask.queries.sketched import joints_at, tables_of
from unmask.settings import Settings, Sketch
from unmask.tables.pair_tables import PairTables

# the column of a unit's rows that holds the masked pair
EXAMPLE = "example"


@dataclass(frozen=True, kw_only=True)
class Evaluate(Kind):
    """Masked pairs, each by every construction of a plan.

    `settings` say how the model is run; of these, half tables change numbers.
    """

    plan: EvaluationPlan
    settings: Settings = field(default_factory=Settings, compare=False)

    name, noun, verb = KIND, "example", "measured"
    row_seconds, runs_alone = 0.5, True
    required_columns = ()
    dropped_columns = (EXAMPLE,)
    output_columns = COLUMNS

    def options(self) -> dict[str, Any]:
        """Everything that determines the rows."""
        return self.plan.options()

    def read(self, lm: LanguageModel, rows: Sequence[Mapping[str, Any]]) -> list[MaskedPair]:
        """The masked pairs."""
        return [row[EXAMPLE] for row in rows]

    def run(self, lm: LanguageModel, items: Sequence[MaskedPair]) -> list[list[dict[str, Any]]]:
        """One row per example and construction."""
        return [self._rows(lm, example) for example in items]

    def without(self, reason: str) -> list[dict[str, Any]]:
        """Examples can be measured, or were not drawn."""
        raise NotImplementedError(reason)

    def work(self, lm: LanguageModel, item: MaskedPair) -> Work:
        """The forward passes of an example: all constructions share them."""
        plan = self.plan
        cost = lm.cost(
            item.cloze,
            # A-KL and J read both tables, and a sketch is run whatever is read from it
            methods=[*(one.method for one in plan.constructions), DEFAULT_METHOD],
            support=plan.sketch or plan.support,
            settings=self.settings,
            options={one.method: dict(one.options) for one in plan.constructions},
            timed=False,
        )
        return Work(cost.forward_passes, len(item.cloze), cost.at_most)

    def count(
        self, rows: Sequence[Mapping[str, Any]], results: Sequence[Sequence[Mapping[str, Any]]]
    ) -> Counts:
        """How many have an error."""
        counts = counted(len(rows))
        note(counts, KIND, [some[0]["reason"] for some in results if some[0]["reason"]])
        return counts

    def _rows(self, lm: LanguageModel, example: MaskedPair) -> list[dict[str, Any]]:
        began = time.perf_counter()
        try:
            return [row.to_dict() for row in measure(lm, self.plan, example, self.settings)]
        except Exception as error:  # whatever it is belongs into the result rows
            reason = describe(error)
            if is_of_accelerator(reason):
                raise
            columns = _common_columns(self.plan, example, time.perf_counter() - began)
        labels = (one.label for one in self.plan.constructions)
        return FailedRows(
            ResultRow(**columns, construction=one, reason=reason).to_dict() for one in labels
        )


def measure(
    lm: LanguageModel, plan: EvaluationPlan, example: MaskedPair, settings: Settings | None = None
) -> list[ResultRow]:
    """One result row per construction."""
    began = time.perf_counter()
    run_settings = replace(
        settings or Settings(), half_tables=plan.half_tables, progress=False, announce=False
    )
    support = plan.support if isinstance(plan.support, str) else list(plan.support)
    tables = lm.tables(example.cloze, support=support, settings=run_settings)
    first, second = example.cloze.gold or ()
    joints, numbers, apart = _metrics(plan, example, tables, (first, second))
    columns = {
        **_common_columns(plan, example, time.perf_counter() - began),
        "incompatibility": None if apart is None else apart.bits,
        "software": SOFTWARE,
        "device": device_name(lm),
    }
    return [
        ResultRow(
            **columns,
            construction=one.label,
            **numbers[one.method],
            **_convergence(joints[one.method]),
        )
        for one in plan.constructions
    ]


def _metrics(
    plan: EvaluationPlan, example: MaskedPair, tables: PairTables, gold: tuple[int, int]
) -> tuple[dict[str, Joint], dict[str, dict[str, Any]], Agreement | None]:
    """Joints and their numbers by method, and J."""
    methods = {one.method: one.options for one in plan.constructions}
    if plan.sketch is not None:
        # another one per example, so that the errors of a mean cancel
        seed = int(sha256([plan.sketch.seed, example.id])[:15], 16)
        return _sketched_metrics(methods, tables, replace(plan.sketch, seed=seed), gold)
    tables.both()
    joints = {name: construct(name, tables, **options) for name, options in methods.items()}
    metrics = pair_metrics(joints, tables, gold)
    return joints, {name: one.to_dict() for name, one in metrics.items()}, agreement(tables)


def _sketched_metrics(
    methods: Mapping[str, Mapping[str, object]],
    whole: PairTables,
    sketch: Sketch,
    gold: tuple[int, int],
) -> tuple[dict[str, Joint], dict[str, dict[str, Any]], Agreement | None]:
    """Joints and their numbers by method, and J: the tables of the vocabulary are not elicited.

    The gold tokens are in the head, where masses are probabilities: metrics of the tables of masses
    are those of the vocabulary. All but A-KL, for most contexts of a vocabulary never run.
    """
    joints, pair = joints_at(methods, whole, sketch, gold)
    tables = tables_of(pair)
    metrics = pair_metrics(joints, tables, gold)
    numbers = {
        name: {
            **metrics[name].to_dict(),
            "all_kl": None,
            "pairwise_error": joint.standard_error(lambda one: one.log_prob(*gold) / 2),
            # that of mlm is the model's own, which has run
            "unary_error": 0.0 if name == "mlm" else joint.standard_error(_unary(gold)),
            "forward_passes": pair.forward_passes,
        }
        for name, joint in joints.items()
    }
    return joints, numbers, agreement(tables)


def _unary(gold: tuple[int, int]) -> Any:
    def mean(joint: Joint) -> float:
        each = (joint.conditional(t, given={1 - t: gold[1 - t]}).log_prob(gold[t]) for t in (0, 1))
        return sum(each) / 2

    return mean


def _common_columns(plan: EvaluationPlan, example: MaskedPair, seconds: float) -> dict[str, Any]:
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


def _convergence(joint: Joint) -> dict[str, Any]:
    passes, converged = joint.diagnostics.get("passes"), joint.diagnostics.get("converged")
    return {
        "passes": None if passes is None else int(str(passes)),
        "converged": None if converged is None else bool(converged),
    }
