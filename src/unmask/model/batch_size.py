"""The number of rows of one forward pass: the caller's, or what suits the device.

Rows of one length are batched by their tokens, so that results do not change with the clock.
"""

import time

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.model.devices import is_gpu
from unmask.model.masked_lm import MaskedLM
from unmask.settings import Settings
from unmask.text.cloze import Cloze

# rows x tokens that one forward pass takes when the caller names no batch size
_TOKENS_ON_CPU, _TOKENS_ON_GPU, _TOKENS_ELSEWHERE = 2048, 65_536, 16_384
# where logits of every position must be kept (no output embedding), cells of one batch
_CELLS_PER_BATCH = 2**26
# enough to time a batch of any size, and to warm up
_ROWS_TIMED, _ROWS_TO_WARM_UP = 256, 16


def rows_per_batch(model: MaskedLM, length: int, settings: Settings) -> int:
    """The caller's batch size, or a fixed one that suits the device."""
    if settings.batch_size is not None:
        return settings.batch_size
    if model.device.type == "cpu":
        rows = _TOKENS_ON_CPU // length
    else:
        rows = (_TOKENS_ON_GPU if is_gpu(model.device) else _TOKENS_ELSEWHERE) // length
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


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error of any device means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(s in text for s in ("out of memory", "not enough memory", "can't allocate memory"))
