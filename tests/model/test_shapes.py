"""Requests of many shapes: which run together, and the order of their answers."""

import numpy as np
import pytest
from toy_lm import ToyMaskedLM

from unmask import Settings
from unmask.model import shapes
from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape


def test_requests_of_one_shape_run_together_the_longest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[list[tuple[int, ...]]] = []
    counted: list[int | None] = []
    reader = RowReader(ToyMaskedLM(np.ones((3, 3)) / 9), Settings(progress=False))

    def run(some: list[tuple[int, ...]]) -> list[str]:
        ran.append(some)
        return [str(one) for one in some]

    def shape_of(request: tuple[int, ...]) -> Shape:
        return Shape(request[0], rows=2, numbers=request[1])

    requests = [(3, 1), (5, 1), (3, 1), (4, 9), (4, 2), (3, 1)]
    with reader.counted("rows") as bar:
        assert run_by_shape(reader, requests, shape_of, run) == list(map(str, requests))
        counted.append(bar.total)
    assert ran == [[(5, 1)], [(4, 9)], [(4, 2)], [(3, 1)] * 3]
    # two rows of three tokens each: two requests at a time, and at least one
    ran.clear()
    monkeypatch.setattr(shapes, "TOKENS_PER_CHUNK", 12)
    with reader.counted("rows", total=7) as bar:
        assert run_by_shape(reader, requests, shape_of, run) == list(map(str, requests))
        counted.append(bar.total)
    assert ran == [[(5, 1)], [(4, 9)], [(4, 2)], [(3, 1)] * 2, [(3, 1)]]
    # a total that was given stays
    assert counted == [12, 7]
    assert run_by_shape(reader, [], shape_of, run) == []
