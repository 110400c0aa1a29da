"""Storage of conditional tables: as fast as memory allows, and with the reason given.

Kept dense, a table is read cell by cell; streamed, every pass computes its cells anew from readouts
and output embedding. The stationary law and `ag` read probabilities many times, of which they keep
a copy if there is room.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from unmask.printable import readable_bytes
from unmask.settings import Settings

# products and bytes per second of one core: rough, and only their ratio decides
_FLOP_PER_SECOND, _BYTES_PER_SECOND = 5e10, 1.5e10
# logits are float32, and there are two tables
_LOGITS = 8


@dataclass(frozen=True)
class Storage:
    """True for cell by cell, bytes per cell of the copy of both for iterations, and the reason."""

    dense: bool
    copy_bytes: int
    why: str


def copy_dtype(shape: Sequence[int], settings: Settings) -> torch.dtype:
    """Precision of the copies that iterations read: float64 where it fits beside dense tables."""
    if settings.half_tables:
        return torch.bfloat16
    exact = (_LOGITS + 2 * torch.float64.itemsize) * math.prod(shape)
    return torch.float64 if exact <= settings.memory_limit else torch.float32


def choose_storage(shape: Sequence[int], *, width: int | None, settings: Settings) -> Storage:
    """The fastest storage of two tables of this shape within the memory limit.

    `width` is that of the model's readouts, None where it has none.
    """
    cells, memory_limit = math.prod(shape), settings.memory_limit
    dtype = copy_dtype(shape, settings)
    copy = 2 * dtype.itemsize
    whole, limit = _LOGITS + copy, readable_bytes(memory_limit)
    fits, copied = whole * cells <= memory_limit, copy if copy * cells <= memory_limit else 0
    if width is None:
        why = "this model has no smaller readout that its logits could be computed from"
        return Storage(True, copy if fits else 0, why)
    if 2 * width / _FLOP_PER_SECOND <= _LOGITS / 2 / _BYTES_PER_SECOND:
        why = f"a cell is computed from {width} numbers sooner than it is read"
        return Storage(False, copied, why)
    needed = readable_bytes(whole * cells)
    if fits:
        why = f"{whole} bytes per cell are {needed}, within the memory limit of {limit}"
        return Storage(True, copy, why)
    why = f"dense they would take {needed}, above the memory limit of {limit}"
    if copied:
        kind = str(dtype).removeprefix("torch.")
        why += f"; a {kind} copy for iterations, {readable_bytes(copy * cells)}, fits"
    return Storage(False, copied, why)
