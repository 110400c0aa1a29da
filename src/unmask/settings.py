"""How to run a model over many rows, as far as the caller has a say."""

from dataclasses import dataclass

from unmask.errors import UnmaskError
from unmask.masked_lm import MaskedLM
from unmask.numbers import whole_number
from unmask.printable import quoted
from unmask.progress import Shown
from unmask.storage import DEFAULT_MEMORY_LIMIT

# rows x tokens that one forward pass takes when the caller names no batch size
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 65_536}
# where logits of every position must be kept (no output embedding), cells of one batch
_CELLS_PER_BATCH = 2**26


@dataclass(frozen=True)
class Settings:
    """How to run a model over many rows.

    `batch_size` is a number of rows, or None for one that suits the device.
    `memory_limit` bounds what may be of size V x V, in bytes: tables that fit are kept dense,
    with room to work, larger ones factored. With `half_tables` the copies that solvers and metrics
    read are bfloat16: half the room, so that larger vocabularies are read as fast, and
    probabilities rounded by up to 0.4%. `progress` is a bar on stderr: shown on a terminal
    when None; or a function that is called with a `Progress` after every batch of rows and every
    pass of a solver, and may raise to end the work. `announce` says what a long run will cost,
    where a bar would be shown.
    """

    batch_size: int | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    half_tables: bool = False
    progress: Shown = None
    announce: bool = True

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be run."""
        size, limit = self.batch_size, self.memory_limit
        if size is not None and not 1 <= (whole_number(size) or 0) < 2**31:
            raise UnmaskError(f"batch_size is a number of rows from 1, or None, not {quoted(size)}")
        if whole_number(limit) is None or limit < 0:
            raise UnmaskError(f"memory_limit is a number of bytes from 0, not {quoted(limit)}")
        shown = self.progress
        if not (shown is None or isinstance(shown, bool) or callable(shown)):
            raise UnmaskError(f"progress is True, False, None or a function, not {quoted(shown)}")

    def rows_per_batch(self, model: MaskedLM, length: int) -> int:
        """The caller's batch size, or a fixed one that suits the device."""
        if self.batch_size is not None:
            return self.batch_size
        rows = _TOKENS_PER_BATCH.get(model.device.type, 16_384) // length
        if model.output_embedding is None:
            rows = min(rows, _CELLS_PER_BATCH // (length * model.vocabulary_size))
        return max(1, rows)
