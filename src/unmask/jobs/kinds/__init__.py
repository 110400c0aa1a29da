"""What a job does with its rows: one kind per file, and what all of them are."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from unmask.jobs.tally import Tally
from unmask.language_model import LanguageModel

Row = Mapping[str, Any]


class Reason(str):
    """Why a row has no answer."""

    __slots__ = ()


class Kind(Protocol):
    """Rows in, and for each the rows that come of it. A value: it is sent to workers.

    `name` is the command, `options` decide the numbers and are a part of the plan. `needs` are the
    columns of the input that it reads, `takes` those that it reads where there are some,
    `leaves_out` those that are not passed on, and `adds` its own, by the names that Arrow has for
    their types. `file_column` is a column that the name of a row's file is put into, if any.
    """

    @property
    def name(self) -> str: ...
    @property
    def needs(self) -> Sequence[str]: ...
    @property
    def takes(self) -> Sequence[str]: ...
    @property
    def leaves_out(self) -> Sequence[str]: ...
    @property
    def adds(self) -> Mapping[str, str]: ...
    @property
    def file_column(self) -> str | None: ...
    def options(self) -> dict[str, Any]:
        """JSON values."""

    def read(self, lm: LanguageModel, rows: Sequence[Row]) -> list[Any]:
        """What the model is run on for each row, or a `Reason`; the model itself does not run."""

    def run(self, lm: LanguageModel, items: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """The result rows of each item, with the columns that it adds."""

    def without(self, reason: str) -> list[dict[str, Any]]:
        """The result rows of a row that has no answer."""

    def none_of(self, tally: Tally) -> str:
        """What is said where there is not one number."""

    def tally(self, rows: Sequence[Row], found: Sequence[Sequence[Row]]) -> Tally:
        """What is told of all rows together."""
