"""Log-ratios of two texts along paths from one to the other, one token at a time.

By Hammersley, Clifford and Besag (1974), p(first) / p(second) is the product of
q(first_i | context) / q(second_i | context) over the places where the texts differ, each with the
first text's tokens at the places walked before it and the second's at those to come. For compatible
conditionals every order gives the same; how far orders disagree shows how far the model is from
that.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.queries.joint_model import JointModel
from unmask.sequences.scores import LogRatio
from unmask.sequences.texts import TokenisedText
from unmask.settings import Settings
from unmask.text.unknown_tokens import warn_of_texts

Pair = tuple[TokenisedText, TokenisedText]


def path_log_ratios(
    lm: JointModel,
    pairs: Sequence[Pair],
    *,
    orders: int,
    seed: int,
    settings: Settings | None = None,
) -> list[LogRatio]:
    """Log-ratios of pairs of texts of equal length, averaged over orders of the places.

    Orders depend on the seed and on the number of places alone, not on other pairs.
    """
    texts = [text for pair in pairs for text in pair]
    unknown = [text.unknown for text in texts]
    warn_of_texts(lm.tokenizer, unknown, [text.special for text in texts])
    reader = RowReader(lm.model, Settings.of(settings))

    @cache
    def walks_of(places: int) -> Walks:
        return plan_walks(drawn_orders(places, orders, (seed, places)))

    def shape_of(pair: Pair) -> Shape:
        places = differing_places(pair) or 0
        return Shape(len(pair[0].ids), rows=walks_of(places).forward_passes, alike=(places,))

    def ratios(alike: list[Pair]) -> Iterator[LogRatio]:
        places = differing_places(alike[0]) or 0
        walks = walks_of(places)
        for by_order in _along(reader, walks, alike):
            count = len(by_order)
            error = float(by_order.std()) / math.sqrt(count) if count > 1 else None
            yield LogRatio(float(by_order.mean()), error, count, places, walks.forward_passes)

    unread = [_without_model(pair) for pair in pairs]
    to_read = [pair for pair, ratio in zip(pairs, unread, strict=True) if ratio is None]
    with reader.counted("hcb-path"):
        read = iter(run_by_shape(reader, to_read, shape_of, ratios))
    return [next(read) if ratio is None else ratio for ratio in unread]


def _without_model(pair: Pair) -> LogRatio | None:
    """The ratio of equal texts, and of texts without a path."""
    if reason := why_no_path(pair):
        return LogRatio(None, None, 0, differing_places(pair), 0, reason)
    return None if differing_places(pair) else LogRatio(0.0, None, 1, 0, 0)


def differing_places(pair: Pair) -> int | None:
    """At how many places two texts differ; None if they do not have equally many."""
    first, second = pair
    if len(first.places) != len(second.places):
        return None
    return sum(a != b for a, b in zip(first.tokens, second.tokens, strict=True))


def why_no_path(pair: Pair) -> str | None:
    """The reason why no path leads from one text to the other one token at a time, if none does."""
    first, second = pair
    if len(first.places) != len(second.places):
        return (
            f"the texts have {len(first.places)} and {len(second.places)} tokens; hcb-path "
            "compares texts with equally many"
        )
    if first.template != second.template:
        return "the texts hold different special tokens; hcb-path compares texts with the same"
    return None


def _along(reader: RowReader, walks: "Walks", pairs: list[Pair]) -> Float[Tensor, "pairs orders"]:
    """The log-ratio of every pair along every order."""
    first, second = (torch.tensor([pair[side].ids for pair in pairs]) for side in (0, 1))
    places = (first != second).nonzero()[:, 1].view(len(pairs), -1)
    read = places[:, walks.place_read]
    tokens = torch.stack([first.gather(1, read), second.gather(1, read)], dim=2)
    # the first text's tokens at the places that are filled, the second's elsewhere
    here, there = (text.gather(1, places)[:, None] for text in (first, second))
    at = places[:, None].expand(-1, *walks.filled.shape)
    ids = second[:, None].repeat(1, at.shape[1], 1)
    ids.scatter_(2, at, torch.where(walks.filled, here, there))
    ids.scatter_(2, read[:, :, None], reader.model.mask_id)
    both = tokens.view(-1, 1, 2)
    log_probs = reader.token_log_probs(ids.flatten(0, 1), read.view(-1, 1), both).log_probs
    ratios = (log_probs[:, 0, 0] - log_probs[:, 0, 1]).view(read.shape)
    return ratios[:, walks.pass_at].sum(dim=2)


# --- orders, and the forward passes that all of them need together -----------------------------


def drawn_orders(places: int, orders: int, entropy: Sequence[int]) -> Int[Tensor, "orders places"]:
    """So many different orders of the places, or all if there are no more than that.

    The generator is seeded by `entropy` alone.
    """
    if places < 20 and math.factorial(places) <= orders:
        return torch.tensor(list(permutations(range(places)))).view(-1, places)
    generator = np.random.default_rng(list(entropy))
    distinct: dict[tuple[int, ...], None] = {}
    while len(distinct) < orders:
        distinct[tuple(generator.permutation(places).tolist())] = None
    return torch.tensor(list(distinct))


@dataclass(frozen=True, eq=False)
class Walks:
    """Orders of filling places, and the forward passes that they need: none twice.

    A forward pass has some places `filled` and reads one, `place_read`; the number of the one that
    an order needs at a step is `pass_at[order, step]`.
    """

    filled: Bool[Tensor, "passes places"]
    place_read: Int[Tensor, " passes"]
    pass_at: Int[Tensor, "orders places"]

    @property
    def forward_passes(self) -> int:
        """The number of forward passes that one pair of texts takes."""
        return len(self.filled)


def plan_walks(orders: Int[Tensor, "orders places"]) -> Walks:
    """The forward passes that walking these orders needs."""
    filled = orders.argsort(dim=1)[:, None, :] < torch.arange(orders.shape[1])[:, None]
    read = torch.nn.functional.one_hot(orders, orders.shape[1]).bool()
    packed = np.packbits(torch.cat([filled, read], dim=2).flatten(0, 1).numpy(), axis=1)
    _, first, number = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    distinct = torch.from_numpy(first)
    return Walks(
        filled.flatten(0, 1)[distinct],
        orders.flatten()[distinct],
        torch.from_numpy(number).view(orders.shape),
    )
