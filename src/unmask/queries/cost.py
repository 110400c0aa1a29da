"""The cost of joints: forward passes, memory, and the time of those passes.

Forward passes and bytes are counted; seconds come from a few batches of the model.
"""

import statistics
import time
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.arguments import Options, whole_number
from unmask.constructions import construction
from unmask.constructions.needs import Needs, together
from unmask.errors import UnmaskError
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import rows_per_batch
from unmask.printable import quoted, readable_bytes, readable_seconds
from unmask.results import ModelResult
from unmask.settings import Settings
from unmask.tables.storage import Storage, choose_storage
from unmask.text.cloze import Cloze
from unmask.text.support import Support

# how much of the model is timed beyond one batch: so many, so long, such a part of the work itself
_BATCHES, _PATIENCE, _PART = 5, 1.0, 0.1
# enough to time a batch of any size, and to warm up
_ROWS_TIMED, _ROWS_TO_WARM_UP = 256, 16


@dataclass(frozen=True)
class Cost(ModelResult):
    """The cost of one text: exact forward passes, approximate memory, rough time.

    With `for_a_pair`, the forward passes are those for the probability of one pair, by
    constructions that need no more; `passes_to_rank` is then the most that ranking, sampling or
    sums may take. `seconds` are those of the forward passes on this machine. `at_most` is True for
    a sketch, which stops sooner if its precision is reached.

    Examples:
        >>> print(lm.cost("Two [MASK] are [MASK].", methods=["mlm"], timed=False))
        1 forward pass of 7 tokens
    """

    forward_passes: int
    length: int
    table_bytes: int
    seconds: float | None = None
    for_a_pair: bool = False
    passes_to_rank: int = 0
    at_most: bool = False

    def __str__(self) -> str:
        """One line; what takes less than a second is not worth more than its rows."""
        passes = f"{self.forward_passes:,} forward pass{'es' * (self.forward_passes != 1)}"
        if self.at_most:
            passes = f"at most {passes}"
        text = f"{passes} of {self.length} tokens"
        if self.for_a_pair:
            text += f" for a pair, up to {self.passes_to_rank:,} to rank or sum"
        if self.seconds is not None and self.seconds >= 1:
            most = "up to " if self.at_most else ""
            text += f", {most}about {readable_seconds(self.seconds)}"
        if self.for_a_pair or not self.table_bytes:
            return text
        return f"{text}, {readable_bytes(self.table_bytes)} of tables"


def predicted(
    methods: Options,
    axes: tuple[Support, ...],
    model: MaskedLM,
    length: int,
    settings: Settings,
) -> Cost:
    """The cost of constructions, with their options, of one or two blanks: all but the time."""
    shape, layer = tuple(map(len, axes)), model.output_embedding
    whole = all(axis.is_whole(model.vocabulary_size) for axis in axes)
    rows = forward_passes(methods, shape, whole_vocabulary=whole)
    parts = all_needs(methods, shape)
    width = None if layer is None else layer.weight.shape[1]
    storage = choose_storage(shape, width=width, settings=settings)
    cost = Cost(rows, length, table_bytes(parts, shape, width, storage), passes_to_rank=rows)
    if not parts.only_contexts():
        return cost
    # ranking stops as soon as it is certain, but sums need the tables; what a construction read
    # before they were there runs twice
    each = [construction(name).needs(shape, options) for name, options in methods.items()]
    before = sum(parts.some) - 2 * sum(needs.only_contexts() for needs in each)
    return replace(cost, for_a_pair=True, passes_to_rank=1 + before + sum(shape))


def all_needs(methods: Options, shape: tuple[int, ...]) -> Needs:
    """The parts of the tables that constructions, each with its options, read together."""
    if len(shape) == 1:
        return Needs(masked=True)
    return together(construction(name).needs(shape, options) for name, options in methods.items())


def forward_passes(
    methods: Options, shape: tuple[int, ...], *, whole_vocabulary: bool = True
) -> int:
    """The number of rows that the model must run for these constructions together.

    Over less than the whole vocabulary, the mass that the supports capture is read as well.
    """
    parts = all_needs(methods, shape)
    return replace(parts, masked=parts.masked or not whole_vocabulary).rows(shape)


def table_bytes(parts: Needs, shape: tuple[int, ...], width: int | None, kept: Storage) -> int:
    """Bytes of tables kept so: readouts of some width, cells, and the copy for iterations."""
    cells = shape[0] * shape[-1]
    contexts = [shape[-1] if blank == 0 else shape[0] for blank in parts.whole]
    readouts = sum(4 * width * size if width else 0 for size in contexts)
    dense = 4 * cells * len(contexts) if kept.dense else 0
    return readouts + dense + (kept.copy_bytes * cells if len(parts.whole) == 2 else 0)


def measured(
    model: MaskedLM, cloze: Cloze, cost: Cost, settings: Settings, examples: int = 1
) -> Cost:
    """A cost with the time of its forward passes, as one of `examples`."""
    if (whole_number(examples) or 0) < 1:
        raise UnmaskError(f"examples is a number of texts from 1, not {quoted(examples)}")
    rows = cost.forward_passes * examples
    # no larger than the work itself
    batch = min(rows, _ROWS_TIMED, rows_per_batch(model, len(cloze), settings))
    start, timed = time.perf_counter(), [seconds_per_row(model, cloze, batch)]
    patience = min(_PATIENCE, _PART * rows * timed[0])
    while len(timed) < _BATCHES and time.perf_counter() - start < patience:
        timed.append(seconds_per_row(model, cloze, batch))
    return replace(cost, seconds=cost.forward_passes * statistics.median(timed))


def seconds_per_row(model: MaskedLM, cloze: Cloze, rows: int) -> float:
    """The seconds that a row of elicitation takes, by one batch of so many after a warm-up."""
    ids = torch.tensor([cloze.ids], device=model.device).repeat(rows, 1)
    _seconds(model, ids[:_ROWS_TO_WARM_UP], cloze.positions[0])
    return _seconds(model, ids, cloze.positions[0]) / rows


def _seconds(model: MaskedLM, ids: Int[Tensor, "rows length"], position: int) -> float:
    start = time.perf_counter()
    # a number on the CPU is there only when the device is done
    float(model.readouts(ids, [position]).sum())
    return time.perf_counter() - start
