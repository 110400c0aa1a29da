"""Features of every two blanks, from one forward pass: the inputs of a dependence head.

Per pair: the logarithm of the attention between the two in every layer and head, the mean and the
larger of both directions; the smaller and the larger entropy and confidence; how near they are; the
cosine of their hidden states in the middle layer and the last; the overlap of their predictions.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes, RowReader

# below this, attention weights are rounding
_LEAST = 1e-6


def feature_groups(inside: Inside) -> dict[str, int]:
    """The numbers of features of each kind that a model shows, in their order."""
    attention = 0 if inside.attention is None else 2 * inside.attention[0, :, :, 0, 0].numel()
    states = 0 if inside.hidden is None else 2
    return {"attention": attention, "certainty": 4, "distance": 3, "states": states, "overlap": 1}


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
        there, back = weights[:, :, first, second], weights[:, :, second, first]
        parts += [((there + back) / 2).log_().mT, torch.maximum(there, back).log_().mT]
    narrow = log_probs.float()
    probabilities = narrow.exp()
    # a product of matrices takes four times as long, and a product of all numbers their memory
    entropy = -torch.linalg.vecdot(probabilities, narrow)
    for values in (entropy, narrow.amax(dim=2).exp()):
        both = torch.stack([values[:, first], values[:, second]], dim=2)
        parts += [both.amin(dim=2, keepdim=True), both.amax(dim=2, keepdim=True)]
    distances = (positions[:, first] - positions[:, second]).abs().float()[:, :, None]
    parts += [1 / (distances + 1), (distances == 1).float(), (distances == 2).float()]
    vectors = [probabilities.sqrt_()]
    if inside.hidden is not None:
        vectors = [*torch.nn.functional.normalize(inside.hidden.cpu(), dim=-1).unbind(1), *vectors]
    parts += [(values @ values.mT)[:, first, second, None] for values in vectors]
    return torch.cat(parts, dim=2)


# receives the numbers of some rows, readouts and inner states at their positions, log-probabilities
# there, and the positions; rows with fewer positions than the others repeat their first one
UseMasked = Callable[[Sequence[int], Inside, Tensor, Tensor], None]


def each_masked(
    reader: RowReader,
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    outcomes: Outcomes,
    use: UseMasked,
    *,
    inside: bool = True,
    attention: bool = True,
) -> None:
    """Show `use` what a pass computes at the positions of rows, given as ids and positions.

    Rows of one length run together. Without `inside` a pass computes readouts alone.
    """
    by_length: dict[int, list[int]] = {}
    # rows with as many positions are neighbours, so that few are read in vain
    for number in sorted(range(len(rows)), key=lambda number: len(rows[number][1])):
        by_length.setdefault(len(rows[number][0]), []).append(number)

    def each_of(numbers: list[int]) -> None:
        most = len(rows[numbers[-1]][1])
        ids = torch.tensor([rows[number][0] for number in numbers])
        padded = [[*at, *[at[0]] * (most - len(at))] for at in (rows[n][1] for n in numbers)]
        places = torch.tensor(padded)

        def read(batch: slice, computed: Inside) -> None:
            here = numbers[batch]
            count = len(rows[here[-1]][1])
            for block in row_blocks(len(here), count * outcomes.size):
                part, positions = computed.part(block, count), places[batch][block, :count]
                log_probs = outcomes.log_probs(part.readouts.flatten(0, 1)).cpu()
                use(here[block], part, log_probs.view(*positions.shape, -1), positions)

        def read_alone(batch: slice, readouts: Tensor) -> None:
            read(batch, Inside(readouts))

        if inside:
            reader.each_inside(ids, places, read, attention=attention)
        else:
            reader.each_batch(ids, places, read_alone)

    for numbers in by_length.values():
        each_of(numbers)
