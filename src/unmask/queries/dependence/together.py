"""Places of a text in groups without dependence among them: what may be filled at the same time.

Independent guesses are safe only between blanks that do not depend on each other.
"""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from unmask.arguments import real_number
from unmask.errors import UnmaskError
from unmask.printable import quoted

Groups = list[tuple[int, ...]]


def check_bound(at_most: object) -> float:
    """A number of bits from 0."""
    bits = real_number(at_most)
    if bits is None or not 0 <= bits < math.inf:
        raise UnmaskError(
            f"a bound on mutual information is a number of bits from 0, such as 0.05, not "
            f"{quoted(at_most)}"
        )
    return bits


def greedy_groups(
    values: Float[Tensor, "places places"], order: Sequence[int], at_most: float
) -> Groups:
    """Groups of places, each as large as it can be after those before, built in an order.

    A pair without a value, beyond the window of a map, counts as dependent.
    """
    rows, groups = values.tolist(), list[list[int]]()
    for place in order:
        fitting = (g for g in groups if all(rows[place][other] <= at_most for other in g))
        group = next(fitting, None)
        if group is None:
            groups.append([place])
        else:
            group.append(place)
    return [tuple(group) for group in groups]
