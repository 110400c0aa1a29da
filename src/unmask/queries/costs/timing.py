"""How long passes over tables take here, timed on small ones that are kept as the real ones are."""

import math
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from unmask.constructions.markov_field import markov_field
from unmask.constructions.paper_steps import step
from unmask.constructions.solvers.pair_graph import PairFlows, read_tables
from unmask.joints.fill import best_cells
from unmask.joints.joint import Joint
from unmask.logspace import row_blocks
from unmask.queries.costs.passes import Kind, Passes
from unmask.tables.conditional import DenseLogits, FactoredLogits, Logits
from unmask.tables.kernels import FEWEST_CELLS
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import probabilities

# two tiles, so that none is found where the last pass left it; enough for the compiled passes
_LARGE = (2**10, 2**11)
# for tables that are too small for those: to compile takes longer than to read them
_SMALL = (2**8, 2**9)
# how often a kind of pass is timed: so many runs, or so many seconds
_RUNS, _PATIENCE = 5, 0.2
# below so many cells read in all, a time is not worth measuring
_FEW_CELLS = 10**7


def table_seconds(
    passes: Passes,
    shape: tuple[int, ...],
    *,
    width: int | None,
    copied: bool,
    device: torch.device,
) -> float:
    """Rough time of these passes over tables of this shape.

    `width` is that of the readouts where tiles must be computed anew in every pass, and None where
    cells are kept; `copied` says whether there is room for the solvers' copy.
    """
    cells = shape[0] * shape[-1]
    if cells * sum(passes.values()) < _FEW_CELLS:
        return 0.0
    timed = _LARGE if cells >= FEWEST_CELLS else _SMALL
    each = _seconds_a_cell(frozenset(passes), timed, width, copied, device)
    return cells * sum(count * each[kind] for kind, count in passes.items())


@cache
def _seconds_a_cell(
    kinds: frozenset[Kind],
    shape: tuple[int, int],
    width: int | None,
    copied: bool,
    device: torch.device,
) -> dict[Kind, float]:
    """Measured once a process: what it compiles, the work itself will need."""
    cells = math.prod(shape)
    limit = 16 * cells if copied else 0
    logits = _logits(shape, width, device)
    tables = PairTables.from_logits(*logits, memory_limit=limit)
    mass = np.repeat([1 / size for size in shape], shape)
    log_a, log_b = torch.tensor(np.log(mass), device=device).split(list(shape))
    runs: dict[Kind, Callable[[], object]] = {
        "made": lambda: PairTables.from_logits(*logits),
        "copied": lambda: probabilities(PairTables(tables.source, tables.settings)),
        "balance": lambda: PairFlows(tables).pushed(mass),
        "contest": lambda: read_tables(tables, np.zeros(len(mass))),
        "step": lambda: step(probabilities(tables), log_a, log_b),
        # two passes: marginals, and the entropy
        "sum": lambda: markov_field(tables).mutual_information(),
        "rank": lambda: _ranked(markov_field(tables)),
    }
    # of "made" both tables are one run; a table is counted by itself
    shares = {"made": 2, "sum": 2}
    return {kind: _timed(runs[kind], device) / shares.get(kind, 1) / cells for kind in kinds}


def _ranked(joint: Joint) -> object:
    rows = row_blocks(*joint.shape)
    return best_cells(((block, joint.scores(block)) for block in rows), 10)


def _logits(
    shape: tuple[int, int], width: int | None, device: torch.device
) -> tuple[Logits, Logits]:
    generator = torch.Generator().manual_seed(0)

    def factor(rows: int) -> Tensor:
        scale = (width or 1) ** -0.25
        return torch.randn(rows, width or 1, generator=generator).mul(scale).to(device)

    factored = [FactoredLogits(factor(shape[0]), factor(shape[1])) for _ in range(2)]
    if width is not None:
        return factored[0], factored[1]
    dense = [DenseLogits(logits.block(slice(0, shape[0]))) for logits in factored]
    return dense[0], dense[1]


def _timed(run: Callable[[], object], device: torch.device) -> float:
    """Seconds of one run, the quickest of a few after a first that compiles and finds memory."""
    run()
    took: list[float] = []
    while not took or (len(took) < _RUNS and sum(took) < _PATIENCE):
        _wait_for(device)
        start = time.perf_counter()
        run()
        _wait_for(device)
        took.append(time.perf_counter() - start)
    return min(took)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
