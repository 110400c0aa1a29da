"""Requests whose rows have many lengths: those of one shape run together, so that none is padded.

Whatever is read of the rows, answers come in the order of the requests, and rows are written out
some at a time, so that memory grows with the answers alone.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from unmask.logspace import row_blocks
from unmask.model.row_reader import RowReader

# ids of rows that are written out at a time, 8 bytes each: many batches on a CPU, sixteen on a GPU
TOKENS_PER_CHUNK = 2**20

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Shape(NamedTuple):
    """The size of a request: the tokens of a row, its rows, and the numbers kept of each row.

    `alike` is what else requests that run together must share.
    """

    length: int
    rows: int = 1
    numbers: int = 1
    alike: tuple[int, ...] = ()


def run_by_shape(
    reader: RowReader,
    requests: Sequence[Request],
    shape_of: Callable[[Request], Shape],
    run: Callable[[list[Request]], Iterable[Answer]],
) -> list[Answer]:
    """The answers of `run`, which is given requests of one shape, in the order of all requests.

    The longest come first: where memory runs out, it does so at once.
    """
    groups: dict[Shape, list[int]] = {}
    for number, request in enumerate(requests):
        groups.setdefault(shape_of(request), []).append(number)
    reader.expect(sum(shape.rows * len(members) for shape, members in groups.items()))
    answers: dict[int, Answer] = {}
    for shape, members in sorted(groups.items(), reverse=True):
        cells = shape.rows * max(shape.length, shape.numbers)
        for chunk in row_blocks(len(members), cells, TOKENS_PER_CHUNK):
            alike = members[chunk]
            answers.update(zip(alike, run([requests[n] for n in alike]), strict=True))
    return [answers[number] for number in range(len(requests))]
