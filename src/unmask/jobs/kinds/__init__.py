"""Row processors: one module per kind of job, their base class, and counters of rows.

Counters are JSON values, which are added over units. `texts` is how many rows came in, `unknown`
how many of them have words that the vocabulary has no token for, `failed` how many ended in an
unexpected error. `without` has, by method, how many have no number, and an example of why; `pairs`
has who won, by method and group, as the kind wrote it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import UnmaskError

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.settings import Settings

Row = Mapping[str, Any]
Counts = dict[str, Any]


class Reason(str):
    """The reason why a row has no answer."""

    __slots__ = ()


class FailedRows(list[dict[str, Any]]):
    """The result rows of an item that ended in an unexpected error.

    Its unit is computed again at the next start: the error may be that of a machine.
    """


class Work(NamedTuple):
    """The work of a row: forward passes of so many tokens each; `at_most`, if it may be fewer."""

    passes: int
    tokens: int
    at_most: bool = False


class InputColumns(NamedTuple):
    """The columns that rows must have or may have, and those that are not passed on."""

    required: Sequence[str] = ("text",)
    optional: Sequence[str] = ()
    dropped: Sequence[str] = ()


class Kind:
    """Maps each input row to result rows. A dataclass of plain values: it is sent to workers.

    A kind defines `output_columns`, `run`, and `read` or `item`; the rest has defaults. `name` is
    the command, `noun` what a row is, `verb` what is done with it. Of the input it reads the
    `input_columns`. Its own `output_columns` have the names of their Arrow types, or `json` for any
    value; their names begin with `prefix`. An output in which none of the `methods` has a number is
    not left behind. Rows take some `row_seconds` of this processor beside the model; where they do
    not share batches, `runs_alone`, a few of them are timed for an estimate.
    """

    name, noun, verb = "", "text", "scored"
    row_seconds = 2e-4
    # how the model is run
    settings: "Settings"
    methods: Sequence[str] = ()
    model_name: str = ""
    prefix: str = ""

    @property
    def input_columns(self) -> InputColumns:
        """The columns that it reads; all others are passed on."""
        return InputColumns()

    @property
    def output_columns(self) -> Mapping[str, str]:
        """The columns that it adds, and their types."""
        raise NotImplementedError

    @property
    def runs_alone(self) -> bool:
        """True where its rows share no batches."""
        return False

    @property
    def title(self) -> str:
        """Its name in an estimate."""
        return self.name

    def options(self) -> dict[str, Any]:
        """All values that decide its rows, as JSON: a part of the plan."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        values.pop("settings", None)
        return values

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

    def run(self, lm: "LanguageModel", items: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """The result rows of each item, with the columns that it adds."""
        raise NotImplementedError

    def without(self, reason: str) -> list[dict[str, Any]]:
        """The result rows of a row that has no answer."""
        values = {f"{self.prefix}model": self.model_name, f"{self.prefix}reason": str(reason)}
        return [{name: values.get(name) for name in self.output_columns}]

    def count(self, rows: Sequence[Row], results: Sequence[Sequence[Row]]) -> Counts:
        """Counters of all rows together."""
        counts, reason = counted(len(rows)), f"{self.prefix}reason"
        for row in (row for answers in results for row in answers if row.get(reason)):
            # by method, since a text has a row for each
            note(counts, row.get(f"{self.prefix}method") or self.name, [row[reason]])
        return counts

    def all_failed_message(self, counts: Counts) -> str:
        """The error if no row has a number."""
        example = next((failed["example"] for failed in counts["without"].values()), "")
        return f"none of the {counts['texts']:,} {self.noun}s can be {self.verb}, e.g.: {example}"


# --- counters ------------------------------------------------------------------------------------


def counted(texts: int = 0) -> Counts:
    """Counters of so many rows, all of which have an answer."""
    return {"texts": texts, "unknown": 0, "special": 0, "failed": 0, "without": {}, "pairs": {}}


def add(total: Counts, more: Mapping[str, Any]) -> None:
    """Add counters to others; of texts the first stays."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add(total.setdefault(name, {}), value)
        elif isinstance(value, str):
            total.setdefault(name, value)
        else:
            total[name] = total.get(name, 0) + value


def note(counts: Counts, method: str, reasons: Iterable[str]) -> None:
    """Count rows that have no number by a method."""
    for reason in reasons:
        add(counts["without"], {method: {"count": 1, "example": reason}})


def worst(counts: Counts) -> tuple[int, str]:
    """The number of rows that the worst method has no number for, and an example of why."""
    each = [(failed["count"], failed["example"]) for failed in counts["without"].values()]
    return max(each, default=(0, ""))


def has_none(counts: Counts, methods: Iterable[str]) -> bool:
    """True if there is not one number by any of some methods."""
    without = [counts["without"].get(method, {"count": 0})["count"] for method in methods]
    return bool(without) and all(count == counts["texts"] for count in without)
