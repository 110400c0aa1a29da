"""Many rows in micro-batches that shrink when memory runs out. Knows nothing of models."""

from collections.abc import Callable

import torch

from unmask.errors import MemoryLimitError
from unmask.model.devices import release_cached_memory


def in_batches(total: int, size: int, run: Callable[[slice], None]) -> int:
    """Run slices of at most `size`; when memory runs out, halve and go on.

    Returns the size that it ended with.
    """
    start = 0
    while start < total:
        batch = slice(start, min(start + size, total))
        try:
            run(batch)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if size == 1:
                raise MemoryLimitError(
                    "one forward pass of this text does not fit into memory"
                ) from None
            size //= 2
        else:
            start = batch.stop
            continue
        # here, not above: while the exception is held, so are the tensors it failed on
        release_cached_memory()
    return size


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of any device means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(s in text for s in ("out of memory", "not enough memory", "can't allocate memory"))
