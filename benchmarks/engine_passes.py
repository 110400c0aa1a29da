"""Reading both tables once against a solver's pass over them, on as many threads.

- `contest`: `read_tables`, the pass of `ag`: gradient, degrees and strongest edges in float64.
- `flow`: `Flows.balance`, the pass of `pseudo-gibbs` and `log-pool`.
- `paper-step`: one step of `ag-paper`.
- `reading`: the sum of all cells of both float32 copies, by the fastest of a few simple ways.
"""

import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, no_type_check

import numpy as np
import torch
from engine_tables import nearly_compatible, room_for_dense
from interleaved import Comparison, Run, in_turns
from torch import Tensor

from unmask.constructions.paper_steps import step
from unmask.constructions.solvers import pair_graph
from unmask.tables.probabilities import probabilities

# passes read probabilities cell by cell: how wide the readouts were that they came from is nothing
# to them
_WIDTH = 64
# a small table is read so often in one turn that this much is read: a few milliseconds tell nothing
_GIGABYTES = 2.0
# bands a thread: uneven ones do not leave another thread idle for long
_BANDS = 8


def _summing_kernel() -> Callable[..., float]:
    """The sum of both tables, four rows of each at a time.

    Memory answers several requests sooner than one, and the passes read in this manner too.
    """
    import numba

    @no_type_check
    def total(one, other):
        rows, columns = one.shape
        grouped = rows - rows % 4
        a = b = c = d = e = f = g = h = np.float32(0)
        for row in range(0, grouped, 4):
            for column in range(columns):
                a += one[row, column]
                b += one[row + 1, column]
                c += one[row + 2, column]
                d += one[row + 3, column]
                e += other[row, column]
                f += other[row + 1, column]
                g += other[row + 2, column]
                h += other[row + 3, column]
        for row in range(grouped, rows):
            for column in range(columns):
                a += one[row, column]
                e += other[row, column]
        return (a + b + c + d) + (e + f + g + h)

    # sums may be reassociated: the compiler then keeps a vector of each
    made: Any = numba.njit(nogil=True, fastmath=True)
    compiled: Callable[..., float] = made(total)
    return compiled


def readers(tables: tuple[Tensor, Tensor]) -> dict[str, Run]:
    """Ways to read all cells of both tables, each on the threads that torch uses."""
    threads = torch.get_num_threads()
    pool, kernel = ThreadPoolExecutor(threads), _summing_kernel()
    one, other = ([band.numpy() for band in t.chunk(_BANDS * threads)] for t in tables)
    return {
        "torch.sum": lambda: [table.sum() for table in tables],
        "a compiled sum, four rows of both at a time": lambda: list(pool.map(kernel, one, other)),
    }


def often(run: Run, rounds: int) -> Run:
    """The same so many times."""

    def repeated() -> None:
        for _ in range(rounds):
            run()

    return repeated


def fastest(runs: dict[str, Run]) -> str:
    """The name of what took least, warm, in three turns."""
    in_turns(runs, 1)
    seconds = in_turns(runs, 3)
    return min(seconds, key=lambda name: statistics.median(seconds[name]))


def compare(vocabulary: int, repeats: int) -> Iterator[Comparison]:
    """The ratios of all kinds of passes at one size."""
    tables = nearly_compatible(vocabulary, _WIDTH, memory_limit=room_for_dense(vocabulary))
    source, masked = probabilities(tables), tables.masked
    assert source.kept is not None
    kept = source.kept
    point = torch.cat([masked.log_a, masked.log_b]).numpy()
    flows, mass = pair_graph.PairFlows(tables), np.exp(point)
    choice = readers(kept)
    reader = fastest(choice)
    passes: dict[str, Run] = {
        "contest": lambda: pair_graph.read_tables(tables, point),
        "flow": lambda: flows.balance(mass),
        "paper-step": lambda: step(source, masked.log_a, masked.log_b),
    }
    gigabytes = sum(table.nbytes for table in kept) / 1e9
    rounds = max(1, round(_GIGABYTES / gigabytes))
    for name, run in passes.items():
        runs = {name: often(run, rounds), "reading": often(choice[reader], rounds)}
        in_turns(runs, 1)
        found = in_turns(runs, repeats)
        seconds = {which: [s / rounds for s in times] for which, times in found.items()}
        speed = gigabytes / statistics.median(seconds["reading"])
        yield Comparison(
            f"{name}-of-reading",
            str(vocabulary),
            "reading both tables once",
            f"a {name} pass",
            (seconds["reading"], seconds[name]),
            {"vocabulary": vocabulary, "gigabytes": round(gigabytes, 3), "rounds": rounds},
            dtype="float32 tables, float64 sums",
            more={
                "reader": reader,
                "read_gigabytes_per_second": round(speed, 2),
                "compiled": source.fused(),
            },
        )
