"""How to run a model over many inputs, as far as the caller decides."""

from dataclasses import dataclass

from unmask.arguments import whole_number
from unmask.errors import UnmaskError
from unmask.printable import quoted
from unmask.progress import Shown

# what may be of size V x V, in bytes, when a caller says nothing
DEFAULT_MEMORY_LIMIT = 4 * 10**9


@dataclass(frozen=True)
class Settings:
    """How to run a model over many inputs.

    `batch_size` is a number of inputs per forward pass, or None for one that suits the device.
    `memory_limit` bounds what may be of size V x V, in bytes: tables that fit are kept dense,
    with room to work, larger ones factored. With `half_tables` the copies that solvers and metrics
    read are bfloat16: half the memory, so that larger vocabularies are read as fast, and
    probabilities rounded by up to 0.4%. `progress` is a bar on stderr: shown on a terminal
    when None; or a function that is called with a `Progress` after every batch and every sweep
    of a solver, and may raise to end the work. `announce` prints what a long run will cost, where
    a bar would be shown.
    """

    batch_size: int | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    half_tables: bool = False
    progress: Shown = None
    announce: bool = True

    def __post_init__(self) -> None:
        """Reject sizes that cannot be run."""
        size, limit = self.batch_size, self.memory_limit
        if size is not None and not 1 <= (whole_number(size) or 0) < 2**31:
            raise UnmaskError(
                f"a batch size is a number of rows from 1, or None, not {quoted(size)}"
            )
        if whole_number(limit) is None or limit < 0:
            raise UnmaskError(f"a memory limit is a number of bytes from 0, not {quoted(limit)}")
        shown = self.progress
        if not (shown is None or isinstance(shown, bool) or callable(shown)):
            raise UnmaskError(f"progress is True, False, None or a function, not {quoted(shown)}")
