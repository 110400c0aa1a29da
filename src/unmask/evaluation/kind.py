"""The kind of job that measures masked examples: by every construction, in every metric."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from unmask.constructions import DEFAULT_METHOD, construct
from unmask.constructions.incompatibility import agreement
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.rows import COLUMNS, SKETCHED_VOCABULARY, LabelledMethod, ResultRow
from unmask.evaluation.run import KIND
from unmask.jobs.counts import Counts, counted, note
from unmask.jobs.kinds import FailedRows, Kind, Work
from unmask.jobs.model_source import SOFTWARE
from unmask.jobs.plan import sha256
from unmask.jobs.worker import is_of_accelerator
from unmask.joints.joint import Joint
from unmask.joints.metrics import pair_metrics
from unmask.language_model import LanguageModel
from unmask.model.devices import device_name
from unmask.printable import describe
from unmask.queries.sketched import cost_of_sketch, joints_at, needs_sketch
from unmask.settings import Settings, Sketch

# the column of a unit's rows that holds the masked pair
EXAMPLE = "example"


@dataclass(frozen=True, kw_only=True)
class Evaluate(Kind):
    """Masked pairs, each by every construction.

    `draw` says which examples: `masks`, at most `limit` of each by `seed`; `count` of all masks
    together, and a `digest` of their tokens and blanks; `refused`, by mask and reason, the
    sentences that came before the last example and could not be one. `support_size` is how many
    tokens a blank may have. With a `sketch` examples are estimated from some contexts of the
    vocabulary. `settings` say how the model is run; of these, half tables change numbers.
    """

    corpus: str
    model_name: str = ""
    draw: Mapping[str, Any]
    support: str | tuple[str, ...]
    constructions: tuple[LabelledMethod, ...]
    half_tables: bool = False
    support_size: int | None = None
    sketch: Sketch | None = None
    settings: Settings = field(default_factory=Settings, compare=False)

    name, noun, verb = KIND, "example", "measured"
    row_seconds, runs_alone = 0.5, True
    required_columns = ()
    dropped_columns = (EXAMPLE,)
    output_columns = COLUMNS

    @property
    def support_name(self) -> str:
        """The support in result rows and tables."""
        if isinstance(self.support, str):
            # another name, so that estimates and exact numbers are never averaged together
            return self.support if self.sketch is None else SKETCHED_VOCABULARY
        # a list of one token must not be taken for a name
        return ",".join(self.support) + ("," if len(self.support) == 1 else "")

    @property
    def title(self) -> str:
        """The constructions, in an estimate."""
        return ", ".join(one.label for one in self.constructions)

    def options(self) -> dict[str, Any]:
        """Everything that decides the rows, except the model and the corpus."""
        return {
            "draw": dict(self.draw),
            "support": self.support,
            "constructions": [one._asdict() for one in self.constructions],
            "half_tables": self.half_tables,
            "support_size": self.support_size,
            "sketch": self.sketch and asdict(self.sketch),
        }

    def read(self, lm: LanguageModel, rows: Sequence[Mapping[str, Any]]) -> list[MaskedPair]:
        """The masked pairs."""
        return [row[EXAMPLE] for row in rows]

    def work(self, lm: LanguageModel, item: MaskedPair) -> Work:
        """The forward passes of an example: all constructions share them."""
        # A-KL and J read both tables, and a sketch is run whatever is read from it
        methods = {DEFAULT_METHOD: {}, **{one.method: one.options for one in self.constructions}}
        if self.sketch is None:
            cost = lm.cost(
                item.cloze,
                methods=list(methods),
                support=self.support,
                settings=self.settings,
                options=methods,
                timed=False,
            )
        else:
            shape = (lm.model.vocabulary_size,) * 2
            count = len(needs_sketch(methods, shape))
            cost = cost_of_sketch(self.sketch, shape, self.settings, len(item.cloze), count)
        return Work(cost.forward_passes, len(item.cloze), cost.at_most)

    def run(self, lm: LanguageModel, items: Sequence[MaskedPair]) -> list[list[dict[str, Any]]]:
        """One row per example and construction; of an example that fails, with the error."""
        results = []
        for example in items:
            try:
                rows = [row.to_dict() for row in self.measure(lm, example)]
            except Exception as error:  # whatever it is belongs into the result rows
                reason = describe(error)
                if is_of_accelerator(reason):
                    raise
                rows = FailedRows(
                    ResultRow(**columns, reason=reason).to_dict()
                    for columns in self._columns(example)
                )
            results.append(rows)
        return results

    def without(self, reason: str) -> list[dict[str, Any]]:
        """Examples can be measured, or were not drawn."""
        raise NotImplementedError(reason)

    def count(
        self, rows: Sequence[Mapping[str, Any]], results: Sequence[Sequence[Mapping[str, Any]]]
    ) -> Counts:
        """How many have an error."""
        counts = counted(len(rows))
        note(counts, KIND, [first["reason"] for first, *_ in results if first["reason"]])
        return counts

    def measure(self, lm: LanguageModel, example: MaskedPair) -> list[ResultRow]:
        """One result row per construction."""
        settings = replace(
            self.settings, half_tables=self.half_tables, progress=False, announce=False
        )
        support = self.support if isinstance(self.support, str) else list(self.support)
        tables = lm.tables(example.cloze, support=support, settings=settings)
        first, second = example.cloze.gold or ()
        methods = {one.method: one.options for one in self.constructions}
        if self.sketch is None:
            tables.both()
            joints = {name: construct(name, tables, **given) for name, given in methods.items()}
            of_a_sketch = dict[str, dict[str, Any]]()
        else:
            # another one per example, so that the errors of a mean cancel
            seed = int(sha256([self.sketch.seed, example.id])[:15], 16)
            sketch = replace(self.sketch, seed=seed)
            joints, pair = joints_at(methods, tables, sketch, (first, second))
            tables = pair.tables()
            of_a_sketch = {
                name: _errors(name, joint, (first, second), pair.forward_passes)
                for name, joint in joints.items()
            }
        metrics = pair_metrics(joints, tables, (first, second))
        disagreement = agreement(tables)
        shared: dict[str, Any] = {
            "incompatibility": None if disagreement is None else disagreement.bits,
            "software": SOFTWARE,
            "device": device_name(lm.model.device),
        }
        rows = []
        for columns, (name, joint) in zip(self._columns(example), joints.items(), strict=True):
            numbers: dict[str, Any] = {**vars(metrics[name]), **of_a_sketch.get(name, {})}
            numbers |= {part: joint.diagnostics.get(part) for part in ("passes", "converged")}
            rows.append(ResultRow(**columns, **shared, **numbers))
        return rows

    def _columns(self, example: MaskedPair) -> list[dict[str, Any]]:
        """The columns that do not depend on the numbers, of each construction."""
        first, second = example.cloze.positions
        shared = {
            "corpus": self.corpus,
            "mask": example.mask,
            "model": self.model_name,
            "support": self.support_name,
            "example_id": example.id,
            "sentence_id": example.sentence_id,
            "gold_bytes": example.gold_bytes,
            "length": len(example.cloze),
            "positions": (first, second),
            "spans": example.spans,
        }
        return [{**shared, "construction": one.label} for one in self.constructions]


def _errors(
    name: str, joint: Joint, gold: tuple[int, int], forward_passes: int
) -> dict[str, float | None]:
    """The numbers of a sketch, whose gold tokens are in the head, where masses are probabilities.

    Metrics of the tables of masses are those of the vocabulary. All but A-KL: most contexts of a
    vocabulary never run.
    """

    def unary(joint: Joint) -> float:
        each = (joint.conditional(t, given={1 - t: gold[1 - t]}).log_prob(gold[t]) for t in (0, 1))
        return sum(each) / 2

    return {
        "all_kl": None,
        "pairwise_error": joint.standard_error(lambda one: one.log_prob(*gold) / 2),
        # that of mlm is the model's own, which has run
        "unary_error": 0.0 if name == "mlm" else joint.standard_error(unary),
        "forward_passes": forward_passes,
    }
