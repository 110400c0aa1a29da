"""What a job does with its rows: one kind per file, and what all of them are."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from unmask.jobs.tally import Tally

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel

Row = Mapping[str, Any]


class Reason(str):
    """Why a row has no answer."""

    __slots__ = ()


class FailedRows(list[dict[str, Any]]):
    """The result rows of an item that ended in an unexpected error.

    Its unit is computed again at the next start: the error may be that of a machine.
    """


class Kind(Protocol):
    """Rows in, and for each the rows that come of it. A value: it is sent to workers.

    `name` is the command, `options` decide the numbers and are a part of the plan. Of the input it
    reads the `required_columns` and, if present, the `optional_columns`; it passes on all columns
    but the `dropped_columns`. `output_columns` are its own, with the names of their Arrow types.
    `file_column` is a column that receives the name of a row's file, if any.
    """

    @property
    def name(self) -> str: ...
    @property
    def required_columns(self) -> Sequence[str]: ...
    @property
    def optional_columns(self) -> Sequence[str]: ...
    @property
    def dropped_columns(self) -> Sequence[str]: ...
    @property
    def output_columns(self) -> Mapping[str, str]: ...
    @property
    def file_column(self) -> str | None: ...
    def options(self) -> dict[str, Any]:
        """JSON values."""

    def read(self, lm: "LanguageModel", rows: Sequence[Row]) -> list[Any]:
        """What the model is run on for each row, or a `Reason`; the model itself does not run."""

    def run(self, lm: "LanguageModel", items: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """The result rows of each item, with the columns that it adds."""

    def without(self, reason: str) -> list[dict[str, Any]]:
        """The result rows of a row that has no answer."""

    def all_failed_message(self, tally: Tally) -> str:
        """What is said where there is not one number."""

    def tally(self, rows: Sequence[Row], found: Sequence[Sequence[Row]]) -> Tally:
        """What is told of all rows together."""
