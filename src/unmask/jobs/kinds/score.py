"""`score`: a number for every text, word, or pair of texts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.jobs.kinds import Counts, InputColumns, Kind, Reason, Row, Rows, Work, add
from unmask.language_model import LanguageModel
from unmask.names import DRAWS, ORDERS_OF_PATHS
from unmask.sequences import scoring
from unmask.sequences.outputs import BITS, PAIR_COLUMNS, TEXT_COLUMNS, WORD_COLUMNS, result_rows
from unmask.sequences.texts import TokenisedText, in_context, tokenised_or_reasons


@dataclass(frozen=True, kw_only=True)
class ScoreKind(Kind):
    """Texts of one column, or with two columns pairs of texts, by one or more methods.

    `given` are the columns of what stands before each text, and after it. `order` is that of
    `unmasking`, `orders` those of `hcb-path`, `draws` those of `elbo`. With `words` there is a row
    per word. `groups` are the columns that accuracies of pairs are by.
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

    name, must_answer = "score", True

    @property
    def is_pairs(self) -> bool:
        """True if two texts are compared."""
        return len(self.columns) == 2

    def __post_init__(self) -> None:
        """Declare the columns."""
        texts = (*self.columns, *self.given)
        groups = [name for name in self.groups if name not in texts]
        types = WORD_COLUMNS if self.words else PAIR_COLUMNS if self.is_pairs else TEXT_COLUMNS
        *numbers, reason = types
        order = ("order",) if self.order else ()
        if not self.is_pairs and "elbo" not in self.methods and "standard_error" in numbers:
            numbers.remove("standard_error")
        names = ("method", *order, *numbers, "unit", "model", reason)
        vars(self).update(
            input_columns=InputColumns(texts, groups, texts if self.without_text else ()),
            output_columns={self.prefix + name: types.get(name, "string") for name in names},
        )

    def shared(self, method: str | None) -> dict[str, Any]:
        """The model, the unit and the order; for pairs also zero orders and forward passes."""
        return {
            "model": self.model_name,
            "unit": "bits" if self.base_two else "nats",
            "order": self.order if method == "unmasking" else None,
            **({"orders": 0, "forward_passes": 0} if self.is_pairs else {}),
        }

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The tokens of each text, or of both, with what they are given around them."""
        # an empty cell: the row is kept, and its text has no score
        items: list[Any] = [[row.get(name) or "" for name in self.columns] for row in rows]
        if self.given:
            around = [(*(row.get(name) or "" for name in self.given), "")[:2] for row in rows]
            items = [
                in_context(texts, context, self.separator)
                for texts, context in zip(items, around, strict=True)
            ]
        read = iter(tokenised_or_reasons(lm, [text for texts in items for text in texts]))
        tokens = [tuple(next(read) for _ in self.columns) for _ in rows]
        reasons = (next((t for t in texts if isinstance(t, str)), None) for texts in tokens)
        return [texts if w is None else Reason(w) for texts, w in zip(tokens, reasons, strict=True)]

    def run(self, lm: LanguageModel, items: Sequence[tuple[TokenisedText, ...]]) -> list[Rows]:
        """One row per method and item, or word of it."""
        results, unit = [Rows() for _ in items], BITS if self.base_two else 1.0
        for method in self.methods:
            draws = self.orders if method == "hcb-path" else self.draws
            options: dict[str, Any] = {"method": method, "draws": draws, "seed": self.seed}
            options |= {"order": self.shared(method)["order"], "settings": self.settings}
            scores: Sequence[Any]
            if self.is_pairs:
                pairs = [(first, second) for first, second in items]
                scores = scoring.log_ratios(lm, pairs, **options)
            else:
                scores = scoring.score_texts(lm, [text for (text,) in items], **options)
            each = (result_rows(score, words=self.words, unit=unit) for score in scores)
            for rows, numbers in zip(results, each, strict=True):
                rows += [{**row, "method": method} for row in numbers]
        return results

    def work(self, lm: LanguageModel, item: tuple[TokenisedText, ...]) -> Work:
        """By most methods a forward pass per token."""
        lengths = [len(text.places) for text in item]
        special = {"hcb-path": self.orders * max(lengths), "elbo": self.draws * len(item)}
        passes = sum(special.get(method, sum(lengths)) for method in self.methods)
        return Work(passes, max(len(text.ids) for text in item), "hcb-path" in self.methods)

    def tally(self, row: Row, item: Any, answers: Sequence[Row]) -> Counts:
        """Texts with unknown words and special tokens, and the text of a pair that won."""
        texts = () if isinstance(item, Reason) else item
        counts: Counts = {
            name: int(any(getattr(text, name) for text in texts)) for name in ("unknown", "special")
        }
        # BLiMP writes one of its fields in two ways
        groups = [
            [name, str(row.get(name, "")).replace("syntax/semantics", "syntax_semantics")]
            for name in self.groups
        ]
        for answer in answers if self.is_pairs else ():
            verdict = json.dumps([answer["method"], groups, answer.get("correct")])
            add(counts, {"pairs": {verdict: {"count": 1, "passes": answer["forward_passes"]}}})
        return counts
