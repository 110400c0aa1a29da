"""How many rows a model really runs, besides those that only time it."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from unmask.model.row_reader import RowReader


def counted_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all batches from now on."""
    sizes: list[int] = []
    each_batch = RowReader.each_batch

    def counted(
        self: RowReader, rows: Tensor, positions: Any, use: Callable[[slice, Any], None], **how: Any
    ) -> None:
        def used(batch: slice, passed: Any) -> None:
            sizes.append(batch.stop - batch.start)
            use(batch, passed)

        each_batch(self, rows, positions, used, **how)

    monkeypatch.setattr(RowReader, "each_batch", counted)
    return sizes
