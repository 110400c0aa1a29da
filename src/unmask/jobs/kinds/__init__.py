"""What a job does with its rows: one kind per file, and what all of them are."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.jobs.tally import Tally

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.queries.cost import Cost
    from unmask.settings import Settings
    from unmask.text.cloze import Cloze

Row = Mapping[str, Any]


class Reason(str):
    """Why a row has no answer."""

    __slots__ = ()


class FailedRows(list[dict[str, Any]]):
    """The result rows of an item that ended in an unexpected error.

    Its unit is computed again at the next start: the error may be that of a machine.
    """


class Announcement(NamedTuple):
    """Cost of a row like the first, in forward passes of rows like the `cloze`.

    `note` names a cheaper way. One that `is_brief` is shown as a number of forward passes alone.
    """

    name: str
    cloze: "Cloze"
    cost: "Cost"
    note: str = ""
    is_brief: bool = False


class Kind:
    """Maps each input row to result rows. A dataclass of plain values: it is sent to workers.

    A kind defines its columns, `read` and `run`; the rest has defaults. `name` is the
    command, `noun` what a row is, `verb` what is done with it. Of the input it reads the
    `required_columns` and, if present, the `optional_columns`; it passes on all columns except the
    `dropped_columns`. `output_columns` are its own, with the names of their Arrow types; their
    names begin with `prefix`.
    An output in which none of the `methods` has a number is not left behind.
    """

    name = ""
    noun = "text"
    verb = "scored"
    # how the model is run
    settings: "Settings"

    @property
    def required_columns(self) -> Sequence[str]:
        """The columns that a row must have."""
        return ("text",)

    @property
    def optional_columns(self) -> Sequence[str]:
        """The columns that a row may have."""
        return ()

    @property
    def dropped_columns(self) -> Sequence[str]:
        """The columns that are not passed on."""
        return ()

    @property
    def output_columns(self) -> Mapping[str, str]:
        """The columns that it adds, and their types."""
        raise NotImplementedError

    @property
    def methods(self) -> Sequence[str]:
        """The methods, at least one of which must have a number."""
        return ()

    @property
    def prefix(self) -> str:
        """What the names of its columns begin with."""
        return ""

    @property
    def model_name(self) -> str:
        """The name of the model in its rows."""
        return ""

    def options(self) -> dict[str, Any]:
        """What decides its rows, as JSON values: a part of the plan."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        values.pop("settings", None)
        return values

    def read(self, lm: "LanguageModel", rows: Sequence[Row]) -> list[Any]:
        """What the model is run on for each row, or a `Reason`; the model itself does not run."""
        raise NotImplementedError

    def run(self, lm: "LanguageModel", items: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """The result rows of each item, with the columns that it adds."""
        raise NotImplementedError

    def without(self, reason: str) -> list[dict[str, Any]]:
        """The result rows of a row that has no answer."""
        values = {f"{self.prefix}model": self.model_name, f"{self.prefix}reason": str(reason)}
        return [{name: values.get(name) for name in self.output_columns}]

    def tally(self, rows: Sequence[Row], results: Sequence[Sequence[Row]]) -> Tally:
        """Counters of all rows together."""
        tally, reason = Tally(len(rows)), f"{self.prefix}reason"
        for row in (row for some in results for row in some if row[reason]):
            # by method, since a text has a row for each
            tally.note(row.get(f"{self.prefix}method") or self.name, [row[reason]])
        return tally

    def all_failed_message(self, tally: Tally) -> str:
        """The error if no row has a number."""
        example = next((why for _, why in tally.without.values()), "")
        return f"none of the {tally.texts:,} {self.noun}s can be {self.verb}, e.g.: {example}"

    def announcement(self, lm: "LanguageModel", items: Sequence[Any]) -> Announcement | None:
        """The cost of an item like the first one; None if it is not estimated."""
        return None
