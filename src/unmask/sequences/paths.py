"""Log-ratios of two texts along paths from one to the other, one token at a time.

By Hammersley, Clifford and Besag (1974), p(first) / p(second) is the product of
q(first_i | context) / q(second_i | context) over the places where the texts differ, each with the
first text's tokens at the places walked before it and the second's at those to come. For compatible
conditionals every order gives the same; how far orders disagree shows how far the model is from
that.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.model.batches import longest_first
from unmask.sequences.scores import LogRatio
from unmask.sequences.texts import TokenisedText
from unmask.sequences.token_rows import TOKENS_PER_CHUNK, TokenReader
from unmask.sequences.walks import Walks, drawn_orders, plan_walks

Pair = tuple[TokenisedText, TokenisedText]


def path_log_ratios(
    reader: TokenReader, pairs: Sequence[Pair], *, orders: int, seed: int
) -> list[LogRatio]:
    """Log-ratios of pairs of texts of equal length, averaged over orders of the places.

    Orders depend on the seed and on the number of places alone, not on other pairs.
    """
    found: dict[int, LogRatio] = {}
    sizes: dict[int, tuple[int, int]] = {}
    for number, pair in enumerate(pairs):
        if reason := why_no_path(pair):
            found[number] = LogRatio(None, None, 0, differing_places(pair), 0, reason)
        elif not (places := differing_places(pair)):
            found[number] = LogRatio(0.0, None, 1, 0, 0)
        else:
            sizes[number] = (len(pair[0].ids), places)
    for (length, places), members in longest_first(sizes.items()):
        walks = plan_walks(drawn_orders(places, orders, (seed, places)))
        reader.expect(walks.forward_passes * len(members))
        for chunk in row_blocks(len(members), walks.forward_passes * length, TOKENS_PER_CHUNK):
            by_order = _along(reader, walks, [pairs[number] for number in members[chunk]])
            for number, ratios in zip(members[chunk], by_order, strict=True):
                found[number] = _averaged(ratios, walks)
    return [found[number] for number in range(len(pairs))]


def differing_places(pair: Pair) -> int | None:
    """At how many places two texts differ; None if they do not have equally many."""
    first, second = pair
    if len(first.places) != len(second.places):
        return None
    return sum(a != b for a, b in zip(first.tokens, second.tokens, strict=True))


def why_no_path(pair: Pair) -> str | None:
    """Why no path leads from one text to the other one token at a time, if none does."""
    first, second = pair
    if len(first.places) != len(second.places):
        return (
            f"the texts have {len(first.places)} and {len(second.places)} tokens; hcb-path "
            "compares texts with equally many"
        )
    if first.template != second.template:
        return "the texts hold different special tokens; hcb-path compares texts with the same"
    return None


def _along(reader: TokenReader, walks: Walks, pairs: list[Pair]) -> Float[Tensor, "pairs orders"]:
    """The log-ratio of every pair along every order."""
    first, second = (torch.tensor([pair[side].ids for pair in pairs]) for side in (0, 1))
    places = (first != second).nonzero()[:, 1].view(len(pairs), -1)
    read = places[:, walks.place_read]
    tokens = torch.stack([first.gather(1, read), second.gather(1, read)], dim=2)
    ids = _inputs(first, second, places, walks).scatter_(2, read[:, :, None], reader.mask_id)
    found = reader.log_probs(ids.flatten(0, 1), read.view(-1, 1), tokens.view(-1, 1, 2))
    ratios = (found[:, 0, 0] - found[:, 0, 1]).view(read.shape)
    return ratios[:, walks.pass_at].sum(dim=2)


def _inputs(
    first: Int[Tensor, "pairs length"],
    second: Int[Tensor, "pairs length"],
    places: Int[Tensor, "pairs places"],
    walks: Walks,
) -> Int[Tensor, "pairs passes length"]:
    """The first text's tokens at the places that are filled, the second's elsewhere."""
    shape = (len(places), *walks.filled.shape)
    walked = torch.zeros(*shape[:2], first.shape[1], dtype=torch.bool)
    walked.scatter_(2, places[:, None].expand(shape), walks.filled.expand(shape))
    return torch.where(walked, first[:, None], second[:, None])


def _averaged(ratios: Float[Tensor, " orders"], walks: Walks) -> LogRatio:
    orders, places = walks.orders.shape
    error = float(ratios.std()) / math.sqrt(orders) if orders > 1 else None
    return LogRatio(float(ratios.mean()), error, orders, places, walks.forward_passes)
