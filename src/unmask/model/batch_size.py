"""How many rows one forward pass takes: the caller's number, a fixed one, or the fastest.

Rows of one length are batched by their tokens. For a small elicitation the number of tokens is
fixed; for a large one a few are tried once per model and length, and the fastest is kept from then
on, so that results do not change with the clock while the process lives. When memory runs out,
batches shrink.
"""

import time
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

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
# rows x tokens of the forward passes that are tried, by device; elsewhere none are
_TOKENS_TRIED = {
    "cpu": (512, 1024, 2048, 4096, 8192, 16_384),
    "gpu": (16_384, 32_768, 65_536, 131_072, 262_144),
}
# an elicitation of fewer tokens is over before trying is worth it
_TOKENS_WORTH_TRYING = 2**19
# what trying may take: seconds, or this part of the elicitation if that is more
_SECONDS, _PART, _ROUNDS = 2.0, 0.01, 5
# the smallest batch that is nearly as fast as the fastest takes the least memory
_NEARLY = 1.03
# enough to time a batch of any size, and to warm up
_ROWS_TIMED, _ROWS_TO_WARM_UP = 256, 16


class _Measured(NamedTuple):
    rows: int
    seconds_per_row: float


_MEASURED: WeakKeyDictionary[MaskedLM, dict[int, _Measured]] = WeakKeyDictionary()


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


def resolve_batch_size(model: MaskedLM, length: int, settings: Settings, rows: int) -> int:
    """Rows per forward pass, for so many rows of one length; tries some sizes if they are many."""
    fixed = rows_per_batch(model, length, settings)
    few = rows * length < _TOKENS_WORTH_TRYING
    if settings.batch_size is not None or few or model.output_embedding is None:
        return fixed
    measured = _MEASURED.setdefault(model, {})
    if length not in measured:
        measured[length] = _fastest(model, length, rows, fixed)
    return measured[length].rows


def seconds_per_row(model: MaskedLM, cloze: Cloze, settings: Settings) -> float:
    """What a row of elicitation takes: as measured before, or by one batch after a warm-up."""
    measured = _MEASURED.get(model, {}).get(len(cloze))
    if measured is not None and settings.batch_size in (None, measured.rows):
        return measured.seconds_per_row
    rows = min(rows_per_batch(model, len(cloze), settings), _ROWS_TIMED)
    ids = torch.tensor([cloze.ids], device=model.device).repeat(rows, 1)
    _seconds(model, ids[:_ROWS_TO_WARM_UP], cloze.positions[0])
    return _seconds(model, ids, cloze.positions[0]) / rows


def _fastest(model: MaskedLM, length: int, rows: int, fixed: int) -> _Measured:
    """The smallest tried batch whose time per row is close to that of the fastest."""
    tried = _TOKENS_TRIED.get(kind_of(model.device), ())
    # an eighth of the elicitation at most: what is tried is run several times
    sizes = [max(1, tokens // length) for tokens in tried if tokens * 8 <= rows * length]
    times = _least_times(model, length, sizes or [fixed], rows)
    limit = _NEARLY * min(times.values())
    size = min(size for size, seconds in times.items() if seconds <= limit)
    return _Measured(size, times[size])


def _least_times(model: MaskedLM, length: int, sizes: list[int], rows: int) -> dict[int, float]:
    """Seconds per row by batch size, taken in turns; the least is the least disturbed."""
    sizes = sorted(set(sizes))
    varied = torch.arange(sizes[-1] * length, device=model.device) % model.vocabulary_size
    ids = varied.view(-1, length)
    # the first pass is slow for reasons of its own
    _seconds_if_fits(model, ids[: sizes[0]], length // 2)
    times = {sizes[0]: _seconds_if_fits(model, ids[: sizes[0]], length // 2) / sizes[0]}
    budget = max(_SECONDS, _PART * times[sizes[0]] * rows)
    stop = time.perf_counter() + budget
    for size in sizes * _ROUNDS:
        expected = size * times.get(size, max(times.values()))
        if time.perf_counter() + expected > stop:
            # a larger one would take longer still, but in the next round a smaller one may not
            continue
        seconds = _seconds_if_fits(model, ids[:size], length // 2) / size
        times[size] = min(seconds, times.get(size, seconds))
    return times


def _seconds_if_fits(model: MaskedLM, ids: Tensor, position: int) -> float:
    """Infinite for a batch that memory does not hold."""
    try:
        return _seconds(model, ids, position)
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        return float("inf")


def _seconds(model: MaskedLM, ids: Int[Tensor, "rows length"], position: int) -> float:
    start = time.perf_counter()
    # a number on the CPU is there only when the device is done
    float(model.readouts(ids, [position]).sum())
    return time.perf_counter() - start


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of any device means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(s in text for s in ("out of memory", "not enough memory", "can't allocate memory"))
