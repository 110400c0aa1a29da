"""`consistency`: how far a model contradicts itself on every text, by blanks and by orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.jobs.kinds import InputColumns, Kind, Reason, Row, Work
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
from unmask.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ConsistencyKind(ConsistencyOptions, Kind):
    """Texts of the column `text`, a row per pair of blanks and per order of unmasking.

    `corpus` is what the texts are called in the card, and `limit` how many of them were asked for.
    `settings` say how the model is run, and change no number.
    """

    model_name: str = ""
    corpus: str = ""
    limit: int | None = None
    without_text: bool = False
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name, verb = "consistency", "measured"
    row_seconds, runs_alone = 0.2, True

    @property
    def input_columns(self) -> InputColumns:
        """The text, and the other one of a minimal pair."""
        columns = ("text", "contrast")
        return InputColumns(columns[:1], columns[1:], columns if self.without_text else ())

    @property
    def output_columns(self) -> Mapping[str, str]:
        """The columns that it adds."""
        left_out = TOKENS if self.without_text else ()
        types = {name: kind for name, kind in COLUMNS.items() if name not in left_out}
        return {**types, "model": "string", "reason": "string"}

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """The tokens of each text, and of its contrast."""
        items = read_texts(lm, [(row.get("text"), row.get("contrast")) for row in rows])
        return [Reason(item) if isinstance(item, str) else item for item in items]

    def run(self, lm: LanguageModel, items: Sequence[ContrastedText]) -> list[list[dict[str, Any]]]:
        """A row per pair of blanks and per order of unmasking."""
        rows = [measured(lm, item, self, self.settings) for item in items]
        names, model = self.output_columns, self.model_name
        return [[{n: (row | {"model": model}).get(n) for n in names} for row in r] for r in rows]

    def without(self, reason: str) -> list[dict[str, Any]]:
        """One row, with the reason; without texts, without what it quotes of them."""
        return super().without(reason.partition(": ")[0] if self.without_text else reason)

    def work(self, lm: LanguageModel, item: ContrastedText) -> Work:
        """The forward passes of two pairs of blanks, and of the orders."""
        cloze = masked_pair(lm, item.text, ADJACENT, self.seed)
        support: Any = self.sketch(lm) or "vocabulary"
        pair = lm.cost(cloze, methods=["log-pool"], support=support, timed=False)
        texts = 1 if item.contrast is None else 2
        orders = texts * len(item.text.places) * self.orders
        return Work(2 * pair.forward_passes + orders, len(cloze), at_most=True)
