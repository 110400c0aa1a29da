"""What a joint will cost, said before it is paid: forward passes, time, memory."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import torch

from unmask.printable import readable_bytes, readable_seconds
from unmask.tables import fits_dense

Options = Mapping[str, Mapping[str, object]]

_BOTH = frozenset({"a given b", "b given a"})


def needs(method: str, options: Mapping[str, object] | None = None) -> frozenset[str]:
    """The parts of the tables that a construction asks for."""
    given = options or {}
    if method == "mlm":
        return frozenset({"masked"})
    if method == "hcb":
        masked = {"masked"} if given.get("pivot") is None else set[str]()
        table = (
            {"b given a", "a at pivot"} if given.get("pivot_axis") else {"a given b", "b at pivot"}
        )
        return frozenset(masked | table)
    if method == "ag" and given.get("steps", 50) is None:
        return _BOTH | {"masked"}
    return _BOTH


def _table_passes(method: str, options: Mapping[str, object]) -> int:
    """Passes over the tables beyond elicitation: normalisers, marginals, ranking, iterations."""
    if method != "ag":
        return 3
    # the solver's number is not known before; what real tables were seen to take
    steps = options.get("steps", 50)
    return 3 + (30 if steps is None else int(str(steps)))


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
    methods: Iterable[str],
    shape: tuple[int, ...],
    *,
    whole_vocabulary: bool = True,
    options: Options | None = None,
) -> int:
    """How many rows the model must run for these constructions together.

    Over less than the whole vocabulary, the mass that the supports capture is read as well.
    """
    if len(shape) == 1:
        return 1
    parts = all_needs(methods, options) | (frozenset() if whole_vocabulary else {"masked"})
    price = {"masked": 1, "a given b": shape[1], "b given a": shape[0]}
    # with the whole table at hand its row at the pivot is free
    pivots = {"a at pivot": "a given b", "b at pivot": "b given a"}
    paid = sum(price[part] for part in parts if part in price)
    return paid + sum(1 for part, table in pivots.items() if part in parts and table not in parts)


def all_needs(methods: Iterable[str], options: Options | None) -> frozenset[str]:
    """The parts of the tables that several constructions ask for together."""
    given = options or {}
    return frozenset[str]().union(*(needs(m, given.get(m)) for m in methods))


def by_appetite(methods: Iterable[str], options: Options | None = None) -> list[str]:
    """The constructions that need both tables first, so that others find their parts there."""
    given = options or {}
    return sorted(methods, key=lambda method: not needs(method, given.get(method)) >= _BOTH)


def table_bytes(
    parts: frozenset[str], shape: tuple[int, ...], *, width: int | None, memory_limit: int
) -> int:
    """What the tables will take: readouts of some width, or cells where there are none (None).

    Counts the copies that are made because they fit the limit: both tables dense, one more to
    iterate on.
    """
    cells = 4 * math.prod(shape)
    contexts = {"a given b": shape[-1], "b given a": shape[0]}
    tables = [part for part in contexts if part in parts]
    kept = sum(4 * width * contexts[part] if width else 0 for part in tables)
    if width is None or fits_dense(shape, memory_limit):
        kept += cells * len(tables)
    if parts >= _BOTH and kept + cells <= memory_limit:
        kept += cells
    return kept


def table_seconds(
    methods: Iterable[str],
    shape: tuple[int, ...],
    width: int | None,
    options: Options | None = None,
) -> float:
    """Rough time of the passes over the tables: measured on one tile, then scaled.

    `width` is that of the readouts when tiles must be computed anew in every pass.
    """
    cells = math.prod(shape)
    given = options or {}
    passes = sum(_table_passes(method, given.get(method, {})) for method in methods)
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
