"""A Markov random field whose potential is the sum of both conditionals, or of their logits."""

from jaxtyping import Float
from torch import Tensor

from unmask.joint import Joint
from unmask.tables import PairTables


def markov_field(tables: PairTables) -> Joint:
    """Multiply both conditionals and renormalise: the MRF of Wang & Cho (2019).

    Counts the association of the pair twice, so it over-rewards locked pairs, and its
    conditionals differ from the model's even where those are compatible
    (Torroba Hennigen & Kim 2023, appendix B).
    """
    a_given_b, _ = tables.both()

    def scores(rows: slice) -> Float[Tensor, "block b"]:
        tile = tables.tile(rows)
        return tile.log_a_given_b + tile.log_b_given_a

    return Joint(
        scores,
        tables.supports,
        method="mrf",
        diagnostics=tables.diagnostics(),
        device=a_given_b.logits.device,
    )


def markov_field_of_logits(tables: PairTables) -> Joint:
    """Add both raw logits and renormalise: MRF_L of Torroba Hennigen & Kim (2023).

    Not a function of the model's distributions: adding a constant to the logits of one
    context, which no softmax notices, changes this joint. Offered for comparison.
    """
    a_given_b, b_given_a = tables.both()

    def scores(rows: slice) -> Float[Tensor, "block b"]:
        return a_given_b.logits.block(rows).double() + b_given_a.logits.block(rows)

    return Joint(
        scores,
        tables.supports,
        method="mrf-logit",
        diagnostics=tables.diagnostics(),
        device=a_given_b.logits.device,
    )
