"""How many rows a model really runs, besides those that only time it."""

from collections.abc import Sequence
from typing import Any

import pytest

from unmask.cli import dependence
from unmask.model.row_reader import RowReader


def counted_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all batches from now on; nothing is timed before it runs."""
    sizes: list[int] = []
    run = RowReader._run

    def counted(self: RowReader, ids: Any, positions: Sequence[int]) -> Any:
        sizes.append(len(ids))
        return run(self, ids, positions)

    monkeypatch.setattr(RowReader, "_run", counted)
    monkeypatch.setattr(dependence, "_FEW_PASSES", 10**9)
    return sizes
