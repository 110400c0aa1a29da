"""`consistency`: how far a model contradicts itself on every text, by blanks and by orders."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.jobs.kinds import InputColumns, Kind, Reason, Row, Rows, Work
from unmask.language_model import LanguageModel
from unmask.sequences.consistency.measuring import (
    ADJACENT,
    COLUMNS,
    TOKENS,
    ConsistencyOptions,
    ContrastedText,
    masked_pair,
    measured,
    read_texts,
)


@dataclass(frozen=True, kw_only=True)
class ConsistencyKind(ConsistencyOptions, Kind):
    """Texts of the column `text`, a row per pair of blanks and per order of unmasking.

    `corpus` is what the texts are called in the card, and `limit` how many of them were asked for.
    """

    model_name: str = ""
    corpus: str = ""
    limit: int | None = None
    without_text: bool = False

    name, verb = "consistency", "measured"
    row_seconds, runs_alone = 0.2, True

    def __post_init__(self) -> None:
        """Reject what cannot be measured, and declare the columns."""
        super().__post_init__()
        types = {**COLUMNS, "model": "string", "reason": "string"}
        # the other text is that of a minimal pair
        texts, left_out = ("text", "contrast"), TOKENS if self.without_text else ()
        vars(self).update(
            input_columns=InputColumns(texts[:1], texts[1:], texts if self.without_text else ()),
            output_columns={name: types[name] for name in types if name not in left_out},
        )

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The tokens of each text, and of its contrast."""
        items = read_texts(lm, [(row.get("text"), row.get("contrast")) for row in rows])
        return [Reason(item) if isinstance(item, str) else item for item in items]

    def run(self, lm: LanguageModel, items: Sequence[ContrastedText]) -> list[Rows]:
        """A row per pair of blanks and per order of unmasking."""
        return [measured(lm, item, self, self.settings) for item in items]

    def work(self, lm: LanguageModel, item: ContrastedText) -> Work:
        """The forward passes of two pairs of blanks, and of the orders."""
        cloze = masked_pair(lm, item.text, ADJACENT, self.seed)
        support: Any = self.sketch(lm) or "vocabulary"
        pair = lm.cost(cloze, methods=["log-pool"], support=support, timed=False)
        texts = 1 if item.contrast is None else 2
        orders = texts * len(item.text.places) * self.orders
        return Work(2 * pair.forward_passes + orders, len(cloze), at_most=True)
