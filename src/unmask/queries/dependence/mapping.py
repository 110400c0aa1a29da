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
from unmask.queries.dependence.question import How, Question
from unmask.settings import Settings

_BY_MEASURE = {"mutual-information": by_information, "pmi": by_pmi, "jacobian": by_jacobian}
# tokens of all rows of the texts that run together: enough that few batches are not full
_TOKENS_PER_WINDOW = 2**18
# numbers that the blocks of their Jacobians hold, 4 bytes each
_CELLS_PER_WINDOW = 2**26


def dependence_maps(
    model: MaskedLM,
    questions: Iterable[Question],
    how: How,
    settings: Settings,
    *,
    name: str = "masked LM",
) -> Iterator[DependenceMap]:
    """The map of every text, in their order; some texts at a time, whatever their number."""
    reader = RowReader(model, settings)
    with reader.counted(how.measure):
        for window in _windows(questions, how, settings):
            yield from _maps(reader, window, how, name)


def _windows(
    questions: Iterable[Question], how: How, settings: Settings
) -> Iterator[list[Question]]:
    held: list[Question] = []
    tokens = cells = 0
    for question in questions:
        check_memory(question, how, settings)
        held.append(question)
        tokens += how.forward_passes(question) * len(question.ids)
        cells += jacobian.cells(question, how) if how.measure == "jacobian" else 0
        if tokens >= _TOKENS_PER_WINDOW or cells >= _CELLS_PER_WINDOW:
            yield held
            held, tokens, cells = [], 0, 0
    if held:
        yield held


def check_memory(question: Question, how: How, settings: Settings) -> None:
    """Reject a text whose Jacobian would hold more than the memory limit allows."""
    # the logits, and their centred copies in float64
    needed = 12 * jacobian.cells(question, how) if how.measure == "jacobian" else 0
    if needed > settings.memory_limit:
        raise MemoryLimitError(
            f"the jacobian of {len(question.places)} places holds {readable_bytes(needed)}, above "
            f"the memory limit of {readable_bytes(settings.memory_limit)}; give fewer samples or "
            "places, or a higher limit"
        )


def _maps(
    reader: RowReader, questions: list[Question], how: How, name: str
) -> Iterator[DependenceMap]:
    found = _BY_MEASURE[how.measure](reader, questions, how)
    for question, one in zip(questions, found, strict=True):
        yield DependenceMap(
            text=question.text,
            places=question.places,
            measure=how.measure,
            values=one.values,
            standard_errors=one.standard_errors,
            information=one.information,
            forward_passes=one.forward_passes,
            samples=min(how.samples, len(how.support)),
            model=name,
        )
