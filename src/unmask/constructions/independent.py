"""The model's own answer to two blanks: two independent guesses, multiplied."""

from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.joints.pair_joint import PairJoint
from unmask.tables.pair_tables import PairTables


def independent(tables: PairTables) -> Joint:
    """Multiply the two doubly masked distributions (Torroba Hennigen & Kim 2023, "MLM").

    One forward pass, and no dependence between the blanks: the baseline.
    """
    form = Product(0.0, 0.0, tables.masked.log_a, tables.masked.log_b)
    return PairJoint(form, tables, method="mlm", diagnostics={})
