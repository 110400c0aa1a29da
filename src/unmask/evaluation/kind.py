"""The kind of job that measures masked examples: by every construction, in every metric."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from unmask.constructions import DEFAULT_METHOD, construct
from unmask.constructions.incompatibility import agreement
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.rows import COLUMNS, SKETCHED_VOCABULARY, LabelledMethod, ResultRow
from unmask.evaluation.run import KIND
from unmask.jobs.kinds import InputColumns, Kind, Rows, Work
from unmask.jobs.model_source import SOFTWARE
from unmask.jobs.plan import sha256
from unmask.joints.metrics import pair_errors, pair_metrics
from unmask.language_model import LanguageModel
from unmask.model.devices import device_name
from unmask.queries.sketched import cost_of_sketch, joints_at, needs_sketch
from unmask.settings import Sketch

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
    support_size: int | None = None
    sketch: Sketch | None = None

    name, noun, verb = KIND, "example", "measured"
    row_seconds, runs_alone = 0.5, True
    # the error of an example may be that of a machine
    final = ()
    input_columns = InputColumns((), dropped=(EXAMPLE,))
    output_columns = COLUMNS

    @property
    def support_name(self) -> str:
        """The support in result rows: estimates are never averaged with exact numbers."""
        if isinstance(self.support, str):
            return self.support if self.sketch is None else SKETCHED_VOCABULARY
        # a list of one token must not be taken for a name
        return ",".join(self.support) + "," * (len(self.support) == 1)

    def options(self) -> dict[str, Any]:
        """Everything that decides the rows, except the model and the corpus."""
        return {
            "draw": dict(self.draw),
            "support": self.support,
            "constructions": [method._asdict() for method in self.constructions],
            "half_tables": self.settings.half_tables,
            "support_size": self.support_size,
            "sketch": self.sketch and asdict(self.sketch),
        }

    def read(self, lm: LanguageModel, rows: Sequence[Mapping[str, Any]]) -> list[MaskedPair]:
        """The masked pairs."""
        return [row[EXAMPLE] for row in rows]

    def work(self, lm: LanguageModel, item: MaskedPair) -> Work:
        """The forward passes of an example: all constructions share them."""
        # A-KL and J read both tables, and a sketch is run whatever is read from it
        methods, length = {DEFAULT_METHOD: {}, **dict(self.constructions)}, len(item.cloze)
        if self.sketch is None:
            cost_options: Any = {"support": self.support, "settings": self.settings, "timed": False}
            cost = lm.cost(item.cloze, methods=list(methods), options=methods, **cost_options)
        else:
            shape = (lm.model.vocabulary_size,) * 2
            count = len(needs_sketch(methods, shape))
            cost = cost_of_sketch(self.sketch, shape, self.settings, length, count)
        return Work(cost.forward_passes, length, cost.at_most)

    def run(self, lm: LanguageModel, items: Sequence[MaskedPair]) -> list[Rows]:
        """One row per example and construction."""
        return [[*map(vars, self.measure(lm, example))] for example in items]

    def without(self, reason: str, item: Any = None) -> Rows:
        """The rows of an example that failed, with the error."""
        return [vars(ResultRow(**columns, reason=reason)) for columns in self._columns(item)]

    def measure(self, lm: LanguageModel, example: MaskedPair) -> list[ResultRow]:
        """One result row per construction."""
        whole = lm.tables(example.cloze, support=self.support, settings=self.settings)
        methods, (first, second) = dict(self.constructions), example.cloze.gold or ()
        gold = (first, second)
        if self.sketch is None:
            whole.both()
            tables, passes = whole, None
            joints = {name: construct(name, whole, **options) for name, options in methods.items()}
        else:
            # a seed per example, so that the errors of a mean cancel
            seed = int(sha256([self.sketch.seed, example.id])[:15], 16)
            joints, pair = joints_at(methods, whole, replace(self.sketch, seed=seed), gold)
            tables, passes = pair.tables(), pair.forward_passes
        metrics = pair_metrics(joints, tables, gold)
        disagreement = agreement(tables)
        shared: dict[str, Any] = {
            "incompatibility": None if disagreement is None else disagreement.bits,
            "software": SOFTWARE,
            "device": device_name(lm.model.device),
        }
        rows = []
        for columns, (name, joint) in zip(self._columns(example), joints.items(), strict=True):
            numbers: dict[str, Any] = {**vars(metrics[name])}
            numbers |= {part: joint.diagnostics.get(part) for part in ("passes", "converged")}
            if passes is not None:
                pairwise, unary = pair_errors(joint, gold)
                numbers |= {"pairwise_error": pairwise, "unary_error": unary}
                # no A-KL: most contexts of a vocabulary never run
                numbers |= {"all_kl": None, "forward_passes": passes}
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
            "token_distance": abs(first - second) - 1,
            "positions": [first, second],
            "spans": example.spans and [*map(list, example.spans)],
        }
        return [{**shared, "construction": method.label} for method in self.constructions]
