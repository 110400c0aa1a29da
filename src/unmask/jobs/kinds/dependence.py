"""`dependence`: how strongly every two places of every text depend on each other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.kinds import Reason, Row
from unmask.jobs.tally import Tally
from unmask.language_model import LanguageModel
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.mapping import check_memory, dependence_maps
from unmask.queries.dependence.question import (
    DEFAULT_MEASURE,
    DEFAULT_SAMPLES,
    How,
    Question,
    check_support,
)
from unmask.settings import Settings

_NUMBERS = ("first", "second", "distance")


@dataclass(frozen=True, kw_only=True)
class Dependence:
    """Texts of the column `text`, one row per pair of their places.

    `settings` say how the model is run, and change no number.
    """

    measure: str = DEFAULT_MEASURE
    samples: int = DEFAULT_SAMPLES
    window: int | None = None
    seed: int = 0
    support: str | tuple[str, ...] = "vocabulary"
    corrected: bool = False
    tree: bool = False
    model_name: str = ""
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name = "dependence"
    file_column = None
    required_columns = ("text",)
    optional_columns = ()
    dropped_columns = ()

    def __post_init__(self) -> None:
        """Reject what cannot be measured."""
        check_support(self.measure, self.support)

    @property
    def output_columns(self) -> dict[str, str]:
        """The columns that it adds."""
        names = dict.fromkeys(("first_name", "second_name"), "string")
        numbers = dict.fromkeys((self.measure.replace("-", "_"), "standard_error"), "double")
        tree = {"tree": "bool"} if self.tree else {}
        about = dict.fromkeys(("unit", "model", "reason"), "string")
        return {**dict.fromkeys(_NUMBERS, "int64"), **names, **numbers, **tree, **about}

    def options(self) -> dict[str, Any]:
        """Whatever decides the rows."""
        values = asdict(self)
        del values["settings"]
        return values

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The places of each text."""
        return [self._question(lm, row.get("text")) for row in rows]

    def _question(self, lm: LanguageModel, text: Any) -> Question | Reason:
        try:
            question = lm.dependence_question(text, support=self._support)
            how = self._how(lm)
            how.check(question)
            check_memory(question, how, self.settings)
        except UnmaskError as error:
            return Reason(error)
        return question

    @property
    def _support(self) -> str | list[str]:
        return self.support if isinstance(self.support, str) else list(self.support)

    def _how(self, lm: LanguageModel) -> How:
        return How(self.measure, lm.support(self._support), self.samples, self.window, self.seed)

    def run(self, lm: LanguageModel, items: Sequence[Question]) -> list[list[dict[str, Any]]]:
        """One row per pair of places."""
        maps = dependence_maps(lm.model, items, self._how(lm), self.settings, name=lm.name)
        return [self._rows(found.corrected() if self.corrected else found) for found in maps]

    def _rows(self, found: DependenceMap) -> list[dict[str, Any]]:
        try:
            edges = set(found.tree(projective=True)) if self.tree else set()
        except UnmaskError as error:
            return self.without(str(error))
        rows: list[dict[str, Any]] = []
        for pair in found.to_dicts():
            values = {**pair, "model": self.model_name, "reason": None}
            if self.tree:
                values["tree"] = (pair["first"], pair["second"]) in edges
            rows.append({name: values[name] for name in self.output_columns})
        return rows

    def without(self, reason: str) -> list[dict[str, Any]]:
        """A row with the reason."""
        return [
            {**dict.fromkeys(self.output_columns), "model": self.model_name, "reason": str(reason)}
        ]

    def all_failed_message(self, tally: Tally) -> str:
        """What is said where there is not one map."""
        return f"none of the {tally.texts} texts can be mapped"

    def tally(self, rows: Sequence[Row], found: Sequence[Sequence[Row]]) -> Tally:
        """How many have no map."""
        tally = Tally(len(rows))
        tally.note(self.name, [row["reason"] for some in found for row in some if row["reason"]])
        return tally
