"""What a pass shows of every two blanks, beside its predictions: the inputs of a dependence head.

Per pair: the logarithm of the attention between the two in every layer and head, the mean and the
larger of both directions; the smaller and the larger entropy and confidence; how near they are; the
cosine of their hidden states in the middle layer and the last; the overlap of their predictions.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.model.inside import Inside
from unmask.queries.parallel.rules import entropies

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
    inside: Inside, log_probs: Float[Tensor, "blanks size"], positions: list[int]
) -> Float[Tensor, "pairs features"]:
    """The features of every two blanks of one row, in the order of `torch.triu_indices`."""
    count = len(positions)
    first, second = torch.triu_indices(count, count, offset=1)
    parts: list[Tensor] = []
    if inside.attention is not None:
        weights = inside.attention[0].flatten(0, 1).cpu().clamp(min=_LEAST)
        one, other = weights[:, first, second], weights[:, second, first]
        parts += [((one + other) / 2).log().T, torch.maximum(one, other).log().T]
    entropy, sure = entropies(log_probs).float(), log_probs.amax(dim=1).exp().float()
    for values in (entropy, sure):
        both = torch.stack([values[first], values[second]])
        parts += [both.amin(dim=0)[:, None], both.amax(dim=0)[:, None]]
    places = torch.tensor(positions)
    apart = (places[first] - places[second]).abs().float()
    parts += [(1 / (apart + 1))[:, None], *((apart == n).float()[:, None] for n in (1, 2))]
    if inside.hidden is not None:
        states = inside.hidden[0].cpu()
        for layer in (len(states) // 2, len(states) - 1):
            unit = torch.nn.functional.normalize(states[layer], dim=-1)
            parts.append((unit[first] * unit[second]).sum(dim=1, keepdim=True))
    roots = (log_probs / 2).exp().float()
    parts.append((roots[first] * roots[second]).sum(dim=1, keepdim=True))
    return torch.cat(parts, dim=1)
