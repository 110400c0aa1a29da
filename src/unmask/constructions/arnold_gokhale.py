"""The joint whose conditionals are nearest to the model's: Arnold & Gokhale (1998)."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from unmask import bradley_terry
from unmask.errors import MethodError, NumericsError
from unmask.integers import whole_number
from unmask.joint import Joint
from unmask.printable import quoted
from unmask.tables import PairTables


def arnold_gokhale(tables: PairTables, *, steps: int | None = 50) -> Joint:
    """Minimise the KL from the model's conditionals to the joint's.

    Each step maps a joint with marginals r_a, r_b to one proportional to
    (q(a | b) + q(b | a)) / (1 / r_a + 1 / r_b), from uniform marginals (Torroba Hennigen & Kim
    2023, appendix C). The state is the two marginals; a step is one streaming pass.
    A number of steps is not convergence: `last_change` is the largest change of a log marginal in
    the step before the last.

    With `steps=None` the minimum itself is found, from the doubly masked marginals, by the solver
    in `unmask.bradley_terry`; the diagnostics say whether it converged and to what residual.
    """
    check_steps(steps)
    if steps is None:
        return _converged(tables)
    log_a, log_b, change = _stepped(tables, steps)
    return _joint(
        tables,
        log_a,
        log_b,
        {
            "steps": steps,
            "start": "uniform",
            "last_change": change,
            "stopped": "after the given number of steps",
        },
    )


def check_steps(steps: object) -> None:
    """Refuse a number of steps that cannot be taken."""
    if steps is not None and (whole_number(steps) or 0) < 1:
        raise MethodError(f"ag takes a number of steps from 1, or None, not {quoted(steps)}")


def _stepped(tables: PairTables, steps: int) -> tuple[Tensor, Tensor, float | None]:
    """The marginals before the last step: they, not the ones after it, give its joint."""
    device = tables.both()[0].logits.device
    log_a, log_b = (_log_uniform(len(axis), device) for axis in tables.supports)
    if steps == 1:
        return log_a, log_b, None
    tile_of_sums = summed_tables(tables)
    with tables.bar("ag", steps - 1) as bar:
        for _ in range(steps - 1):
            before_a, before_b = log_a, log_b
            log_a, log_b = step(tables.blocks(), tile_of_sums, log_a, log_b)
            bar.update()
    change = max(float((log_a - before_a).abs().max()), float((log_b - before_b).abs().max()))
    return log_a, log_b, change


def _converged(tables: PairTables) -> Joint:
    # the minimum is unique: where to start decides only how soon it is reached
    if tables.has_masked():
        start, name = (tables.masked.log_a, tables.masked.log_b), "doubly masked"
    else:
        size_a, size_b = tables.shape
        device = tables.a_given_b.logits.device
        start, name = (_log_uniform(size_a, device), _log_uniform(size_b, device)), "uniform"
    found = bradley_terry.solve(tables, *start)
    return _joint(
        tables,
        found.log_a,
        found.log_b,
        {
            "start": name,
            "passes": found.passes,
            "converged": found.converged,
            "residual": found.residual,
            "history": list(found.history),
        },
    )


def _joint(
    tables: PairTables, log_a: Tensor, log_b: Tensor, what_was_done: dict[str, object]
) -> Joint:
    """N / (1 / r_a + 1 / r_b), normalised."""

    def scores(rows: slice) -> Float[Tensor, "block b"]:
        return tables.tile(rows).log_sum - torch.logaddexp(-log_a[rows, None], -log_b)

    return Joint(
        scores,
        tables.supports,
        method="ag",
        diagnostics={**tables.diagnostics(), **what_was_done},
        device=log_a.device,
    )


TileOfSums = Callable[[slice], Tensor]


def step(
    blocks: list[slice],
    tile_of_sums: TileOfSums,
    log_a: Float[Tensor, " a"],
    log_b: Float[Tensor, " b"],
) -> tuple[Float[Tensor, " a"], Float[Tensor, " b"]]:
    """The log marginals of the next joint, in one pass.

    The sums run over probabilities, not logarithms: every term is positive, so float64 keeps
    their relative error near 1e-16 however small the marginals are.
    """
    a, b = log_a.exp(), log_b.exp()
    row_sums, column_sums = torch.zeros_like(a), torch.zeros_like(b)
    for rows in blocks:
        joint = tile_of_sums(rows)
        joint /= a[rows, None] + b
        row_sums[rows] = joint @ b
        column_sums += a[rows] @ joint
    next_a, next_b = log_a + row_sums.log(), log_b + column_sums.log()
    if not bool(torch.isfinite(next_a).all() and torch.isfinite(next_b).all()):
        raise NumericsError("Arnold-Gokhale's marginals left the range of float64; use fewer steps")
    log_total = torch.logsumexp(next_a, dim=0)
    return next_a - log_total, next_b - log_total


def summed_tables(tables: PairTables) -> TileOfSums:
    """q(a | b) + q(b | a) by rows, in float64: kept as float32 if there is room, else computed.

    Probabilities, not logarithms, are rounded, so every cell keeps a relative precision of 6e-8.
    Cells below float32's smallest number are dropped: at most V * 1e-38 a row, whose cells sum to
    one or more.
    """

    def computed(rows: slice) -> Tensor:
        tile = tables.tile(rows)
        return tile.log_a_given_b.exp() + tile.log_b_given_a.exp()

    size = 4 * tables.shape[0] * tables.shape[1]
    if size > tables.memory_left():
        return computed
    kept = torch.empty(tables.shape, dtype=torch.float32, device=tables.a_given_b.logits.device)
    for rows in tables.blocks():
        kept[rows] = computed(rows)
    return lambda rows: kept[rows].double()


def _log_uniform(size: int, device: torch.device) -> Float[Tensor, " size"]:
    return torch.full((size,), -math.log(size), dtype=torch.float64, device=device)
