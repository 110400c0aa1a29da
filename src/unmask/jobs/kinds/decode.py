"""`decode`: one fill of every text, its blanks filled step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.kinds import InputColumns, Kind, Work
from unmask.jobs.kinds.fill import read_text
from unmask.language_model import LanguageModel
from unmask.settings import Settings
from unmask.text.cloze import Cloze
from unmask.text.pieces import one_blank_for_each
from unmask.text.typed import field_value

_OPTIONS = ("rule", "threshold", "passes", "draw", "seed", "support")

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DecodeKind(Kind):
    """Texts with blanks, and the options of `LanguageModel.decode`.

    `settings` say how the model is run, and change no number.
    """

    blanks: Any = None
    rule: str | None = None
    threshold: float | None = None
    passes: float | None = None
    draw: bool = False
    seed: int = 0
    support: Any = "auto"
    settings: Settings = field(default_factory=lambda: Settings(progress=False), compare=False)

    name, verb = "decode", "filled"
    input_columns = InputColumns(optional=("blanks",), dropped=("blanks",))

    @property
    def output_columns(self) -> dict[str, str]:
        """The columns that it adds; a text of several blanks has lists of tokens."""
        return {
            "log_prob": "double",
            **dict.fromkeys(("token", "token_str"), "json"),
            **dict.fromkeys(("sequence", "rule"), "string"),
            "threshold": "double",
            "groups": "json",
            "forward_passes": "int64",
            "reason": "string",
        }

    def item(self, lm: LanguageModel, row: Mapping[str, Any]) -> Cloze:
        """The cloze of a row, one blank per word."""
        blanks = row.get("blanks") or None
        places = self.blanks if blanks is None else field_value("blanks", blanks)
        return one_blank_for_each(read_text(lm, row.get("text"), places))[0]

    def work(self, lm: LanguageModel, item: Cloze) -> Work | None:
        """At most one forward pass per blank; where dependence is measured, it is not estimated."""
        if self.rule == "mutual-information":
            return None
        return Work(len(item.positions), len(item), at_most=True)

    def run(self, lm: LanguageModel, items: Sequence[Cloze]) -> list[list[Row]]:
        """One row per text; where a batch fails, its texts are filled one by one."""
        try:
            return [
                [{name: fill.get(name) for name in self.output_columns}]
                for fill in self.fills(lm, items)
            ]
        except UnmaskError as error:
            if len(items) == 1:
                return [self.without(str(error))]
            return [rows for item in items for rows in self.run(lm, [item])]

    def fills(self, lm: LanguageModel, clozes: Sequence[Cloze]) -> list[Row]:
        """The fill of each text."""
        how: dict[str, Any] = {name: getattr(self, name) for name in _OPTIONS}
        return lm.decode(clozes, settings=self.settings, **how)
