"""The cost of joints of more than two blanks, before they are requested."""

import math
from collections.abc import Sequence

from unmask.errors import MemoryLimitError
from unmask.printable import readable_bytes

# rows of the model that tables may take where nobody says how many candidates there are to be
AFFORDABLE_ROWS = 4096
# float64 tables of every cell that are alive at once, beside one per blank
WORKING_TABLES = 8
# up to so many blanks all orders are averaged, by sets; beyond, so many orders that are drawn
ALL_ORDERS_UP_TO, DRAWN_ORDERS = 6, 16


def rows_of_a_fill(blanks: int) -> int:
    """Rows behind the probability of one fill by `orders`, at most."""
    return 2**blanks - 1 if blanks <= ALL_ORDERS_UP_TO else DRAWN_ORDERS * blanks


def table_bytes(shape: Sequence[int]) -> int:
    """Memory of the tables and of what is computed from them, in float64."""
    return 8 * math.prod(shape) * (len(shape) + WORKING_TABLES)


def check_fits(
    shape: Sequence[int], memory_limit: int, *, geometric: bool = False, blanks: str | None = None
) -> None:
    """Reject tables that would not fit, before anything runs; `blanks` is how to name them."""
    needed = table_bytes(shape)
    if needed <= memory_limit:
        return
    otherwise = (
        "the arithmetic mean of orders needs no table"
        if geometric
        else "method 'orders' alone needs no table"
    )
    size, count = max(shape), len(shape)
    raise MemoryLimitError(
        f"tables over {blanks or f'{count} blanks'} of up to {size:,} candidates take about "
        f"{readable_bytes(needed)}, above the limit of {readable_bytes(memory_limit)}; "
        f"{otherwise}, or give fewer candidates, such as {_that_fits(count, memory_limit)}"
    )


def most_candidates(blanks: int) -> int:
    """The number of candidates per blank with which every partial fill is affordable."""
    sizes = range(1, AFFORDABLE_ROWS)
    return max(size for size in sizes if (size + 1) ** blanks - size**blanks <= AFFORDABLE_ROWS)


def _that_fits(blanks: int, memory_limit: int) -> int:
    """A number of candidates whose tables are within the memory and not too many rows."""
    by_memory = (memory_limit / (8 * (blanks + WORKING_TABLES))) ** (1 / blanks)
    by_rows = (10 * AFFORDABLE_ROWS / blanks) ** (1 / (blanks - 1))
    return max(2, int(min(by_memory, by_rows)))
