"""A Markov random field whose potential is the sum of both conditionals, or of their logits."""

import torch

from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.joints.pair_joint import PairJoint
from unmask.tables.pair_tables import PairTables


def markov_field(tables: PairTables) -> Joint:
    """Multiply both conditionals and renormalise: the MRF of Wang & Cho (2019).

    Counts the association of the pair twice, so it over-rewards locked pairs, and its
    conditionals differ from the model's even where those are compatible
    (Torroba Hennigen & Kim 2023, appendix B).
    """
    a_given_b, b_given_a = tables.both()
    nothing_a = torch.zeros_like(b_given_a.log_normalizer)
    nothing_b = torch.zeros_like(a_given_b.log_normalizer)
    form = Product(1.0, 1.0, nothing_a, nothing_b)
    return PairJoint(form, tables, method="mrf", diagnostics={})


def markov_field_of_logits(tables: PairTables) -> Joint:
    """Add both raw logits and renormalise: MRF_L of Torroba Hennigen & Kim (2023).

    Not a function of the model's distributions: adding a constant to the logits of one
    context, which no softmax notices, changes this joint. Offered for comparison.
    """
    a_given_b, b_given_a = tables.both()
    # logits are log-probabilities and the normaliser that was taken from them
    form = Product(1.0, 1.0, b_given_a.log_normalizer, a_given_b.log_normalizer)
    return PairJoint(form, tables, method="mrf-logit", diagnostics={})
