"""The tokens of a joint that a picture shows, and their probabilities.

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
    """The tokens that are shown, by their ids: sketches of one text differ in their axes."""

    rows: list[int]
    columns: list[int]


def shown_cells(joints: Sequence[Joint], n: int) -> Cells:
    """The same tokens for all of these joints, which take turns in choosing."""
    return Cells(_chosen(joints, 0, n), _chosen(joints, 1, n))


def log_cells(joint: Joint, cells: Cells) -> Float[Tensor, "rows columns"]:
    """Log-probabilities of all pairs of these tokens; no forward pass that they do not need."""
    rows, columns = (places(joint, axis, ids) for axis, ids in enumerate(cells))
    if joint.is_tabulated():
        each = [joint.log_rows(slice(row, row + 1))[0, columns] for row in rows]
        return torch.stack(each).cpu()
    pairs = torch.cartesian_prod(torch.tensor(rows), torch.tensor(columns))
    log_p = joint.engine.scores_of(pairs) - joint.log_normalizer
    return log_p.reshape(len(rows), len(columns))


def places(joint: Joint, axis: int, ids: Sequence[int]) -> list[int]:
    """The places of these tokens on one axis of a joint."""
    return [joint.supports[axis].index(token) for token in ids]


def log_marginal(joint: Joint, axis: int) -> Float[Tensor, " size"]:
    """The log-probabilities of one blank alone."""
    return joint.marginal(axis).log_rows(slice(None)).cpu()


def pmi(joint: Joint, cells: Cells) -> Float[Tensor, "rows columns"]:
    """The PMI of every pair of tokens, in nats."""
    log_a, log_b = (
        log_marginal(joint, axis)[places(joint, axis, ids)] for axis, ids in enumerate(cells)
    )
    return log_cells(joint, cells) - log_a[:, None] - log_b


def cell_labels(joint: Joint, cells: Cells) -> tuple[list[str], list[str]]:
    """The tokens of rows and of columns as a figure shows them."""
    rows, columns = (
        [label(joint.supports[axis].names[place]) for place in places(joint, axis, ids)]
        for axis, ids in enumerate(cells)
    )
    return rows, columns


def label(name: str) -> str:
    """One token as a figure shows it: escaped, shortened, never invisible."""
    if not name.strip():
        return quoted(name)
    if len(name) > _LONGEST_LABEL:
        name = name[: _LONGEST_LABEL // 2] + "..." + name[-_LONGEST_LABEL // 2 + 3 :]
    return printable(name)


def signed(value: float, decimals: int, *, plus: bool = False) -> str:
    """A number as a cell shows it: no sign where it rounds to 0, and a real minus."""
    text = f"{value:{'+' if plus else ''}.{decimals}f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def _chosen(joints: Sequence[Joint], axis: int, n: int) -> list[int]:
    turns = zip_longest(*(_wanted(joint, axis, n) for joint in joints))
    axes = [joint.supports[axis] for joint in joints]
    # a token that one of the sketches does not hold has no cell there
    ids = [
        token
        for token in dict.fromkeys(token for token in chain(*turns) if token is not None)
        if all(token in support.place_of_id for support in axes)
    ][:n]
    free = [joint for joint in joints if joint.is_tabulated()]
    if free:
        each = [log_marginal(joint, axis)[places(joint, axis, ids)].exp() for joint in free]
        total = dict(zip(ids, torch.stack(each).sum(dim=0).tolist(), strict=True))
        ids.sort(key=lambda token: (-total[token], axes[0].index(token)))
    return ids


def _wanted(joint: Joint, axis: int, n: int) -> list[int]:
    """The tokens of a blank that a joint would show, most wanted first."""
    free = joint.is_tabulated()
    pairs = joint.top(min(2 * n, math.prod(joint.shape)))
    of_pairs = dict.fromkeys(fill.ids[axis] for fill in pairs)
    wanted = list(of_pairs)[: math.ceil(n / 2) if free else n]
    if free:
        by_marginal = torch.sort(log_marginal(joint, axis), descending=True, stable=True).indices
        likely = joint.supports[axis].ids.cpu()[by_marginal[: 2 * n]].tolist()
        wanted += [token for token in likely if token not in wanted]
    return wanted[:n]
