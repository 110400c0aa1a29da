"""`pairs`: two words in the two blanks of every item."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from unmask.constructions import METHOD_WITHOUT_TABLES
from unmask.jobs.kinds import InputColumns, Kind, Reason, Row, Rows, Work
from unmask.language_model import LanguageModel
from unmask.sequences import word_pairs
from unmask.sequences.word_pairs import WITHOUT_TABLES, PairScore, WordPair
from unmask.settings import Sketch
from unmask.tables.proposals import AUTO

_COUNTS = ("pieces_1", "pieces_2", "unknown_tokens", "forward_passes")


@dataclass(frozen=True, kw_only=True)
class PairsKind(Kind):
    """Items of a text and two words, in three columns, by one or more constructions."""

    columns: tuple[str, str, str] = ("text", "word1", "word2")
    methods: tuple[str, ...] = (METHOD_WITHOUT_TABLES,)
    support: str | Sketch = AUTO
    model_name: str = ""
    prefix: str = ""

    name, noun = "pairs", "item"

    def __post_init__(self) -> None:
        """Declare the columns: standard errors only where numbers are estimated."""
        of_tables = set(self.methods) - set(WITHOUT_TABLES)
        others = {"method"}
        others |= {"pmi"} if set(self.methods) == {METHOD_WITHOUT_TABLES} else set()
        others |= set() if METHOD_WITHOUT_TABLES in self.methods else {"association"}
        *numbers, reason = (field.name for field in fields(PairScore) if field.name not in others)
        if not of_tables or self.support == "vocabulary":
            numbers = [name for name in numbers if not name.endswith("_error")]
        texts = ("method", "model", reason)
        types = {**dict.fromkeys(numbers, "double"), **dict.fromkeys(texts, "string")}
        types |= dict.fromkeys(types.keys() & {*_COUNTS}, "int64")
        vars(self).update(
            input_columns=InputColumns(self.columns),
            output_columns={self.prefix + name: type_name for name, type_name in types.items()},
            # items by tables share no forward passes
            runs_alone=bool(of_tables),
        )

    def shared(self, method: str | None) -> dict[str, Any]:
        """The model, and zero forward passes, which items without numbers keep."""
        return {"model": self.model_name, "forward_passes": 0}

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The tokens of each item by every construction, or why it cannot be scored by it."""
        cells = [[row.get(name) for name in self.columns] for row in rows]
        read = [word_pairs.read_items(lm, cells, method=name) for name in self.methods]
        return [
            item if any(isinstance(pair, WordPair) for pair in item) else Reason(item[0])
            for item in zip(*read, strict=True)
        ]

    def run(self, lm: LanguageModel, items: Sequence[tuple[WordPair | str, ...]]) -> list[Rows]:
        """One row per item and construction."""
        results = [Rows() for _ in items]
        for place, method in enumerate(self.methods):
            each = [item[place] for item in items]
            pairs = [pair for pair in each if isinstance(pair, WordPair)]
            options: dict[str, Any] = {"support": self.support, "settings": self.settings}
            scores = iter(word_pairs.score_items(lm, pairs, method=method, **options))
            for rows, pair in zip(results, each, strict=True):
                is_read = isinstance(pair, WordPair)
                score = next(scores) if is_read else PairScore(method=method, reason=str(pair))
                rows.append(score.to_dict())
        return results

    def work(self, lm: LanguageModel, item: tuple[WordPair | str, ...]) -> Work | None:
        """The forward passes of a pair alone: nothing is ranked."""
        pair = next((pair for pair in item if isinstance(pair, WordPair)), None)
        if pair is None:
            return None
        options: dict[str, Any] = {"support": self.support, "settings": self.settings}
        cost = lm.cost(pair.cloze, methods=self.methods, **options, timed=False)
        return Work(cost.forward_passes, len(pair.cloze), cost.at_most)
