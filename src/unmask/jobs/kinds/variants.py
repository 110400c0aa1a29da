"""`variants`: every variant of every assay, by one or more methods."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.kinds import Announcement, Kind, Reason, Row
from unmask.jobs.tally import Tally
from unmask.language_model import LanguageModel
from unmask.names import DEFAULT_VARIANT_METHOD
from unmask.queries.costs.cost import Cost
from unmask.sequences.variants import MUTANT, MUTATED_SEQUENCE
from unmask.sequences.variants.cubes import LARGEST_BLOCK
from unmask.sequences.variants.methods import CONVENTIONS, HCB_PATH, has_singles, has_tables
from unmask.sequences.variants.reading import Variant, VariantReader
from unmask.sequences.variants.scoring import (
    DEFAULT_SUPPORT,
    VariantScore,
    count_passes,
    scores_by_methods,
)
from unmask.settings import Settings


@dataclass(frozen=True, kw_only=True)
class VariantsKind(Kind):
    """Variants of the column `mutant`, of one wild type or of that of their `mutated_sequence`.

    Each method has columns of its own. `file_column` is where the name of the assay goes, if there
    are several. `settings` say how the model is run, and change no number.
    """

    sequence: str | None = None
    methods: tuple[str, ...] = (DEFAULT_VARIANT_METHOD,)
    support: str | tuple[str, ...] = DEFAULT_SUPPORT
    largest_block: int = LARGEST_BLOCK
    model_name: str = ""
    prefix: str = ""
    file_column: str | None = None
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name, noun = "variants", "variant"
    optional_columns = (MUTATED_SEQUENCE,)

    @property
    def required_columns(self) -> Sequence[str]:
        """The mutations, and without a wild type the sequences that have them."""
        return (MUTANT,) if self.sequence is not None else (MUTANT, MUTATED_SEQUENCE)

    @property
    def output_columns(self) -> dict[str, str]:
        """The columns that it adds: the scores by the names of the methods, then about them."""
        numbers = {name: "double" for method in self.methods for name in columns_of(method)}
        counts = [f"{method}_forward_passes" for method in self.methods]
        if any(method not in CONVENTIONS for method in self.methods):
            counts.append("blocks")
        others = {
            **dict.fromkeys([*counts, "mutation_count"], "int64"),
            **dict.fromkeys(("window", "model", "reason"), "string"),
        }
        return {self.prefix + name: kind for name, kind in {**numbers, **others}.items()}

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The mutations of each row, and its wild type as the model reads it."""
        support = self.support if isinstance(self.support, str) else list(self.support)
        try:
            reader = VariantReader(lm, self.sequence, support)
        except UnmaskError as error:
            # an alphabet that this model does not have
            return [Reason(error)] * len(rows)
        variants = (reader.read_or_reason(row) for row in rows)
        return [Reason(one) if isinstance(one, str) else one for one in variants]

    def run(self, lm: LanguageModel, items: Sequence[Variant]) -> list[list[dict[str, Any]]]:
        """One row per variant."""
        scores = scores_by_methods(
            lm, items, self.methods, largest=self.largest_block, settings=self.settings
        )
        return [[self._row(one)] for one in scores]

    def _model_and_reason(self, reason: str | None) -> dict[str, str | None]:
        return {f"{self.prefix}model": self.model_name, f"{self.prefix}reason": reason}

    def _row(self, scores: dict[str, VariantScore]) -> dict[str, Any]:
        any_score = scores[self.methods[0]]
        window = any_score.window
        values: dict[str, Any] = {
            "mutation_count": len(any_score.mutations),
            "window": None if window is None else f"{window[0]}-{window[1]}",
            "blocks": max((one.blocks or 1 for one in scores.values()), default=1),
        }
        for method, one in scores.items():
            values |= {name: getattr(one, part) for name, part in columns_of(method).items()}
            values[f"{method}_forward_passes"] = one.forward_passes
        reasons = dict.fromkeys(one.reason for one in scores.values() if one.reason)
        columns = self._model_and_reason("; ".join(reasons) or None)
        own = {self.prefix + name: value for name, value in values.items()} | columns
        return {name: own[name] for name in self.output_columns}

    def tally(self, rows: Sequence[Row], results: Sequence[Sequence[Row]]) -> Tally:
        """How many have no score, by method."""
        tally = Tally(len(rows))
        every = [row for some in results for row in some]
        for method in self.methods:
            score, reason = self.prefix + method, f"{self.prefix}reason"
            tally.note(method, [row[reason] for row in every if row[score] is None])
        return tally

    def announcement(self, lm: LanguageModel, items: Sequence[Any]) -> Announcement | None:
        """What these cost; forward passes that they have in common count once."""
        variants = [one for one in items if isinstance(one, Variant)]
        if not variants:
            return None
        passes, counted = count_passes(variants, self.methods, self.largest_block)
        # windows of one assay are equally long
        frame = max((one.frame for one in variants), key=lambda frame: len(frame.ids))
        cost = Cost(passes, len(frame.ids), 0)
        return Announcement(", ".join(self.methods), frame.cloze, cost, counted=counted)


def columns_of(method: str) -> dict[str, str]:
    """The columns of a method's numbers, and what a score calls them."""
    columns = {method: "score"}
    if has_singles(method):
        columns[f"{method}_interaction"] = "interaction"
    if method == HCB_PATH:
        columns[f"{method}_spread"] = "spread"
    if has_tables(method):
        columns[f"{method}_incompatibility"] = "incompatibility"
    return columns
