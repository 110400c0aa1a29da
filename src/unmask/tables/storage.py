"""How conditional tables are kept: as fast as memory allows, and with the reason said.

Kept dense, a table is read cell by cell; streamed, every pass computes its cells anew from readouts
and output embedding. Solvers read probabilities, of which they keep a copy if there is room.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unmask.printable import readable_bytes

# a core's products a second and bytes per second: rough, and only their ratio decides
_FLOP_A_SECOND, _BYTES_A_SECOND = 5e10, 1.5e10
# logits are float32, and there are two tables
_LOGITS = 8


@dataclass(frozen=True)
class Storage:
    """Whether tables are kept cell by cell, whether solvers have a copy of both, and why."""

    dense: bool
    copied: bool
    why: str
    half: bool = False

    @property
    def name(self) -> str:
        """In a word."""
        return "dense" if self.dense else "streamed"

    @property
    def copy_bytes(self) -> int:
        """Bytes a cell of the solvers' copy of both tables; zero without one."""
        return copy_bytes(half=self.half) if self.copied else 0


def copy_bytes(*, half: bool) -> int:
    """Bytes a cell of a copy of both tables: float32, or bfloat16."""
    return 4 if half else 8


def choose_storage(
    shape: Sequence[int], *, width: int | None, memory_limit: int, half: bool = False
) -> Storage:
    """How two tables of this shape are kept fastest within a limit.

    `width` is that of the model's readouts, None where it has none; `half` asks for copies in half
    precision.
    """
    cells, copy = math.prod(shape), copy_bytes(half=half)
    whole, limit = _LOGITS + copy, readable_bytes(memory_limit)
    copied = copy * cells <= memory_limit
    if width is None:
        return Storage(
            True,
            whole * cells <= memory_limit,
            "this model has no smaller readout that its logits could be computed from",
            half,
        )
    if 2 * width / _FLOP_A_SECOND <= _LOGITS / 2 / _BYTES_A_SECOND:
        said = f"a cell is computed from {width} numbers sooner than it is read"
        return Storage(False, copied, said, half)
    needed = readable_bytes(whole * cells)
    if whole * cells <= memory_limit:
        said = f"{whole} bytes per cell are {needed}, within the memory limit of {limit}"
        return Storage(True, True, said, half)
    said = f"dense they would take {needed}, above the memory limit of {limit}"
    if copied:
        kind = "bfloat16" if half else "float32"
        said += f"; the solvers' {kind} copy, {readable_bytes(copy * cells)}, fits"
    return Storage(False, copied, said, half)
