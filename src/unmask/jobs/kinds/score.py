"""`score`: a number for every text, word, or pair of texts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.jobs.kinds import Counts, InputColumns, Kind, Reason, Row, Work, add, counted, note
from unmask.language_model import LanguageModel
from unmask.names import DRAWS, ORDERS_OF_PATHS
from unmask.printable import quoted
from unmask.sequences import scoring
from unmask.sequences.outputs import BITS, PAIR_COLUMNS, TEXT_COLUMNS, WORD_COLUMNS, result_rows
from unmask.sequences.scores import LogRatio, TextScore
from unmask.sequences.texts import TokenisedText, in_context, tokenised_or_reasons
from unmask.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ScoreKind(Kind):
    """Texts of one column, or with two columns pairs of texts, by one or more methods.

    `given` are the columns of what stands before each text, and after it. `order` is that of
    `unmasking`, `orders` those of `hcb-path`, `draws` those of `elbo`. With `words` there is a row
    per word. `groups` are the columns that accuracies of pairs are by. `settings` say how the model
    is run, and change no number.
    """

    columns: tuple[str, ...] = ("text",)
    given: tuple[str, ...] = ()
    separator: str = ""
    methods: tuple[str, ...] = ("pll",)
    model_name: str = ""
    order: str | None = None
    orders: int = ORDERS_OF_PATHS
    draws: int = DRAWS
    seed: int = 0
    words: bool = False
    base_two: bool = False
    without_text: bool = False
    prefix: str = ""
    groups: tuple[str, ...] = ()
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name = "score"

    @property
    def is_pairs(self) -> bool:
        """True if two texts are compared."""
        return len(self.columns) == 2

    @property
    def unit(self) -> str:
        """Unit of the scores: nats or bits."""
        return "bits" if self.base_two else "nats"

    @property
    def input_columns(self) -> InputColumns:
        """The texts with what they are given, and what pairs are grouped by."""
        texts = (*self.columns, *self.given)
        groups = [name for name in self.groups if name not in texts]
        return InputColumns(texts, groups, texts if self.without_text else ())

    @property
    def output_columns(self) -> dict[str, str]:
        """The columns that it adds."""
        types = WORD_COLUMNS if self.words else PAIR_COLUMNS if self.is_pairs else TEXT_COLUMNS
        *numbers, reason = types
        order = ("order",) if self.order else ()
        if not self.is_pairs and "elbo" not in self.methods and "standard_error" in numbers:
            numbers.remove("standard_error")
        names = ("method", *order, *numbers, "unit", "model", reason)
        return {self.prefix + name: types.get(name, "string") for name in names}

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The tokens of each text, or of both."""
        items: list[Any] = [self._texts(row) for row in rows]
        good = [texts for texts in items if not isinstance(texts, Reason)]
        read = iter(tokenised_or_reasons(lm, [text for texts in good for text in texts]))
        for number, texts in enumerate(items):
            if not isinstance(texts, Reason):
                tokens = [next(read) for _ in texts]
                why = next((text for text in tokens if isinstance(text, str)), None)
                items[number] = tuple(tokens) if why is None else Reason(why)
        return items

    def _texts(self, row: Row) -> "Sequence[str] | Reason":
        """The texts of a row, with what they are given around them."""
        for name in (*self.columns, *self.given):
            value = row.get(name)
            if not (value is None or isinstance(value, str)):
                return Reason(
                    f"the row has {quoted(value)} ({type(value).__name__}) under {quoted(name)}, "
                    "where a text should be; name a column that holds strings"
                )
        # an empty cell: the row is kept, and its text has no score
        texts, context = ([row.get(n) or "" for n in ns] for ns in (self.columns, self.given))
        if not context:
            return texts
        prefix, suffix = (*context, "")[:2]
        return in_context(texts, (prefix, suffix), self.separator)

    def run(
        self, lm: LanguageModel, items: Sequence[tuple[TokenisedText, ...]]
    ) -> list[list[dict[str, Any]]]:
        """One row per method and item, or word of it."""
        unit, results = BITS if self.base_two else 1.0, [list[dict[str, Any]]() for _ in items]
        for method in self.methods:
            for rows, score in zip(results, self._scores(lm, items, method), strict=True):
                numbers = result_rows(score, words=self.words, unit=unit)
                rows += [self._row(method, row) for row in numbers]
        return results

    def _scores(
        self, lm: LanguageModel, items: Sequence[tuple[TokenisedText, ...]], method: str
    ) -> Sequence[TextScore | LogRatio]:
        options: dict[str, Any] = {
            "method": method,
            "draws": self.orders if method == "hcb-path" else self.draws,
            "seed": self.seed,
            "settings": self.settings,
        }
        if method == "unmasking":
            options["order"] = self.order
        if not self.is_pairs:
            return scoring.score_texts(lm, [text for (text,) in items], **options)
        pairs = [(first, second) for first, second in items]
        return scoring.log_ratios(lm, pairs, **options)

    def without(self, reason: str) -> list[dict[str, Any]]:
        """A row per method with the reason; without texts, without what it quotes of them."""
        if self.without_text:
            reason = reason.partition(": ")[0]
        # nothing was run to compare
        counts = {"orders": 0, "forward_passes": 0} if self.is_pairs else {}
        return [self._row(method, {**counts, "reason": reason}) for method in self.methods]

    def _row(self, method: str, numbers: Row) -> dict[str, Any]:
        order = self.order if method == "unmasking" else None
        columns = {"method": method, "order": order, "unit": self.unit, "model": self.model_name}
        values = {**numbers, **columns}
        return {name: values.get(name.removeprefix(self.prefix)) for name in self.output_columns}

    @property
    def title(self) -> str:
        """The methods."""
        return ", ".join(self.methods)

    def work(self, lm: LanguageModel, item: tuple[TokenisedText, ...]) -> Work:
        """By most methods a forward pass per token."""
        passes = sum(len(text.places) for text in item)
        by_path = self.orders * max(len(text.places) for text in item)
        special = {"hcb-path": by_path, "elbo": self.draws * len(item)}
        each = [special.get(method, passes) for method in self.methods]
        tokens = max(len(text.ids) for text in item)
        return Work(sum(each), tokens, "hcb-path" in self.methods)

    def all_failed_message(self, counts: Counts) -> str:
        """The error if no text has a score."""
        what = f"texts ({counts['texts']}) can be scored"
        if self.is_pairs:
            what = f"pairs ({counts['texts']}) can be compared by {', '.join(self.methods)}"
        return f"none of the {what}: {counts['without'][self.methods[0]]['example']}"

    def count(self, rows: Sequence[Row], results: Sequence[Sequence[Row]]) -> Counts:
        """The number of rows without a number, by method, and the text of each pair that won."""
        counts = counted(len(rows))
        for source, answers in zip(rows, results, strict=True):
            # BLiMP writes one of its fields in two ways
            groups = [
                [name, str(source.get(name, "")).replace("syntax/semantics", "syntax_semantics")]
                for name in self.groups
            ]
            for name in ("unknown", "special"):
                counts[name] += any(row.get(f"{self.prefix}{name}_tokens") for row in answers)
            for row in answers:
                method, reason = (row[self.prefix + name] for name in ("method", "reason"))
                # a word without a number is of a text that has others
                is_word = self.words and row[f"{self.prefix}word_number"] is not None
                note(counts, method, [reason] if reason and not is_word else [])
                if self.is_pairs:
                    verdict = json.dumps([method, groups, row[f"{self.prefix}correct"]])
                    passes = row[f"{self.prefix}forward_passes"]
                    add(counts["pairs"], {verdict: {"count": 1, "passes": passes}})
        return counts
