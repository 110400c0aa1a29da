"""Maps of many texts, whose forward passes run together."""

from collections.abc import Iterable, Iterator

from unmask.errors import MemoryLimitError
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.printable import readable_bytes
from unmask.queries.dependence import jacobian
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.information import by_information
from unmask.queries.dependence.jacobian import by_jacobian
from unmask.queries.dependence.pmi import by_pmi
from unmask.queries.dependence.question import MapOptions, MapQuestion, MeasureMaps
from unmask.settings import Settings

_BY_MEASURE: dict[str, MeasureMaps] = {
    "mutual-information": by_information,
    "pmi": by_pmi,
    "jacobian": by_jacobian,
}
# tokens of all rows of the texts that run together: enough that few batches are not full
_TOKENS_PER_WINDOW = 2**18
# numbers that the blocks of their Jacobians hold, 4 bytes each
_CELLS_PER_WINDOW = 2**26


def dependence_maps(
    model: MaskedLM,
    questions: Iterable[MapQuestion],
    options: MapOptions,
    settings: Settings,
) -> Iterator[DependenceMap]:
    """The map of every text, in their order; a window of texts runs at a time."""
    reader, measure = RowReader(model, settings), options.by_head or _BY_MEASURE[options.measure]
    with reader.counted(options.measure):
        for window in _windows(questions, options, settings):
            yield from measure(reader, window, options)


def _windows(
    questions: Iterable[MapQuestion], options: MapOptions, settings: Settings
) -> Iterator[list[MapQuestion]]:
    held: list[MapQuestion] = []
    tokens = cells = 0
    for question in questions:
        check_memory(question, options, settings)
        held.append(question)
        tokens += options.forward_passes(question) * len(question.ids)
        cells += jacobian.cells(question, options)
        if tokens >= _TOKENS_PER_WINDOW or cells >= _CELLS_PER_WINDOW:
            yield held
            held, tokens, cells = [], 0, 0
    if held:
        yield held


def check_memory(question: MapQuestion, options: MapOptions, settings: Settings) -> None:
    """Reject a text whose Jacobian would hold more than the memory limit allows."""
    # the logits, and their centred copies in float64
    needed = 12 * jacobian.cells(question, options)
    if needed > settings.memory_limit:
        raise MemoryLimitError(
            f"the jacobian of {len(question.places)} places holds {readable_bytes(needed)}, above "
            f"the memory limit of {readable_bytes(settings.memory_limit)}; give fewer samples or "
            "places, or a higher limit"
        )
