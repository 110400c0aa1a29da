"""The model's own answer to two blanks: two independent guesses, multiplied."""

from jaxtyping import Float
from torch import Tensor

from unmask.joint import Joint
from unmask.tables import PairTables


def independent(tables: PairTables) -> Joint:
    """Multiply the two doubly masked distributions (Torroba Hennigen & Kim 2023, "MLM").

    One forward pass, and no dependence between the blanks: the baseline.
    """
    masked = tables.masked

    def scores(rows: slice) -> Float[Tensor, "block b"]:
        return masked.log_a[rows, None] + masked.log_b

    return Joint(
        scores,
        tables.supports,
        method="mlm",
        diagnostics=tables.diagnostics(),
        device=masked.log_a.device,
    )
