"""All orders of filling the blanks one after another, averaged."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.construction import Construction, Given
from unmask.constructions.needs import Needs, every_table
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Form, Product, Sum
from unmask.joints.joint import Joint
from unmask.joints.lazy_orders import LazyPair, log_means_by_sets
from unmask.names import MEANS
from unmask.tables.contexts import given
from unmask.tables.law import Factors
from unmask.tables.pair_tables import PairTables
from unmask.tables.protocol import Tables

Filled = tuple[int, ...]


def orders(tables: Tables, *, mean: str = MEANS[0]) -> Joint:
    """Average the factorisations of all orders in which the blanks can be filled.

    Each is the probability of filling one blank after the other: for two blanks m_b q(a | b) and
    m_a q(b | a), where m are the doubly masked marginals. The arithmetic mean needs no normaliser:
    the log-probability of a pair takes three forward passes, and ranking or sampling reads only the
    contexts it needs. The geometric mean needs the tables for its normaliser.
    """
    blanks = len(tables.shape)
    if mean == "geometric":
        form = Product((1 / blanks,) * blanks, tuple(_log_before_last(tables)))
        return form_joint(form, tables, method="orders", diagnostics={"mean": mean})
    if isinstance(tables, PairTables):
        engine = LazyPair(tables)
        diagnostics = {**tables.diagnostics(), "mean": mean}
        return Joint(engine, tables.supports, method="orders", diagnostics=diagnostics)
    means = log_means_by_sets(
        range(blanks),
        lambda filled, t: _log_step(tables, filled, t),
        torch.zeros((1,) * blanks, dtype=torch.float64),
        blanks - 1,
    )
    others = combinations(range(blanks), blanks - 1)
    # the blank that is left out is filled last: the last first
    times = tuple(means[filled] - math.log(blanks) for filled in others)[::-1]
    facts = {"mean": mean, "orders": math.factorial(blanks)}
    return form_joint(Sum(times), tables, method="orders", diagnostics=facts)


def _log_before_last(tables: Tables) -> Iterator[Float[Tensor, "..."]]:
    """The steps before the last, each with the part of the orders in which it comes."""
    blanks = len(tables.shape)
    for size in range(blanks - 1):
        part = math.factorial(size) * math.factorial(blanks - 1 - size) / math.factorial(blanks)
        for filled in combinations(range(blanks), size):
            for t in (t for t in range(blanks) if t not in filled):
                yield part * _log_step(tables, filled, t)


def _log_step(tables: Tables, filled: Filled, outcome: int) -> Float[Tensor, "..."]:
    return tables.log_given(given(len(tables.shape), filled), outcome)


def _is_arithmetic(options: Given) -> bool:
    return options.get("mean", MEANS[0]) == MEANS[0]


def _sketched(_: Factors, masked: Callable[[], Factors], *, mean: str = MEANS[0]) -> Form:
    if mean == "geometric":
        return Product((0.5, 0.5), tuple(log / 2 for log in masked()))
    return Sum(tuple(log - math.log(2) for log in masked()))


def _needs(shape: tuple[int, ...], options: Given) -> Needs:
    if len(shape) == 2:
        parts = Needs(masked=True, some=(1, 1))
        return parts if _is_arithmetic(options) else every_table(2)
    # every set of the others filled in every way, the rest masked
    every = math.prod(size + 1 for size in shape) - math.prod(shape)
    parts = every_table(len(shape))
    return replace(parts, between=every - parts.rows(shape))


ORDERS = Construction(
    orders,
    "filling the blanks one after another, averaged over all orders",
    _needs,
    without_tables=_is_arithmetic,
    sketched=_sketched,
    unsketched="",
)
