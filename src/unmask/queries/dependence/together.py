"""Which blanks of a text may be filled at the same time: groups of them.

Independent guesses are safe only between blanks that do not depend on each other. A group is built
greedily: the blank that the model is surest of, then every further one, in that order, whose mutual
information with all in the group stays below a bound. It is measured with all blanks masked, as the
model sees them.
"""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from unmask.arguments import real_number
from unmask.errors import ClozeError, UnmaskError
from unmask.model.row_reader import Outcomes, RowReader
from unmask.printable import quoted
from unmask.queries.dependence.information import by_information
from unmask.queries.dependence.question import MapOptions, MapQuestion

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
    values: Float[Tensor, "blanks blanks"], surest_first: Sequence[int], at_most: float
) -> Groups:
    """Blanks in groups, each as large as it comes out; `surest_first` is the order they are in."""
    left, groups = list(surest_first), []
    while left:
        group: list[int] = []
        for blank in left:
            if all(float(values[blank, other]) <= at_most for other in group):
                group.append(blank)
        groups.append(tuple(group))
        left = [blank for blank in left if blank not in group]
    return groups


def independent_groups(
    reader: RowReader, question: MapQuestion, options: MapOptions, at_most: float
) -> tuple[Groups, Float[Tensor, "blanks size"]]:
    """The groups of all blanks, the surest first, and the distribution of each blank."""
    if max(question.widths) > 1:
        raise ClozeError(
            "blanks that are filled together have one token each, and some have more; write one "
            "mask per blank"
        )
    positions = [place.positions[0] for place in question.places]
    readouts = reader.one(question.ids, positions, what="forward passes")
    log_probs = Outcomes.of(reader.model, options.support).log_probs(readouts).cpu()
    order = log_probs.amax(dim=1).argsort(descending=True, stable=True).tolist()
    if len(order) == 1:
        return [(0,)], log_probs
    (measured,) = by_information(reader, [question], options)
    return greedy_groups(measured.values, order, at_most), log_probs
