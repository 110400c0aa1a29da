"""The Hammersley-Clifford-Besag joint: one table, tied together along one pivot token."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import MethodError
from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.joints.pair_joint import PairJoint
from unmask.printable import quoted
from unmask.tables.pair_tables import PairTables
from unmask.text.support import Support, Token


def besag(tables: PairTables, *, pivot: Token | None = None, pivot_axis: int = 0) -> Joint:
    """Reconstruct the joint from its conditionals through a pivot (Besag 1974).

    With the pivot a' on axis 0, log p(a, b) = log q(a | b) + log q(b | a') - log q(a' | b) up to
    a constant; the pivot of the other blank cancels. Exact for compatible conditionals whatever
    the pivot. Otherwise the conditionals of axis 0 are the model's own and all unfaithfulness
    falls on the other blank, so swapping the blanks changes the joint: `pivot_axis=1` swaps.
    The default pivot is the mode of the doubly masked distribution, as in the paper.
    """
    check_pivot_axis(pivot_axis)
    support = tables.supports[pivot_axis]
    if pivot is None:
        masked = tables.masked
        place = int(torch.argmax(masked.log_a if pivot_axis == 0 else masked.log_b))
    else:
        place = support.index(pivot)
    if pivot_axis == 0:
        log_weight = _weights_over_b(tables, place)
        form = Product(1.0, 0.0, log_weight.new_zeros(tables.shape[0]), log_weight)
    else:
        log_weight = _weights_over_a(tables, place)
        form = Product(0.0, 1.0, log_weight, log_weight.new_zeros(tables.shape[1]))
    found = {"pivot": support.names[place], "pivot_axis": int(pivot_axis)}
    return PairJoint(form, tables, method="hcb", diagnostics=found)


def check_pivot_axis(pivot_axis: object) -> None:
    """Refuse an axis that a pair does not have."""
    if whole_number(pivot_axis) not in (0, 1):
        raise MethodError(f"pivot_axis is 0 or 1, not {quoted(pivot_axis)}")


def check_pivot_token(pivot: object) -> None:
    """Refuse what is no single token, such as the list of them that more blanks take."""
    if pivot is not None and not isinstance(pivot, str) and whole_number(pivot) is None:
        raise MethodError(
            "pivot takes one token of two blanks, a name or an id, with pivot_axis=1 one of the "
            f"second blank, not {quoted(pivot)}"
        )


def check_pivot(options: Mapping[str, object], axes: tuple[Support, ...]) -> None:
    """Refuse an unknown pivot before anything is elicited."""
    axis = options.get("pivot_axis", 0)
    if options.get("pivot") is not None and axis in range(len(axes)):
        axes[int(str(axis))].index(options["pivot"])


def _weights_over_b(tables: PairTables, pivot: int) -> Float[Tensor, " b"]:
    # the table first: once it is there, nothing else needs more than one further pass
    log_pivot_given_b = tables.a_given_b.log_prob_of(pivot)
    return tables.log_b_given([pivot])[0] - log_pivot_given_b


def _weights_over_a(tables: PairTables, pivot: int) -> Float[Tensor, " a"]:
    log_pivot_given_a = tables.b_given_a.log_prob_of(pivot)
    return tables.log_a_given([pivot])[0] - log_pivot_given_a
