"""`pairs`: two words in the two blanks of every item."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from unmask.constructions import METHOD_WITHOUT_TABLES
from unmask.jobs.kinds import InputColumns, Kind, Reason, Row, Work
from unmask.language_model import LanguageModel
from unmask.sequences import word_pairs
from unmask.sequences.word_pairs import WITHOUT_TABLES, PairScore, WordPair
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import AUTO

_COUNTS = ("pieces_1", "pieces_2", "unknown_tokens", "forward_passes")


@dataclass(frozen=True, kw_only=True)
class PairsKind(Kind):
    """Items of a text and two words, in three columns, by one or more constructions.

    `settings` say how the model is run; of these, half tables change numbers.
    """

    columns: tuple[str, str, str] = ("text", "word1", "word2")
    constructions: tuple[str, ...] = (METHOD_WITHOUT_TABLES,)
    support: str | Sketch = AUTO
    model_name: str = ""
    prefix: str = ""
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name, noun = "pairs", "item"

    @property
    def input_columns(self) -> InputColumns:
        """The columns of the text and the words."""
        return InputColumns(self.columns)

    @property
    def output_columns(self) -> dict[str, str]:
        """The columns that it adds: standard errors only where numbers are estimated."""
        of_tables = set(self.constructions) - set(WITHOUT_TABLES)
        others = {"method"}
        others |= {"pmi"} if set(self.constructions) == {METHOD_WITHOUT_TABLES} else set()
        others |= set() if METHOD_WITHOUT_TABLES in self.constructions else {"association"}
        *numbers, reason = (field.name for field in fields(PairScore) if field.name not in others)
        if not of_tables or self.support == "vocabulary":
            numbers = [name for name in numbers if not name.endswith("_error")]
        texts = ("method", "model", reason)
        types = {**dict.fromkeys(numbers, "double"), **dict.fromkeys(texts, "string")}
        counts = dict.fromkeys(_COUNTS, "int64")
        return {self.prefix + name: counts.get(name, kind) for name, kind in types.items()}

    def options(self) -> dict[str, Any]:
        """Everything that determines the rows."""
        return {**super().options(), "half_tables": self.settings.half_tables}

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The tokens of each item by every construction, or why it cannot be scored by it."""
        cells = [[row.get(name) for name in self.columns] for row in rows]
        read = [word_pairs.read_items(lm, cells, method=name) for name in self.constructions]
        return [
            item if any(isinstance(pair, WordPair) for pair in item) else Reason(item[0])
            for item in zip(*read, strict=True)
        ]

    def run(
        self, lm: LanguageModel, items: Sequence[tuple[WordPair | str, ...]]
    ) -> list[list[dict[str, Any]]]:
        """One row per item and construction."""
        columns = [
            self._scores(lm, name, [item[place] for item in items])
            for place, name in enumerate(self.constructions)
        ]
        return [list(rows) for rows in zip(*columns, strict=True)]

    def _scores(
        self, lm: LanguageModel, method: str, items: Sequence[WordPair | str]
    ) -> list[dict[str, Any]]:
        pairs = [item for item in items if isinstance(item, WordPair)]
        options: dict[str, Any] = {"method": method, "support": self.support}
        scores = iter(word_pairs.score_items(lm, pairs, **options, settings=self.settings))
        return [
            self._row(
                PairScore(method=method, reason=item) if isinstance(item, str) else next(scores)
            )
            for item in items
        ]

    def without(self, reason: str) -> list[dict[str, Any]]:
        """A row per construction with the reason."""
        return [self._row(PairScore(method=name, reason=reason)) for name in self.constructions]

    def _row(self, score: PairScore) -> dict[str, Any]:
        values = score.to_dict() | {"model": self.model_name}
        return {name: values[name.removeprefix(self.prefix)] for name in self.output_columns}

    @property
    def runs_alone(self) -> bool:
        """True if items by tables, which share no forward passes, are among them."""
        return not set(self.constructions) <= set(WITHOUT_TABLES)

    @property
    def title(self) -> str:
        """The constructions."""
        return ", ".join(self.constructions)

    def work(self, lm: LanguageModel, item: tuple[WordPair | str, ...]) -> Work | None:
        """The forward passes of a pair alone: nothing is ranked."""
        pair = next((pair for pair in item if isinstance(pair, WordPair)), None)
        if pair is None:
            return None
        options: dict[str, Any] = {"support": self.support, "settings": self.settings}
        cost = lm.cost(pair.cloze, methods=self.constructions, **options, timed=False)
        return Work(cost.forward_passes, len(pair.cloze), cost.at_most)
