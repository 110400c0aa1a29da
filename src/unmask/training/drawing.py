"""Which tokens a penalty is measured on: the text's own, and a weighted sample of the others."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class WeightedTokens(NamedTuple):
    """Tokens per distribution, the text's own first, and log-weights for sums over all tokens."""

    tokens: Int[Tensor, "rows count"]
    log_weights: Float[Tensor, "rows count"]


def draw_tokens(
    log_p: Float[Tensor, "rows vocabulary"],
    own: Int[Tensor, " rows"],
    allowed: Bool[Tensor, " vocabulary"],
    count: int,
    generator: torch.Generator,
) -> WeightedTokens:
    """The own token, and `count - 1` others without replacement, in proportion to their p.

    Others are those with the largest log p + Gumbel noise: likely tokens are nearly always among
    them, unlikely ones in proportion. With the weights, the sum over the drawn tokens of
    weight * f is an unbiased estimate of the sum over all allowed tokens of p * f (Kool, van Hoof
    & Welling 2019, section 4.2): a token's p over its probability of being drawn, given the
    largest value that was not.
    """
    log_p = log_p.detach().double().masked_fill(~allowed, -torch.inf).log_softmax(-1)
    own = own[:, None]
    # on the CPU, so that every device draws the same
    noise = torch.rand(log_p.shape, generator=generator, dtype=torch.float64)
    gumbel = -(-noise.clamp_min(1e-300).log()).log()
    perturbed = (log_p + gumbel.to(log_p.device)).scatter(1, own, -torch.inf)
    # the own token and those that are not allowed are never drawn
    largest = perturbed.topk(min(count, log_p.shape[1]), dim=1)
    others, beyond = largest.indices[:, : count - 1], largest.values[:, count - 1 : count]
    log_others = log_p.gather(1, others)
    # 1 - exp(-exp(log p - beyond)) is the probability that a token's value exceeds `beyond`
    log_included = (-torch.expm1(-torch.exp(log_others - beyond))).log()
    return WeightedTokens(
        torch.cat([own, others], 1),
        torch.cat([log_p.gather(1, own), log_others - log_included], 1).float(),
    )
