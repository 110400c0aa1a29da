"""How far answers of a model about two blanks contradict each other, with a gradient.

Pure arithmetic on blocks of logits and log-probabilities, laid out `[a, b]`; which texts, places
and tokens they are of is for `pairs`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

# an interaction below this, of a quarter of a logit in each table, is noise: contradiction over
# such a small number would teach a model that has learnt nothing to make more of it
_SMALLEST = 0.1


def compatibility_penalty(
    a_given_b: Float[Tensor, "*pairs a b"], b_given_a: Float[Tensor, "*pairs a b"]
) -> Float[Tensor, ""]:
    """How much of what two blanks tell about each other is contradiction: from 0 to 2.

    The contradiction of all pairs over their interaction. It is 0 exactly where some joint has both
    conditionals on these tokens, for each pair. Two tables without anything in common have 1.
    Making all interactions smaller does not lower it, unless they are so small that they are noise:
    a mean interaction below 0.1 counts as 0.1.

    Args:
        a_given_b: Log-probabilities of some tokens of the first blank, given some of the second.
        b_given_a: The same of the second blank given the first, laid out the same way.
    Returns:
        A tensor with one number, differentiable.
    Examples:
        >>> import torch
        >>> log_joint = torch.randn(3, 3)
        >>> both = log_joint.log_softmax(0), log_joint.log_softmax(1)
        >>> bool(unmask.training.compatibility_penalty(*both) < 1e-6)
        True
    """
    return relative(contradiction(a_given_b, b_given_a), interaction(a_given_b, b_given_a))


def relative(
    contradictions: Float[Tensor, "*pairs"], interactions: Float[Tensor, "*pairs"]
) -> Float[Tensor, ""]:
    """The mean of the ones over that of the others: pairs that interact strongly count for more."""
    return contradictions.mean() / interactions.mean().clamp_min(_SMALLEST)


def contradiction(
    a_given_b: Float[Tensor, "*pairs a b"], b_given_a: Float[Tensor, "*pairs a b"]
) -> Float[Tensor, "*pairs"]:
    """The mean square of the doubly centred difference of two blocks of logits.

    Both are laid out `[a, b]`: logits of the tokens a with each b in place, and of the tokens b
    with each a in place. Per context any constant may be added: normalisers cancel.
    """
    return doubly_centred(a_given_b - b_given_a).square().mean((-2, -1))


def interaction(
    a_given_b: Float[Tensor, "*pairs a b"], b_given_a: Float[Tensor, "*pairs a b"]
) -> Float[Tensor, "*pairs"]:
    """The mean squares of both doubly centred blocks, added: how far each blank moves the other."""
    squares = [doubly_centred(one).square().mean((-2, -1)) for one in (a_given_b, b_given_a)]
    return squares[0] + squares[1]


def doubly_centred(table: Float[Tensor, "*pairs a b"]) -> Float[Tensor, "*pairs a b"]:
    """The table minus its row means and column means: what no sum f(a) + g(b) explains."""
    rows = table - table.mean(-1, keepdim=True)
    return rows - rows.mean(-2, keepdim=True)


def marginal_divergence(
    log_masked: Float[Tensor, "*pairs vocabulary"],
    log_conditionals: Float[Tensor, "*pairs contexts vocabulary"],
    log_weights: Float[Tensor, "*pairs contexts"],
) -> Float[Tensor, "*pairs"]:
    """KL from the mean of conditionals over contexts to the doubly masked distribution.

    With m_b as weights the mean is the sum over b of m_b(b) q(a | b), which m_a equals in a model
    whose answers fit together. The mean is a constant to the gradient: only the doubly masked
    distribution moves. It enters the gradient linearly, so that unbiased weights of a sample of
    contexts give an unbiased gradient; a gradient through a mean of few contexts would also reward
    conditionals that ignore their context. The value is the KL of unnormalised distributions, for
    weights of a sample need not add up to 1, and is too large by what the sample misses.

    Args:
        log_masked: Log-probabilities of a blank while both are masked.
        log_conditionals: Those of the same blank in each context.
        log_weights: Logarithms of the weights of the contexts.
    Returns:
        A tensor with a number of nats per pair.
    Examples:
        >>> import torch
        >>> log_masked = torch.tensor([0.25, 0.75]).log()
        >>> log_weights = torch.tensor([0.5, 0.5]).log()
        >>> same = torch.stack([log_masked, log_masked])
        >>> abs(unmask.training.marginal_divergence(log_masked, same, log_weights)) < 1e-6
        tensor(True)
    """
    log_mean = (log_conditionals + log_weights[..., None]).logsumexp(-2).detach()
    mean = log_mean.exp()
    # an outcome without mass adds nothing
    apart = torch.where(mean > 0, mean * (log_mean - log_masked), 0.0)
    return apart.sum(-1) - mean.sum(-1) + 1
