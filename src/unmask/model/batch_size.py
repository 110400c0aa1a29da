"""The number of rows of one forward pass: the caller's, or what suits the device.

Rows of one length are batched by their tokens, so that results do not change with the clock. When
memory runs out, batches shrink.
"""

import time
from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.errors import MemoryLimitError
from unmask.model.devices import kind_of, release_cached_memory
from unmask.model.masked_lm import MaskedLM
from unmask.settings import Settings
from unmask.text.cloze import Cloze

# rows x tokens that one forward pass takes when the caller names no batch size
_TOKENS_PER_BATCH = {"cpu": 2048, "gpu": 65_536}
# where logits of every position must be kept (no output embedding), cells of one batch
_CELLS_PER_BATCH = 2**26
# enough to time a batch of any size, and to warm up
_ROWS_TIMED, _ROWS_TO_WARM_UP = 256, 16


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
            if not _is_out_of_memory(error):
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


def rows_per_batch(model: MaskedLM, length: int, settings: Settings) -> int:
    """The caller's batch size, or a fixed one that suits the device."""
    if settings.batch_size is not None:
        return settings.batch_size
    rows = _TOKENS_PER_BATCH.get(kind_of(model.device), 16_384) // length
    if model.output_embedding is None:
        rows = min(rows, _CELLS_PER_BATCH // (length * model.vocabulary_size))
    return max(1, rows)


def seconds_per_row(model: MaskedLM, cloze: Cloze, settings: Settings) -> float:
    """The seconds that a row of elicitation takes, by one batch after a warm-up."""
    rows = min(rows_per_batch(model, len(cloze), settings), _ROWS_TIMED)
    ids = torch.tensor([cloze.ids], device=model.device).repeat(rows, 1)
    _seconds(model, ids[:_ROWS_TO_WARM_UP], cloze.positions[0])
    return _seconds(model, ids, cloze.positions[0]) / rows


def _seconds(model: MaskedLM, ids: Int[Tensor, "rows length"], position: int) -> float:
    start = time.perf_counter()
    # a number on the CPU is there only when the device is done
    float(model.readouts(ids, [position]).sum())
    return time.perf_counter() - start


def _is_out_of_memory(error: BaseException) -> bool:
    """True if an error of any device means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(s in text for s in ("out of memory", "not enough memory", "can't allocate memory"))
