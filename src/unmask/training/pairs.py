"""Two blanks of a text, filled with K tokens each: what the penalties are measured on.

For each pair of blanks one forward pass with both masked, from which tokens are drawn, and 2K with
one blank masked and the other filled.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from unmask.training.drawing import WeightedTokens, draw_tokens
from unmask.training.masking import Vocabulary, adjacent_pair, random_pair
from unmask.training.network import Network
from unmask.training.penalties import contradiction, interaction, marginal_divergence, relative
from unmask.training.texts import Batch


def passes_per_pair(tokens: int) -> int:
    """Both blanks masked once, then either blank with each token in the other."""
    return 2 * tokens + 1


@dataclass(frozen=True, eq=False)
class BlankPairs:
    """Texts with two places each, in the order of the text."""

    batch: Batch
    places: Int[Tensor, "pairs 2"]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.places)

    @property
    def own(self) -> Int[Tensor, "pairs 2"]:
        """The tokens of the text at these places."""
        return self.batch.ids.gather(1, self.places)


class Terms(NamedTuple):
    """Per pair of blanks: what both penalties are made of, and the NLL of either's own token."""

    contradiction: Float[Tensor, " pairs"]
    interaction: Float[Tensor, " pairs"]
    marginals: Float[Tensor, " pairs"]
    loss: Float[Tensor, " pairs"]

    @property
    def compatibility(self) -> Float[Tensor, ""]:
        """The compatibility penalty of all pairs together."""
        return relative(self.contradiction, self.interaction)


def choose_pairs(
    batch: Batch, vocabulary: Vocabulary, count: int, draw: torch.Generator
) -> BlankPairs | None:
    """At most `count` texts of a batch with two blanks each: adjacent or any two, as likely."""
    ordinary = vocabulary.places(batch)
    order = torch.randperm(len(batch), generator=draw).tolist()
    chosen_pairs: list[tuple[int, list[int]]] = []
    for row in order:
        if len(chosen_pairs) == count:
            break
        places = ordinary[row].nonzero().flatten().tolist()
        kind, *two = torch.rand(3, generator=draw, dtype=torch.float64).tolist()
        pair = adjacent_pair(places, two[0]) if kind < 0.5 else []
        pair = pair if len(pair) == 2 else random_pair(places, *two)
        if len(pair) == 2:
            chosen_pairs.append((row, pair))
    if not chosen_pairs:
        return None
    rows = torch.tensor([row for row, _ in chosen_pairs])
    some = Batch(batch.ids[rows], batch.attention[rows])
    return BlankPairs(some, torch.tensor([pair for _, pair in chosen_pairs]))


def measure_pairs(
    network: Network,
    pairs: BlankPairs,
    vocabulary: Vocabulary,
    tokens: int,
    draw: torch.Generator,
    *,
    compatibility: bool = True,
    marginals: bool = True,
) -> Terms:
    """Both penalties; those that are not asked for have no gradient, and cost none.

    The loss comes out of the passes of the conditionals, and has a gradient if compatibility has.

    Without dropout, whose noise would differ from row to row and count as contradiction.
    """
    with nullcontext() if marginals else torch.no_grad():
        log_masked = _masked(network, pairs, vocabulary.mask_id).log_softmax(-1)
    allowed = vocabulary.ordinary.to(log_masked.device)
    own = pairs.own.to(log_masked.device)
    drawn = [
        draw_tokens(log_masked[:, side], own[:, side], allowed, tokens, draw) for side in (0, 1)
    ]
    with nullcontext() if compatibility else torch.no_grad():
        logits = _filled(network, pairs, vocabulary.mask_id, drawn)
    (a, b), (log_a, log_b) = (one.tokens for one in drawn), (one.log_weights for one in drawn)
    # with b in place, logits of a, laid out [b, a]; with a in place, logits of b, [a, b]
    given_b = _at(logits[:, 0], a).transpose(1, 2)
    given_a = _at(logits[:, 1], b)
    log_conditionals = logits.detach().log_softmax(-1)
    divergence = marginal_divergence(log_masked[:, 0], log_conditionals[:, 0], log_b)
    divergence = divergence + marginal_divergence(log_masked[:, 1], log_conditionals[:, 1], log_a)
    # the text's own tokens are the first ones drawn
    both = torch.stack([logits[:, side, 0] for side in (0, 1)], 1)
    loss = cross_entropy(both.flatten(0, 1), own.flatten(), reduction="none")
    return Terms(
        contradiction(given_b, given_a),
        interaction(given_b, given_a),
        divergence / 2,
        loss.reshape(len(pairs), 2).mean(1),
    )


def _at(
    logits: Float[Tensor, "pairs contexts vocabulary"], tokens: Int[Tensor, "pairs outcomes"]
) -> Float[Tensor, "pairs contexts outcomes"]:
    return logits.gather(2, tokens[:, None].expand(-1, logits.shape[1], -1))


def _masked(
    network: Network, pairs: BlankPairs, mask_id: int
) -> Float[Tensor, "pairs 2 vocabulary"]:
    """Logits of both blanks with both masked."""
    batch, places = pairs.batch, pairs.places
    chosen = torch.zeros(batch.ids.shape, dtype=torch.bool).scatter(1, places, True)
    ids = torch.where(chosen, mask_id, batch.ids)
    logits = network.logits(Batch(ids, batch.attention), chosen)
    return logits.reshape(len(pairs), 2, -1)


def _filled(
    network: Network, pairs: BlankPairs, mask_id: int, drawn: list[WeightedTokens]
) -> Float[Tensor, "pairs 2 tokens vocabulary"]:
    """Logits of either blank, with each of the drawn tokens in the other."""
    count = drawn[0].tokens.shape[1]
    shape = (len(pairs), 2, count, pairs.batch.ids.shape[1])
    ids = pairs.batch.ids[:, None, None].expand(shape).clone()
    chosen = torch.zeros(shape, dtype=torch.bool)
    each = torch.arange(len(pairs))
    for side, other in ((0, 1), (1, 0)):
        ids[each, side, :, pairs.places[:, side]] = mask_id
        ids[each, side, :, pairs.places[:, other]] = drawn[other].tokens.cpu()
        chosen[each, side, :, pairs.places[:, side]] = True
    attention = pairs.batch.attention[:, None, None].expand(shape).flatten(0, 2)
    logits = network.logits(Batch(ids.flatten(0, 2), attention), chosen.flatten(0, 2))
    return logits.reshape(*shape[:3], -1)
