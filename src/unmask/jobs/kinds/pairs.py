"""`pairs`: two words in the two blanks of every item."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from unmask.constructions import METHOD_WITHOUT_TABLES
from unmask.jobs.kinds import Announcement, Kind, Reason, Row
from unmask.language_model import LanguageModel
from unmask.sequences import word_pairs
from unmask.sequences.word_pairs import PairScore, WordPair
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import AUTO

_COUNTS = ("pieces_1", "pieces_2", "unknown_tokens", "forward_passes")


@dataclass(frozen=True, kw_only=True)
class PairsKind(Kind):
    """Items of a text and two words, in three columns, by one method.

    `settings` say how the model is run; of these, half tables change numbers.
    """

    columns: tuple[str, str, str] = ("text", "word1", "word2")
    method: str = METHOD_WITHOUT_TABLES
    support: str | Sketch = AUTO
    model_name: str = ""
    prefix: str = ""
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name, noun = "pairs", "item"

    @property
    def required_columns(self) -> Sequence[str]:
        """The columns of the text and the words."""
        return self.columns

    @property
    def output_columns(self) -> dict[str, str]:
        """The columns that it adds: standard errors only where numbers are estimated."""
        other = "pmi" if self.method == METHOD_WITHOUT_TABLES else "association"
        *numbers, reason = (one.name for one in fields(PairScore) if one.name != other)
        if self.method == METHOD_WITHOUT_TABLES or self.support == "vocabulary":
            numbers = [name for name in numbers if not name.endswith("_error")]
        texts = ("method", "model", reason)
        types = {**dict.fromkeys(numbers, "double"), **dict.fromkeys(texts, "string")}
        counts = dict.fromkeys(_COUNTS, "int64")
        return {self.prefix + name: counts.get(name, kind) for name, kind in types.items()}

    def options(self) -> dict[str, Any]:
        """Everything that determines the rows."""
        return {**super().options(), "half_tables": self.settings.half_tables}

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The tokens of each item."""
        items = ([row.get(name) for name in self.columns] for row in rows)
        pairs = word_pairs.read_items(lm, items, method=self.method)
        return [Reason(one) if isinstance(one, str) else one for one in pairs]

    def run(self, lm: LanguageModel, items: Sequence[WordPair]) -> list[list[dict[str, Any]]]:
        """One row per item."""
        options: dict[str, Any] = {"method": self.method, "support": self.support}
        scores = word_pairs.score_items(lm, items, **options, settings=self.settings)
        return [[self._row(one)] for one in scores]

    def without(self, reason: str) -> list[dict[str, Any]]:
        """A row with the reason."""
        return [self._row(PairScore(reason=reason))]

    def _row(self, score: PairScore) -> dict[str, Any]:
        values = score.to_dict() | {"method": self.method, "model": self.model_name}
        return {name: values[name.removeprefix(self.prefix)] for name in self.output_columns}

    def announcement(self, lm: LanguageModel, items: Sequence[Any]) -> Announcement | None:
        """What an item like the first costs: of a pair alone, nothing is ranked."""
        item = next((one for one in items if isinstance(one, WordPair)), None)
        if item is None:
            return None
        options: dict[str, Any] = {"support": self.support, "settings": self.settings}
        cost = lm.cost(item.cloze, methods=[self.method], **options, timed=False)
        cheaper = "; the method orders takes 3 per item"
        note = "" if self.method == METHOD_WITHOUT_TABLES else cheaper
        return Announcement(self.method, item.cloze, cost, note=note, is_brief=True)
