"""The cost of joints over a text, with the time measured on one batch of the model."""

from unmask.cloze import Cloze
from unmask.cost import (
    Cost,
    Needs,
    Options,
    all_needs,
    forward_passes,
    table_bytes,
    table_seconds,
)
from unmask.elicit import Settings, seconds_per_row
from unmask.masked_lm import MaskedLM
from unmask.support import Support
from unmask.tables import fits_dense

# below this many rows the time is not worth estimating
_FEW_PASSES = 512


def estimate(
    model: MaskedLM,
    cloze: Cloze,
    methods: list[str],
    axes: tuple[Support, ...],
    settings: Settings,
    options: Options,
) -> Cost:
    """Forward passes exactly, memory nearly, time roughly."""
    shape = tuple(len(axis) for axis in axes)
    whole = all(axis.is_whole(model.vocabulary_size) for axis in axes)
    passes = forward_passes(methods, shape, whole_vocabulary=whole, options=options)
    width = None if model.output_embedding is None else model.output_embedding.weight.shape[1]
    parts = all_needs(methods, shape, options) if len(shape) > 1 else Needs()
    size = table_bytes(parts, shape, width=width, memory_limit=settings.memory_limit)
    if passes <= _FEW_PASSES:
        return Cost(passes, len(cloze), size, for_a_pair=parts.only_pairs())
    computed_anew = None if fits_dense(shape, settings.memory_limit) else width
    seconds = passes * seconds_per_row(model, cloze, settings)
    seconds += table_seconds(methods, shape, computed_anew, options)
    return Cost(passes, len(cloze), size, seconds, parts.only_pairs())
