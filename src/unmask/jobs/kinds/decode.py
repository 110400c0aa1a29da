"""`decode`: one fill of every text, its blanks filled step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.jobs.kinds import InputColumns, Kind, Row, Rows, Work
from unmask.language_model import LanguageModel
from unmask.text.cloze import Cloze
from unmask.text.pieces import one_blank_for_each
from unmask.text.typed import field_value

_OPTIONS = ("rule", "threshold", "passes", "draw", "seed", "support", "settings")
# a text of several blanks has lists of tokens
_COLUMNS = {
    "log_prob": "double",
    **dict.fromkeys(("token", "token_str"), "json"),
    **dict.fromkeys(("sequence", "rule"), "string"),
    "threshold": "double",
    "groups": "json",
    "forward_passes": "int64",
    "reason": "string",
}


@dataclass(frozen=True, kw_only=True)
class DecodeKind(Kind):
    """Texts with blanks, and the options of `LanguageModel.decode`."""

    blanks: Any = None
    rule: str | None = None
    threshold: float | None = None
    passes: float | None = None
    draw: bool = False
    seed: int = 0
    support: Any = "auto"

    name, verb = "decode", "filled"
    input_columns = InputColumns(optional=("blanks",), dropped=("blanks",))
    output_columns = _COLUMNS

    def item(self, lm: LanguageModel, row: Row) -> Cloze:
        """The cloze of a row, one blank per word."""
        blanks = row.get("blanks") or None
        places: Any = self.blanks if blanks is None else field_value("blanks", blanks)
        return one_blank_for_each(lm.cloze(row["text"] or "", blanks=places))[0]

    def work(self, lm: LanguageModel, item: Cloze) -> Work | None:
        """At most one forward pass per blank; where dependence is measured, it is not estimated."""
        if self.rule == "mutual-information":
            return None
        return Work(len(item.positions), len(item), at_most=True)

    def run(self, lm: LanguageModel, items: Sequence[Cloze]) -> list[Rows]:
        """One row per text."""
        options: dict[str, Any] = {name: getattr(self, name) for name in _OPTIONS}
        return [[fill] for fill in lm.decode(items, **options)]
