"""Which tokens of a joint a picture shows, and their probabilities.

Half of the tokens of a blank come from the likeliest pairs, down their ranking; the others are the
likeliest of the blank's marginal. They stand in the order of the marginal. A joint whose sums are
not free has no marginal here: all its tokens come from the likeliest pairs, in their order.
"""

import math
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.joint import Joint
from unmask.printable import printable, quoted

_LONGEST_LABEL = 18


class Cells(NamedTuple):
    """The tokens that are shown, as places on both axes."""

    rows: list[int]
    columns: list[int]


def shown_cells(joints: Sequence[Joint], n: int) -> Cells:
    """The same tokens for all of these joints, which take turns in choosing."""
    return Cells(_chosen(joints, 0, n), _chosen(joints, 1, n))


def log_cells(joint: Joint, cells: Cells) -> Float[Tensor, "rows columns"]:
    """Log-probabilities of all pairs of these tokens; no forward pass that they do not need."""
    if joint.is_tabulated():
        each = [joint.log_rows(slice(row, row + 1))[0, cells.columns] for row in cells.rows]
        return torch.stack(each).cpu()
    pairs = torch.cartesian_prod(torch.tensor(cells.rows), torch.tensor(cells.columns))
    log_p = joint.engine.scores_of(pairs) - joint.log_normalizer
    return log_p.reshape(len(cells.rows), len(cells.columns))


def log_marginal(joint: Joint, axis: int) -> Float[Tensor, " size"]:
    """The log-probabilities of one blank alone."""
    return joint.marginal(axis).log_rows(slice(None)).cpu()


def pmi(joint: Joint, cells: Cells) -> Float[Tensor, "rows columns"]:
    """How much likelier every pair is than its tokens apart, in nats."""
    log_a = log_marginal(joint, 0)[cells.rows]
    log_b = log_marginal(joint, 1)[cells.columns]
    return log_cells(joint, cells) - log_a[:, None] - log_b


def cell_labels(joint: Joint, cells: Cells) -> tuple[list[str], list[str]]:
    """The tokens of rows and of columns as a figure shows them."""
    rows, columns = (
        [label(axis.names[place]) for place in places]
        for axis, places in zip(joint.supports, cells, strict=True)
    )
    return rows, columns


def label(name: str) -> str:
    """One token as a figure shows it: escaped, shortened, never invisible."""
    if not name.strip():
        return quoted(name)
    if len(name) > _LONGEST_LABEL:
        name = name[: _LONGEST_LABEL // 2] + "..." + name[-_LONGEST_LABEL // 2 + 3 :]
    return printable(name)


def _chosen(joints: Sequence[Joint], axis: int, n: int) -> list[int]:
    turns = zip_longest(*(_wanted(joint, axis, n) for joint in joints))
    found = (place for place in chain(*turns) if place is not None)
    places = list(dict.fromkeys(found))[:n]
    free = [log_marginal(joint, axis).exp() for joint in joints if joint.is_tabulated()]
    if free:
        total = torch.stack(free).sum(dim=0)
        places.sort(key=lambda place: (-float(total[place]), place))
    return places


def _wanted(joint: Joint, axis: int, n: int) -> list[int]:
    """What a joint would show of a blank, most wanted first."""
    free = joint.is_tabulated()
    pairs = joint.top(min(2 * n, math.prod(joint.shape)))
    of_pairs = dict.fromkeys(joint.supports[axis].index(fill.ids[axis]) for fill in pairs)
    chosen = list(of_pairs)[: math.ceil(n / 2) if free else n]
    if free:
        by_marginal = torch.sort(log_marginal(joint, axis), descending=True, stable=True).indices
        chosen += [place for place in by_marginal[: 2 * n].tolist() if place not in chosen]
    return chosen[:n]
