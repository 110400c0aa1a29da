"""What a pass shows of every two blanks, beside its predictions: the inputs of a dependence head.

Per pair: the logarithm of the attention between the two in every layer and head, the mean and the
larger of both directions; the smaller and the larger entropy and confidence; how near they are; the
cosine of their hidden states in the middle layer and the last; the overlap of their predictions.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes, RowReader

# below this, attention weights are rounding
_LEAST = 1e-6
CERTAINTY, DISTANCE, STATES, OVERLAP = 4, 3, 2, 1


def feature_groups(inside: Inside) -> dict[str, int]:
    """How many features of each kind a model shows, in their order."""
    weights, hidden = inside.attention, inside.hidden
    return {
        "attention": 0 if weights is None else 2 * weights.shape[1] * weights.shape[2],
        "certainty": CERTAINTY,
        "distance": DISTANCE,
        "states": 0 if hidden is None else STATES,
        "overlap": OVERLAP,
    }


def pair_features(
    inside: Inside,
    log_probs: Float[Tensor, "rows blanks size"],
    positions: Int[Tensor, "rows blanks"],
) -> Float[Tensor, "rows pairs features"]:
    """The features of every two blanks of each row, in the order of `torch.triu_indices`."""
    first, second = torch.triu_indices(positions.shape[1], positions.shape[1], offset=1)
    parts: list[Tensor] = []
    if inside.attention is not None:
        weights = inside.attention.flatten(1, 2).cpu().clamp(min=_LEAST)
        one, other = weights[:, :, first, second], weights[:, :, second, first]
        parts += [((one + other) / 2).log().mT, torch.maximum(one, other).log().mT]
    narrow = log_probs.float()
    probabilities = narrow.exp()
    # without a product as large as the table
    entropy = -(probabilities[:, :, None] @ narrow[:, :, :, None])[:, :, 0, 0]
    for values in (entropy, narrow.amax(dim=2).exp()):
        both = torch.stack([values[:, first], values[:, second]], dim=2)
        parts += [both.amin(dim=2, keepdim=True), both.amax(dim=2, keepdim=True)]
    apart = (positions[:, first] - positions[:, second]).abs().float()[:, :, None]
    parts += [1 / (apart + 1), (apart == 1).float(), (apart == 2).float()]
    if inside.hidden is not None:
        states = inside.hidden.cpu()
        for layer in (states.shape[1] // 2, states.shape[1] - 1):
            unit = torch.nn.functional.normalize(states[:, layer], dim=-1)
            parts.append((unit @ unit.mT)[:, first, second, None])
    roots = probabilities.sqrt_()
    parts.append((roots @ roots.mT)[:, first, second, None])
    return torch.cat(parts, dim=2)


def each_masked(
    reader: RowReader,
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    outcomes: Outcomes,
    use: Callable[[int, Inside, Tensor, Tensor], None],
    *,
    attention: bool,
) -> None:
    """Show `use` the number of every row, what a pass computes at its positions, and these.

    Rows are ids and positions; alike ones run together. `use` gets them one by one.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for number, row in enumerate(rows):
        alike.setdefault((len(row[0]), len(row[1])), []).append(number)
    for members in alike.values():
        ids = torch.tensor([rows[number][0] for number in members])
        at = torch.tensor([rows[number][1] for number in members])

        def use_batch(
            batch: slice, inside: Inside, members: list[int] = members, at: Tensor = at
        ) -> None:
            for row, number in enumerate(members[batch]):
                one = inside.part(slice(row, row + 1), at.shape[1])
                log_probs = outcomes.log_probs(one.readouts[0]).cpu()[None]
                use(number, one, log_probs, at[batch][row : row + 1])

        reader.each_inside(ids, at, use_batch, attention=attention)
