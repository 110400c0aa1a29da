"""`dependence`: how strongly every two places of every text depend on each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.kinds import Kind, Row, Rows, Work
from unmask.language_model import LanguageModel
from unmask.queries.decode.head import required
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.mapping import check_memory, dependence_maps
from unmask.queries.dependence.question import (
    DEFAULT_MEASURE,
    DEFAULT_SAMPLES,
    MapOptions,
    MapQuestion,
    check_support,
    read_question,
)
from unmask.text.support import Support


@dataclass(frozen=True, kw_only=True)
class DependenceKind(Kind):
    """Texts of the column `text`, one row per pair of their places."""

    measure: str = DEFAULT_MEASURE
    samples: int = DEFAULT_SAMPLES
    window: int | None = None
    seed: int = 0
    support: str | tuple[str, ...] = "vocabulary"
    corrected: bool = False
    tree: bool = False
    places: tuple[Any, ...] | None = None
    model_name: str = ""

    name, verb = "dependence", "mapped"

    def __post_init__(self) -> None:
        """Reject options that no support allows, as far as is known, and declare the columns."""
        MapOptions(self.measure, Support.of(["a", "b"]), self.samples, self.window, self.seed)
        check_support(self.measure, self.support)
        columns = {
            **dict.fromkeys(("first", "second"), "int64"),
            **dict.fromkeys(("first_name", "second_name"), "string"),
            "distance": "int64",
            **dict.fromkeys((self.measure.replace("-", "_"), "standard_error"), "double"),
            "unit": "string",
            **({"tree": "bool"} if self.tree else {}),
            **dict.fromkeys(("model", "reason"), "string"),
        }
        vars(self).update(output_columns=columns)

    def item(self, lm: LanguageModel, row: Row) -> MapQuestion:
        """A text with its places; one that cannot be mapped raises."""
        text = row["text"] or ""
        question = read_question(lm, text, places=self.places, support=self.support)
        options = self._options(lm)
        options.check(question)
        check_memory(question, options, self.settings)
        return question

    def _options(self, lm: LanguageModel) -> MapOptions:
        by_head = required(lm.head, lm.name).measure if self.measure == "head" else None
        sampling = self.samples, self.window, self.seed
        return MapOptions(self.measure, lm.support(self.support), *sampling, by_head, lm.name)

    def run(self, lm: LanguageModel, items: Sequence[MapQuestion]) -> list[Rows]:
        """One row per pair of places; of a text without a tree one, with the reason."""
        results = []
        for dependence_map in self.maps(lm, items):
            rows = Rows(dependence_map.to_rows())
            try:
                edges = set(dependence_map.tree()) if self.tree else set()
                rows = [{**row, "tree": (row["first"], row["second"]) in edges} for row in rows]
            except UnmaskError as error:
                rows = self.without(str(error))
            results.append(rows)
        return results

    def maps(self, lm: LanguageModel, items: Sequence[MapQuestion]) -> Iterator[DependenceMap]:
        """The map of every text, in their order."""
        maps = dependence_maps(lm.model, items, self._options(lm), self.settings)
        return (pairs.corrected() if self.corrected else pairs for pairs in maps)

    def work(self, lm: LanguageModel, item: MapQuestion) -> Work:
        """The forward passes of a map."""
        options = self._options(lm)
        passes, counted = options.forward_passes(item), options.is_counted(item)
        return Work(passes, len(item.ids), not counted)
