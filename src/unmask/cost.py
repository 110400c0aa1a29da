"""What a joint will cost, said before it is paid: forward passes, time, memory."""

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import torch

from unmask.printable import readable_bytes, readable_seconds

# the parts of the tables that each construction asks for
_NEEDS: dict[str, frozenset[str]] = {
    "mlm": frozenset({"masked"}),
    "mrf": frozenset({"a given b", "b given a"}),
    "mrf-logit": frozenset({"a given b", "b given a"}),
    "hcb": frozenset({"masked", "a given b", "pivot row"}),
    "ag": frozenset({"a given b", "b given a"}),
}

# passes over the tables beyond elicitation; AG reads them once a step
_TABLE_PASSES = {"mlm": 1, "mrf": 3, "mrf-logit": 3, "hcb": 3, "ag": 52}


@dataclass(frozen=True)
class Cost:
    """Forward passes of one text, and rough time and memory."""

    forward_passes: int
    length: int
    table_bytes: int
    seconds: float | None = None

    def __str__(self) -> str:
        """One line for a person."""
        time_said = ""
        if self.seconds is not None:
            about = "about " if self.seconds >= 1 else ""
            time_said = f", {about}{readable_seconds(self.seconds)}"
        return (
            f"{self.forward_passes:,} forward pass{'es' * (self.forward_passes != 1)} of "
            f"{self.length} tokens{time_said}, {readable_bytes(self.table_bytes)} of tables"
        )

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values, ready for JSON."""
        return asdict(self)


def forward_passes(
    methods: Iterable[str], shape: tuple[int, ...], *, whole_vocabulary: bool = True
) -> int:
    """How many rows the model must run for these constructions together.

    Over less than the whole vocabulary, the mass that the supports capture is read as well.
    """
    if len(shape) == 1:
        return 1
    needs = frozenset[str]().union(*(_NEEDS[method] for method in methods))
    if not whole_vocabulary:
        needs |= {"masked"}
    size_a, size_b = shape
    price = {"masked": 1, "a given b": size_b, "b given a": size_a, "pivot row": 1}
    # with the whole table at hand its pivot row is free
    free = {"pivot row"} if "b given a" in needs else set()
    return sum(price[part] for part in needs - free)


def by_appetite(methods: Iterable[str]) -> list[str]:
    """The constructions that ask for most first, so that the others find their parts there."""
    return sorted(methods, key=lambda method: -_TABLE_PASSES[method])


def table_seconds(methods: Iterable[str], shape: tuple[int, ...], width: int | None) -> float:
    """Rough time of the passes over the tables: measured on one tile, then scaled.

    `width` is that of the readouts when tiles must be computed anew in every pass.
    """
    cells = math.prod(shape)
    passes = sum(_TABLE_PASSES[method] for method in methods)
    if len(shape) == 1 or cells * passes < 10**7:
        return 0.0
    columns = min(shape[-1], 2**12)
    rows = 256
    left, right = torch.rand(rows, width or 1), torch.rand(columns, width or 1)
    start = time.perf_counter()
    for _ in range(2):
        tile = (left @ right.T).double()
        tile = tile.exp() + tile.exp()
        tile /= 1 + tile
        float(tile.sum())
    return (time.perf_counter() - start) / 2 / (rows * columns) * cells * passes
