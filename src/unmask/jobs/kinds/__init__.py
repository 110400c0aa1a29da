"""Kinds of jobs: how rows become result rows, one module per command, and counters of rows.

Counters are JSON values, which are added over units. `texts` is how many rows came in, `unknown`
how many of them have words that the vocabulary has no token for, `special` how many have special
tokens written in them, `failed` how many ended in an unexpected error. `answers` counts answers,
one per row and method; `without` has, by method, how many rows have none, and an example of why.
`pairs` has who won, by method and group, as the kind wrote it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import UnmaskError
from unmask.settings import Settings

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
Counts = dict[str, Any]

# a bar and an announcement per unit would be thousands
QUIET = Settings(progress=False, announce=False)


class Reason(str):
    """The reason why a row has no answer."""

    __slots__ = ()


class Work(NamedTuple):
    """The work of a row: forward passes of so many tokens each; `at_most`, if it may be fewer."""

    passes: int
    tokens: int
    at_most: bool = False


class InputColumns(NamedTuple):
    """The columns of texts that rows must have, those they may have, and those not passed on."""

    required: Sequence[str] = ("text",)
    optional: Sequence[str] = ()
    dropped: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class KindOptions:
    """The options of every kind: how the model is run; half tables alone change numbers."""

    settings: Settings = field(default=QUIET, compare=False)


class Kind(KindOptions):
    """Maps each input row to result rows: a dataclass whose fields are options.

    A kind declares `output_columns`, with the names of their Arrow types, or `json` for any value,
    and defines `run`, and `read` or `item`; the rest has defaults. `name` is the command, `noun`
    what a row is, `verb` what is done with it. Of the input it reads the `input_columns`; columns
    that depend on its options are computed when it is made. Result
    rows are without `prefix`, and lack columns that are `shared` or have no value. `methods` are
    those that each row is answered by, if there are several ways. An output without one answer is
    not left behind where the kind `must_answer`. Rows take some `row_seconds` of this processor
    beside the model; where they do not share batches, `runs_alone`, a few are timed for an
    estimate. After an error that is not `final` a row is run again at the next start.
    """

    name, noun, verb, must_answer = "", "text", "scored", False
    final: tuple[type[Exception], ...] = (UnmaskError,)
    row_seconds = 2e-4
    runs_alone: bool = False
    methods: Sequence[str] = ()
    model_name: str = ""
    prefix: str = ""
    without_text: bool = False
    input_columns: InputColumns = InputColumns()
    output_columns: Mapping[str, str]

    def options(self) -> dict[str, Any]:
        """All values that decide its rows, as JSON: a part of the plan."""
        values: dict[str, Any] = asdict(self)
        del values["settings"]
        if self.settings.half_tables:
            values["half_tables"] = True
        plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return plain

    def shared(self, method: str | None) -> dict[str, Any]:
        """The columns that all rows of a method begin with."""
        return {"model": self.model_name}

    def read(self, lm: "LanguageModel", rows: Sequence[Row]) -> list[Any]:
        """The item that the model is run on for each row, or a `Reason`; it does not run."""
        items = list[Any]()
        for row in rows:
            try:
                items.append(self.item(lm, row))
            except UnmaskError as error:
                items.append(Reason(error))
        return items

    def item(self, lm: "LanguageModel", row: Row) -> Any:
        """The item that the model is run on for a row that is read on its own."""
        raise NotImplementedError

    def work(self, lm: "LanguageModel", item: Any) -> Work | None:
        """The forward passes of an item; None if they are not estimated."""
        return None

    def run(self, lm: "LanguageModel", items: Sequence[Any]) -> list[Rows]:
        """The result rows of each item."""
        raise NotImplementedError

    def without(self, reason: str, item: Any = None) -> Rows:
        """The result rows of a row that has no answer; its item, if it could be read."""
        # without texts, also without what a reason quotes of them
        why = reason.partition(": ")[0] if self.without_text else reason
        return [{"method": method, "reason": why} for method in self.methods or (None,)]

    def tally(self, row: Row, item: Any, answers: Sequence[Row]) -> Counts:
        """Counters of a row, beyond those of all kinds."""
        return {}


# --- counters ------------------------------------------------------------------------------------


def counted(texts: int = 0) -> Counts:
    """Counters of so many rows."""
    numbers = dict.fromkeys(("unknown", "special", "failed", "answers"), 0)
    return {"texts": texts, **numbers, "without": {}, "pairs": {}}


def add(total: Counts, more: Mapping[str, Any]) -> None:
    """Add counters to others; of texts the first stays."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add(total.setdefault(name, {}), value)
        elif isinstance(value, str):
            total.setdefault(name, value)
        else:
            total[name] = total.get(name, 0) + value


def worst(counts: Counts) -> tuple[int, str]:
    """The number of rows that the worst method has no answer for, and an example of why."""
    each = [(failed["count"], failed["example"]) for failed in counts["without"].values()]
    return max(each, default=(0, ""))
