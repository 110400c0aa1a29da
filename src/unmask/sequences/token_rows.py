"""Rows of any text in, the log-probabilities of given tokens at given positions out."""

from collections.abc import Iterator
from contextlib import contextmanager

from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.settings import Settings

# ids of rows written out at a time, 8 bytes each: many batches on a CPU, sixteen on a GPU
TOKENS_PER_CHUNK = 2**20


@contextmanager
def token_reader(model: MaskedLM, settings: Settings, title: str) -> "Iterator[TokenReader]":
    """A reader whose rows are counted while it is used."""
    reader = TokenReader(model, settings)
    with reader.counted(title):
        yield reader


class TokenReader(RowReader):
    """Reads a model over its whole vocabulary; its bar is told of rows to come by `expect`."""

    @property
    def mask_id(self) -> int:
        """The id that stands for a blank."""
        return self.model.mask_id

    def expect(self, rows: int) -> None:
        """Say that so many more rows will be read."""
        if self._bar is not None:
            self._bar.total = (self._bar.total or 0) + rows
