"""What a joint will cost, said before it is paid: forward passes, time, memory."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

import torch

from unmask.constructions.sweep import CONTEXTS
from unmask.numbers import whole_number
from unmask.printable import readable_bytes, readable_seconds
from unmask.tables import fits_dense

Options = Mapping[str, Mapping[str, object]]

# what the solvers were seen to take on real tables: their number is not known before
_SOLVER_PASSES = {"ag": 25, "weighted-ag": 20, "pseudo-gibbs": 20, "log-pool": 20}
# constructions that can do with a few contexts of each table
_CHEAP = ("orders", "sweep")


@dataclass(frozen=True)
class Needs:
    """The parts of the tables that a construction asks for.

    `whole_*` is a whole table, `some_*` a number of single contexts of it.
    """

    masked: bool = False
    whole_a: bool = False
    whole_b: bool = False
    some_a: int = 0
    some_b: int = 0

    def both(self) -> bool:
        """Whether it asks for both tables."""
        return self.whole_a and self.whole_b

    def only_pairs(self) -> bool:
        """Whether what is asked for depends on the pairs that are looked at."""
        return bool(self.some_a and self.some_b) and not (self.whole_a or self.whole_b)

    def rows(self, shape: tuple[int, ...]) -> int:
        """Rows that the model runs; contexts of a table that is there anyway are free."""
        given_b = shape[1] if self.whole_a else self.some_a
        given_a = shape[0] if self.whole_b else self.some_b
        return self.masked + given_b + given_a


def needs(
    method: str, shape: tuple[int, ...], options: Mapping[str, object] | None = None
) -> Needs:
    """What a construction asks for: for `orders` and `sweep`, for the probability of one pair."""
    given = options or {}
    if method == "mlm":
        return Needs(masked=True)
    if method == "hcb":
        masked = given.get("pivot") is None
        if given.get("pivot_axis"):
            return Needs(masked, whole_b=True, some_a=1)
        return Needs(masked, whole_a=True, some_b=1)
    if method == "orders" and given.get("mean") != "geometric":
        return Needs(masked=True, some_a=1, some_b=1)
    if method == "sweep":
        contexts = whole_number(given.get("contexts", CONTEXTS)) or CONTEXTS
        some_a, some_b = (1 + min(contexts, size) for size in (shape[1], shape[0]))
        return Needs(masked=True, some_a=some_a, some_b=some_b)
    masked = method not in ("mrf", "mrf-logit", "ag-paper")
    return Needs(masked, whole_a=True, whole_b=True)


def _table_passes(method: str, options: Mapping[str, object]) -> int:
    """Passes over the tables beyond elicitation: normalisers, marginals, ranking, iterations."""
    if method in _CHEAP and options.get("mean") != "geometric":
        return 0
    if method == "ag-paper":
        return 3 + (whole_number(options.get("steps", 50)) or 50)
    return 3 + _SOLVER_PASSES.get(method, 0)


@dataclass(frozen=True)
class Cost:
    """Forward passes of one text, and rough time and memory.

    With `for_a_pair` they are those of one pair's probability, by constructions that need no more.
    """

    forward_passes: int
    length: int
    table_bytes: int
    seconds: float | None = None
    for_a_pair: bool = False

    def __str__(self) -> str:
        """One line for a person."""
        time_said = ""
        if self.seconds is not None:
            about = "about " if self.seconds >= 1 else ""
            time_said = f", {about}{readable_seconds(self.seconds)}"
        passes = f"{self.forward_passes:,} forward pass{'es' * (self.forward_passes != 1)}"
        if self.for_a_pair:
            return f"{passes} of {self.length} tokens for a pair, more to rank or sample{time_said}"
        kept = readable_bytes(self.table_bytes)
        return f"{passes} of {self.length} tokens{time_said}, {kept} of tables"

    def to_dict(self) -> dict[str, float | int | bool | None]:
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
    together = all_needs(methods, shape, options)
    return replace(together, masked=together.masked or not whole_vocabulary).rows(shape)


def all_needs(
    methods: Iterable[str], shape: tuple[int, ...], options: Options | None = None
) -> Needs:
    """The parts of the tables that several constructions ask for together."""
    given = options or {}
    each = [needs(method, shape, given.get(method)) for method in methods]
    return Needs(
        any(one.masked for one in each),
        any(one.whole_a for one in each),
        any(one.whole_b for one in each),
        sum(one.some_a for one in each),
        sum(one.some_b for one in each),
    )


def by_appetite(methods: Iterable[str], options: Options | None = None) -> list[str]:
    """The constructions that need most of the tables first, so that others find their parts."""
    given = options or {}

    def tables(method: str) -> int:
        asked = needs(method, (1, 1), given.get(method))
        return asked.whole_a + asked.whole_b

    return sorted(methods, key=tables, reverse=True)


def table_bytes(
    parts: Needs, shape: tuple[int, ...], *, width: int | None, memory_limit: int
) -> int:
    """What the tables will take: readouts of some width, or cells where there are none (None).

    Counts the copies that are made because they fit the limit: both tables dense, and both once
    more to iterate on.
    """
    cells = 4 * math.prod(shape)
    contexts = [shape[-1]] * parts.whole_a + [shape[0]] * parts.whole_b
    kept = sum(4 * width * size if width else 0 for size in contexts)
    if width is None or fits_dense(shape, memory_limit):
        kept += cells * len(contexts)
    if parts.both() and kept + 2 * cells <= memory_limit:
        kept += 2 * cells
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
